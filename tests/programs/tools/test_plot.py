"""Pictures of metrics as a command: its panels and curves, and what is refused."""

from __future__ import annotations

import shlex

import pytest
from PIL import Image

from boonta.programs.experiments import figures
from boonta.programs.tools.plot import plot
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.run_folders import provenance, rows, write_run

pytestmark = pytest.mark.once


@pytest.fixture
def drawn(monkeypatch):
    """What the pictures show: their panels, the names of their axes and their endings."""
    shown, draw = [], figures.draw

    def record(panels, target, xlabel, ylabel, origin, footer, formats):
        shown.append((panels, xlabel, formats))
        draw(panels, target, xlabel, ylabel, origin, footer, formats)

    monkeypatch.setattr(figures, "draw", record)
    return shown


def write(folder, program="impala", seed=0, env="catch", **more):
    """A run with losses and shares of time besides its returns."""
    lines = [
        {**row, "loss": 10.0 - i - seed, "share/learner/updating": 0.5, "share/learner/publishing": 0.1, **more}
        for i, row in enumerate(rows((0.0, 0.5, 1.0)))
    ]
    origin = provenance(environment=env)
    return write_run(folder, seed=seed, program=program, metrics=lines, origin=origin, arguments=[env])


def test_seeds_are_one_curve_and_each_metric_has_a_panel(tmp_path, drawn, capsys):
    folders = [write(tmp_path / f"{program}-{seed}", program, seed) for program in ("impala", "ppo") for seed in (0, 1)]
    plot(tuple(folders), ("loss", "share/learner/*"), x="seconds")
    target = tmp_path / "plot-loss-share-learner-all-seconds.png"
    assert capsys.readouterr().out.splitlines()[-1] == str(target)
    words = f"./run boonta plot {shlex.join(map(str, folders))} --metric loss 'share/learner/*' --x seconds"
    assert Image.open(target).text["Description"].splitlines()[0] == words
    ((panels, xlabel, formats),) = drawn
    assert list(panels) == ["loss", "share/learner/updating", "share/learner/publishing"]
    assert [list(bands) for bands in panels.values()] == [["impala", "ppo"]] * 3
    assert panels["loss"]["impala"].y.value.tolist() == [9.5, 8.5, 7.5]  # The mean of two seeds.
    assert (xlabel, formats) == ("wall time in seconds", ["png"])


def offline(folder, seed=0):
    """A run that counts no env steps."""
    counted = [{name: value for name, value in row.items() if name != "env_steps"} for row in rows((0.0, 0.5, 1.0))]
    return write_run(folder, seed=seed, program="unplugged", metrics=counted)


def test_curves_of_runs_without_env_steps_are_over_updates(tmp_path, drawn, capsys):
    plot((offline(tmp_path / "unplugged"),))
    assert "compare" not in capsys.readouterr().out
    ((panels, xlabel, _),) = drawn
    assert panels["eval_return"]["unplugged"].x.tolist() == [1.0, 2.0, 3.0]
    assert xlabel == "updates"


def test_curves_over_env_steps_and_over_updates_come_with_a_warning(tmp_path, drawn, capsys):
    plot((offline(tmp_path / "unplugged"), write_run(tmp_path / "online")))
    assert "warning: unplugged counted no env steps, so the curve is over updates" in capsys.readouterr().out
    assert [xlabel for _, xlabel, _ in drawn] == ["env steps or updates"]


def test_a_curve_that_ends_before_its_longest_run_comes_with_a_warning(tmp_path, drawn, capsys):
    long = write(tmp_path / "long")
    short = write_run(tmp_path / "short", (0.0, 0.5), seed=1)
    plot((long, short))
    text = "warning: the curve of impala in catch ends after 200 env steps, as short does; long goes on to 300"
    assert text in capsys.readouterr().out.splitlines()
    ((panels, _, _),) = drawn
    assert panels["eval_return"]["impala"].x.tolist() == [100, 200]


