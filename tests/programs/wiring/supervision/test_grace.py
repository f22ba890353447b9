from __future__ import annotations

from boonta.nodes.watch.program_end import SAVING_S
from boonta.programs.wiring.supervision.grace import Grace, cut_short


def test_nodes_that_do_not_save_have_so_long():
    grace = Grace(14.0)
    assert [now for now in range(100, 120) if grace.is_over(100.0, now, saving=False)] == list(range(115, 120))


def test_the_time_of_saves_comes_on_top():
    grace = Grace(14.0)
    assert not any(grace.is_over(100.0, now, saving=105 <= now < 400) for now in range(50, 410))
    assert grace.saving_s == 295 and grace.whole_s == 309
    assert grace.is_over(100.0, 410.0, saving=False)


def test_a_save_does_not_take_for_ever():
    grace = Grace(14.0)
    over = next(now for now in range(100, 10_000) if grace.is_over(100.0, now, saving=True))
    assert over == 100 + 14 + SAVING_S + 1


def test_a_pause_of_the_machine_does_not_count():
    grace = Grace(14.0)
    assert not grace.is_over(100.0, 101.0, saving=False) and not grace.is_over(100.0, 121.0, saving=False)
    assert [now for now in range(122, 140) if grace.is_over(100.0, now, saving=False)][0] == 100 + 17 + 15


def test_only_nodes_that_lose_something_are_cut_short():
    def node(activity: str, saves: bool = True, started: bool = True, gone: bool = False) -> dict:
        return {"activity": activity, "saves": saves, "started": started, "gone": gone}

    late = {
        "learner": node("updating"),
        "replay": node("stopping the server"),
        "inference": node("acting", saves=False),
        "evaluator": node("compiling", saves=False),
        "anakin": node("restoring", started=False),
        "other": node("closing", gone=True),
    }
    assert cut_short(late) == ("learner (updating)", "inference (acting)")
