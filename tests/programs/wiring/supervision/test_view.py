"""The display: the line, and the live table."""

from __future__ import annotations

import signal

import pytest
from rich.console import Console

from boonta.programs.wiring.supervision import view

STATUS = {
    "totals": {"env_steps": 12345.0, "updates": 67.0, "seconds": 3725.0},
    "row": {
        "return": -20.5,
        "env_steps": 12000.0,
        "env_steps_per_s": 1500.4,
        "updates_per_s": 9.4,
        "policy_lag": 6.25,
        "share/actor/waiting_for_room_in_trajectories": 0.4,
        "share/learner/waiting_for_trajectories": 0.02,
        "share/learner/updating": 0.9,
    },
    "nodes": {
        "actor/0": {
            "activity": "acting",
            "activity_s": 0.1,
            "report_age_s": 0.5,
            "rss_mb": 500.0,
            "process": "host/1",
            "gone": False,
            "hung": "",
            "warnings": [],
        },
        "learner": {
            "activity": "updating",
            "activity_s": 9.0,
            "report_age_s": 9.0,
            "rss_mb": 700.0,
            "process": "host/2",
            "gone": False,
            "hung": "",
            "warnings": [],
        },
    },
    "reason": "",
    "failure": "",
}


def test_a_line_says_how_it_goes_and_who_waits_for_whom():
    line = view.line(STATUS)
    assert "return -20.50  eval -  env steps 12,345 (1,500/s)  updates 67 (9.40/s)  lag 6.2" in line
    assert "memory 1.20 GB  time 01:02:05  waits actor for room in trajectories 40%" in line
    assert "learner for trajectories" not in line  # 2% is nothing to look at


@pytest.mark.parametrize("seconds, shown", [(20.9, "00:00:20"), (86399.0, "23:59:59"), (108000.0, "1 day, 6:00:00")])
def test_the_time_of_a_run_goes_on_after_a_day(seconds, shown):
    totals = {**STATUS["totals"], "seconds": seconds}
    assert f"  time {shown}  " in view.line({**STATUS, "totals": totals})


def test_nodes_that_are_away_are_named_with_how_long_those_first_that_are_away_longest():
    assert "away" not in view.line(STATUS)
    away = {f"actor/{i}": 60.0 * i for i in range(1, 9)}
    assert "  away actor/8 for 0:08:00, actor/7 for 0:07:00, " in view.line(STATUS | {"away": away})
    assert view.away(away)[0][1].endswith(", actor/3 for 0:03:00, 2 more")


def test_a_node_that_is_away_takes_no_memory():
    assert "memory 0.70 GB" in view.line(STATUS | {"away": {"actor/0": 5.0}})


def test_a_start_is_told_with_its_longest_phases():
    row = {"start_s": 14.25, "start_s/importing": 4.0, "start_s/compiling": 9.5, "start_s/waiting_for_a_batch": 0.75}
    assert view.start(row | {"reused": 0.0, "reused_s": 0.0}) == "14.2 s (compiling 9.5, importing 4.0)"
    assert not view.waits(row)
    connected = view.start(row | {"start_s/connecting": 0.5})
    assert view.start(row | {"start_s/connecting": 0.01}) == view.start(row)
    assert connected == "14.2 s (compiling 9.5, importing 4.0, connecting 0.5)"
    reused = view.start(row | {"reused": 3.0, "reused_s": 7.25})
    assert reused == "14.2 s (compiling 9.5, importing 4.0; 7.2 s of compiling saved)"
    assert "start" not in view.line(STATUS) and "start 14.2 s" in view.line({**STATUS, "row": {**STATUS["row"], **row}})


def test_those_for_whom_others_wait_are_named():
    shares = {"learner/waiting_for_trajectories": 0.9, "replay/resting": 1.0}
    shares |= {"actor/stepping_environments": 0.41, "actor/acting": 0.3, "learner/updating": 0.1}
    row = {f"share/{name}": value for name, value in shares.items()}
    assert view.waits(row) == "learner for trajectories 90%; busiest actor 71%, most of it stepping environments"
    assert view.waits(row | {"share/actor/acting": 0.05}) == "learner for trajectories 90%"
    assert view.waits({"share/actor/acting": 0.81}) == ""


def test_before_the_first_step_a_line_says_what_the_nodes_do():
    began = {**STATUS, "totals": {"seconds": 9.0, "env_steps": 0.0}, "row": {"env_steps_per_s": 0.0}}
    assert view.line(began) == "starting: actor/0 acting, learner updating"
    assert view.line({**began, "nodes": {}, "totals": {}, "row": {}}) == "starting: no node has reported yet"
    unplugged = {**STATUS, "totals": {"updates": 3.0}}  # Its env steps are those of an archive.
    assert view.line(unplugged).startswith("return")


def test_a_start_is_shown_if_it_takes_long(capsys, monkeypatch):
    began = {**STATUS, "totals": {"seconds": 9.0}}
    view.View().show(began)
    assert not capsys.readouterr().out
    monkeypatch.setattr(view, "LINE_EVERY_S", 0.0)
    view.View().show(began)
    assert capsys.readouterr().out == "starting: actor/0 acting, learner updating\n"