def test_pictures_of_other_metrics_do_not_replace_each_other(tmp_path):
    long = "m" * 300  # More letters than a file's name may have.
    run = write(tmp_path / "run", **{long: 1.0})
    for metrics in ((), ("loss",), ("loss", "eval_return"), (long,)):
        plot((run,), metrics)
    names = sorted(path.stem for path in run.glob("*.png"))
    assert names[:3] == ["plot", "plot-loss", "plot-loss-eval_return"]
    assert len(names) == 4 and len(names[3]) == 200


def test_a_name_may_have_dots_of_its_own(tmp_path, capsys):
    run = write(tmp_path / "run")
    target = tmp_path / "pictures" / "lr0.001.png"
    plot((run,), out=target)
    assert [path.name for path in target.parent.iterdir()] == ["lr0.001.png"]
    assert capsys.readouterr().out.splitlines()[-1] == str(target)


def test_environments_have_panels_and_the_ending_chooses_the_kind(tmp_path, drawn):
    folders = [write(tmp_path / env, env=env) for env in ("catch", "grid_world")]
    plot(tuple(folders), out=tmp_path / "pictures" / "returns.svg")
    assert (tmp_path / "pictures" / "returns.svg").read_text().startswith("<?xml")
    ((panels, xlabel, _),) = drawn
    assert (list(panels), xlabel) == (["eval_return, catch", "eval_return, grid_world"], "env steps")


def test_without_evaluations_it_is_the_return_of_training(tmp_path, drawn, capsys):
    lines = [{"env_steps": 10.0 * i, "seconds": 1.0 * i, "updates": 1.0 * i, "return": 0.1 * i} for i in range(3)]
    plot((write_run(tmp_path / "run", metrics=lines),))
    assert list(drawn[0][0]) == ["return"]
    assert "warning: returns are those of training" in capsys.readouterr().out


def test_runs_without_a_metric_are_left_out_by_name(tmp_path, drawn, capsys):
    """Such as those of the agent that a loss of one's own is compared with."""
    run, other = write(tmp_path / "run", "ppo", extra=1.0), write(tmp_path / "other")
    plot((other, run), ("loss", "extra"))
    ((panels, _, _),) = drawn
    assert {name: len(bands) for name, bands in panels.items()} == {"extra": 1, "loss": 2}
    plot((other, run), ("loss", "extra"), out=tmp_path / "all.svg")  # The legend has all groups, each in one colour.
    assert all(f">{name}</text>" in (tmp_path / "all.svg").read_text() for name in ("impala", "ppo"))
    origin = Image.open(tmp_path / "plot-loss-extra.png").text["Description"]
    assert ": other, run\n" in origin  # What all panels are made from, not the last one's runs alone.
    assert "warning: no extra, so left out of its picture: other" in capsys.readouterr().out


def test_pictures_among_what_is_given_are_left_out(tmp_path):
    """A pattern such as runs/* finds those of before."""
    run = write(tmp_path / "run")
    plot((run,), out=tmp_path / "plot.png")
    plot((run, tmp_path / "plot.png"), out=tmp_path / "plot.png")


def test_what_can_not_be_drawn_is_refused(tmp_path):
    run, other = write(tmp_path / "run", extra=1.0), write(tmp_path / "other")
    with pytest.raises(BadInput, match="there is no run: give"):
        plot(())
    with pytest.raises(BadInput, match="--metric los: no run has such a metric: did you mean 'loss'"):
        plot((run,), ("los",))
    with pytest.raises(BadInput, match="no run has such a metric: spaces divide several: --metric loss eval_return"):
        plot((run,), ("loss,eval_return",))
    with pytest.raises(BadInput, match="--metric ext.*: no run has such a metric"):
        plot((run, other), ("ext*",))  # A pattern means what all have.
    with pytest.raises(BadInput, match=r"--out .*picture.txt must end with .png, .svg, .pdf"):
        plot((run,), out=tmp_path / "picture.txt")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="--out .* can't be written"):
        plot((run,), out=tmp_path / "file" / "plot.png")
    with pytest.raises(BadInput, match="no suite"):
        plot((run, write(tmp_path / "muzero", "muzero", env="grid_world")))
