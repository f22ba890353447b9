"""The command `boonta sweep`: what it is asked for, a small real sweep, and bad input."""

from __future__ import annotations

import errno
import os
import pathlib
import sys

import pytest

from boonta.nodes import metrics
from boonta.programs.experiments import plan, spec
from boonta.programs.experiments.slots import Slots
from boonta.programs.tools import sweep
from boonta.programs.wiring.run import BadInput

ROOT = pathlib.Path(__file__).resolve().parents[3]
IMPALA = ROOT / "programs" / "impala.py"
STAND_IN = ROOT / "tests" / "helpers" / "stand_in.py"
PAGE = (ROOT / "programs" / "experiments" / "README.md").read_text()
EXAMPLES = ["program: " + text.partition("\n\n")[0] for text in PAGE.split("    program: ")[1:]]


def given(*, what=IMPALA, flags=(), **asked) -> spec.Spec:
    return sweep.spec_of(sweep.Asked(what, **asked), flags)


def test_the_command_line_has_what_a_file_has(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"program: {IMPALA}\nenv: [catch, grid_world]\nseeds: [3]\nflags: {{launch: anakin, actors: 2}}\n"
        "grid: {x: [1, 2.5]}\nslots: {number: 2, cores: 1}\nretries: 3\n"
    )
    flags = ["--launch", "anakin", "--actors", "2"]
    asked = {"env": ("catch", "grid_world"), "seeds": "[3]", "grid": ("x=1,2.5",), "slots": Slots(number=2, cores=1)}
    assert given(flags=flags, retries=3, **asked) == given(what=file)
    changed = given(what=file, seeds="4", slots=Slots(cores=2), flags=["--actors", "5"], retries=0)
    assert changed.seed_list == [0, 1, 2, 3] and changed.slots == Slots(number=2, cores=2) and changed.retries == 0
    assert changed.flags == {"launch": "anakin", "actors": 5}
    assert sweep.folder_of(sweep.Asked(file), changed) == pathlib.Path("runs/sweep")
    file.write_text(f"program: {IMPALA}\nflags: {{stop.env_steps: 100}}\ngrid: {{config.entropy_cost: [1, 2]}}\n")
    changed = given(what=file, flags=["--stop.env-steps", "200"], grid=("config.entropy-cost=3",))
    assert changed.flags == {"stop.env-steps": 200} and changed.grid == {"config.entropy-cost": [3]}
    with pytest.raises(BadInput, match="seeds"):
        given(seeds="1:30")
    one = given(env=("minatar/breakout",))
    assert sweep.folder_of(sweep.Asked(IMPALA), one) == pathlib.Path("runs/sweep-impala-minatar-breakout")


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_pages_examples_are_sweeps(text, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (tmp_path / "sweep.yaml").write_text(text.replace("\n    ", "\n"))
    read = spec.read(tmp_path / "sweep.yaml")
    names = [entry.name for entry in spec.entries(read, {"x": 1} if read.sample else None)]
    assert len(names) == {0: 20, 1: 4, 2: 3}[EXAMPLES.index(text)]


@pytest.mark.once
@pytest.mark.unoptimised
def test_a_small_sweep_is_done_once(tmp_path, capsys):
    flags = ["--launch", "anakin", "--stop.updates", "20", "--evaluation.every-updates", "10"]
    asked = {"env": ("catch",), "seeds": "2", "flags": [*flags, "--placement.learning", "1"]}
    assert sweep.sweep(tmp_path, given(**asked), ["boonta", "sweep"]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert told.err.startswith("checking 2 runs of ") and told.err.count("\n") == 1
    assert (
        lines[-1] == "2 runs: 2 done, 0 running, 0 failed, 0 left" and "(a population of 2 runs): running" in lines[0]
    )
    written = plan.read(tmp_path)
    assert written is not None
    first, second = written.runs
    assert (first.seed, first.member, second.seed, second.member) == (0, 0, 1, 1) and first.folder == second.folder
    rows = metrics.read(tmp_path / first.folder, metrics.MEMBERS)
    assert [(row["member"], row["seed"], row["updates"]) for row in rows[-4:]] == [
        (0, 0, 10),
        (1, 1, 10),
        (0, 0, 20),
        (1, 1, 20),
    ]
    log = (tmp_path / first.folder / "run.log").read_text()
    assert sweep.sweep(tmp_path, given(**asked), ["boonta", "sweep"]) == 0
    assert (tmp_path / first.folder / "run.log").read_text() == log
    assert f"the sweep in {tmp_path} goes on: 2 runs: 2 done" in capsys.readouterr().out
    assert sweep.sweep(tmp_path, given(**asked), [], show=True) == 0
    shown, total = capsys.readouterr().out.splitlines()
    assert total == "2 runs: 2 done, 0 running, 0 failed, 0 left"
    assert shown.startswith(f"{first.folder} (a population of 2 runs): done, mean eval ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slots.number", "999"], "slots.number is 999 and slots.cores is 1, together 999"),
        (["--show", "--slots.number", "0"], "slots.number is 0; it must be at least 1"),
        (["--show", "--slots.memory-gb", "nan"], "slots.memory_gb is nan; it must be above 0"),
        (["--grid", "x"], "--grid 'x' is not FLAG=VALUE,VALUE,…"),
        (["--seeds", "many"], "seeds"),
        (["--", "catch"], "'catch' after -- is no flag"),
    ],
)
def test_bad_input_ends_with_a_message_and_code_2(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.setattr(sys, "argv", ["boonta sweep", str(STAND_IN), "--workdir", str(tmp_path / "sweep"), *words])
    with pytest.raises(SystemExit) as error:
        sweep.main()
    assert error.value.code == 2
    assert message in capsys.readouterr().err and not (tmp_path / "sweep").exists()


def test_a_sweep_that_is_shown_may_be_too_large_for_this_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan, "plan", lambda *given: [])
    assert sweep.sweep(tmp_path, given(slots=Slots(number=999)), [], show=True) == 0
    told = capsys.readouterr()
    assert "warning: this machine can't run the sweep: slots.number is 999 and slots.cores is 1" in told.err
    assert told.out == "0 runs: 0 done, 0 running, 0 failed, 0 left\n"


def test_a_folder_that_another_sweep_uses_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "plan", lambda *given: [])
    with sweep.lock(tmp_path), pytest.raises(BadInput, match="is in use by another process"):
        sweep.sweep(tmp_path, given(), [])


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 1), (errno.EROFS, 2)])
def test_a_full_disk_may_pass_and_a_read_only_one_lasts(tmp_path, monkeypatch, capsys, number, code):
    def lock(folder):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sweep, "lock", lock)
    own = [str(IMPALA), "--env", "catch", "--workdir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["boonta", *own, "--", "--launch", "anakin", "--stop.updates", "1"])
    with pytest.raises(SystemExit) as ended:
        sweep.main()
    assert ended.value.code == code and os.strerror(number) in capsys.readouterr().err