def test_line_and_table_show_the_newest_snapshot():
    assert view.line(STATUS).endswith("saved -")
    saved = {**STATUS, "snapshot": {"number": 1200, "age_s": 75.4, "mb": 1862.13}}
    assert view.line(saved).endswith("saved update 1,200, 0:01:15 ago, 1,862.1 MB")
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(view.table_of(saved))
    assert "update 1,200, 0:01:15 ago, 1,862.1 MB" in console.export_text()


def test_an_evaluation_is_shown_with_its_error_and_its_age():
    row = {"eval_return": 12.345, "eval_return_se": 0.5, "eval_version": 47.0}
    assert "  eval 12.35 ± 0.50, 20 updates ago  " in view.line({**STATUS, "row": {**STATUS["row"], **row}})
    del row["eval_return_se"]
    assert "  eval 12.35, 20 updates ago  " in view.line({**STATUS, "row": {**STATUS["row"], **row}})


def test_line_table_and_the_end_show_what_is_wrong_with_learning(capsys):
    assert "health" not in view.line({**STATUS, "health": {}})
    ill = {**STATUS, "health": {"returns fell": "returns fell: to 0; go back", "gradient vanished": "it is 0"}}
    assert view.line(ill).endswith("health returns fell, gradient vanished")
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(view.table_of(ill))
    assert "returns fell, gradient vanished" in console.export_text()
    for status in (STATUS, ill):
        view.conclude({**status, "reason": "over"}, "")
    warnings = "warning: at the end: returns fell: to 0; go back\nwarning: at the end: it is 0\n"
    assert capsys.readouterr().out == f"done: over\n{warnings}done: over\n"


def test_a_line_says_which_table_gives_less_than_its_share():
    assert "reanalyzed" not in view.line(STATUS)
    shares = {"trajectories": (0.57, 0.2), "reanalyzed": (0.43, 0.8)}
    row = {f"batch_share/{name}": given for name, (given, _) in shares.items()}
    row |= {f"batch_share_wanted/{name}": wanted for name, (_, wanted) in shares.items()}
    line = view.line({**STATUS, "row": {**STATUS["row"], **row}})
    assert "lag 6.2  reanalyzed 43% of 80%  memory" in line and "trajectories 57%" not in line
    assert "reanalyzed" not in view.line({**STATUS, "row": row | {"batch_share/reanalyzed": 0.8}})


def test_the_table_shows_every_node_and_names_a_silent_one():
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(view.table_of({**STATUS, "reason": "updates reached 67 (limit 60)"}))
    text = console.export_text()
    assert "actor/0" in text and "acting" in text
    (learner,) = (line for line in text.splitlines() if line.strip().startswith("learner"))
    assert "updating" in learner and "silent" in learner and "700 MB" in learner
    assert "ending: updates reached 67" in text


def test_each_of_a_nodes_warnings_is_printed_once(capsys):
    learner = {**STATUS["nodes"]["learner"], "warnings": ["raise support_limit", "the disk is full"]}
    with view.View() as shown:
        shown.show(STATUS)
        for _ in range(2):
            shown.show({**STATUS, "nodes": {**STATUS["nodes"], "learner": learner}})
    printed = capsys.readouterr().out
    for warning in learner["warnings"]:
        assert printed.count(f"warning: learner: {warning}\n") == 1


DIED = {"learner": {"number": 2, "cause": "was killed by SIGKILL while updating", "down": True}}


def test_line_and_table_show_who_died_and_why():
    died = {**STATUS, "restarts": DIED}
    assert view.line(died).endswith("died learner 2x (was killed by SIGKILL while updating)")
    assert "died" not in view.line(STATUS)
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(view.table_of(died))
    (learner,) = (line for line in console.export_text().splitlines() if line.strip().startswith("learner"))
    assert "starting again" in learner and "2x, last: was killed by SIGKILL while updating" in learner


def test_a_node_that_hangs_is_named_each_time_it_does(capsys):
    hung = {**STATUS["nodes"]["learner"], "hung": "has sent no heartbeat for 16 s; it was updating"}
    hangs = {**STATUS, "nodes": {"learner": hung}}
    with view.View() as shown:
        for status in (hangs, hangs, STATUS, hangs):
            shown.show(status)
    assert capsys.readouterr().out.count("warning: learner has sent no heartbeat for 16 s; it was updating\n") == 2


def test_a_limit_that_comes_before_the_first_update_is_not_passed_over(capsys):
    status = {"reason": "seconds reached 40", "done": True, "totals": {"seconds": 40.0, "updates": 0.0}}
    assert view.conclude(status, "") == 0
    view.conclude({**status, "totals": {"updates": 1.0}}, "")
    view.conclude({**status, "totals": {"seconds": 40.0}}, "")  # A program without a learner.
    warning = "warning: no update was made before the limit was reached, so there is no checkpoint that has learned"
    assert capsys.readouterr().out.splitlines() == [warning, *["done: seconds reached 40"] * 3]


def test_a_signal_while_a_program_that_is_done_saves_does_not_change_its_exit_code(capsys):
    assert view.conclude({"reason": "updates reached 3", "done": True}, "", signal.SIGINT) == 0
    assert view.conclude({"reason": "SIGINT to the launcher", "done": False}, "", signal.SIGINT) == 130
    assert view.conclude({"reason": "updates reached 3", "done": True}, "the disk is full", signal.SIGINT) == 1
    assert capsys.readouterr().out.splitlines() == ["done: updates reached 3", "ended by SIGINT"]
