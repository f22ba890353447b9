"""Programs by their names, and the list of what there is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from boonta.__main__ import TOOLS, main
from boonta.programs.tools import list as listing
from boonta.programs.tools.train import command_of
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.shipped import programs
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once


def boonta(*arguments: str, cwd) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "boonta", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.mark.unoptimised
def test_a_program_runs_from_any_folder(tmp_path):
    done = boonta("train", "impala", "catch", "--launch", "anakin", "--stop.updates", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs" / "impala-catch" / "config.json").exists()


def test_help_is_the_programs_own(tmp_path):
    done = boonta("train", "self-play", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "--stop.env-steps" in done.stdout


def test_a_file_of_ones_own_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "program.py").touch()
    assert command_of(["mine/program.py", "--seed", "1"])[1:] == ["mine/program.py", "--seed", "1"]


def test_a_file_that_is_not_there_gets_near_ones(tmp_path):
    (tmp_path / "hunting.py").touch()
    with pytest.raises(BadInput, match=f"there is no file {tmp_path}/huntin.py: did you mean '{tmp_path}/hunting.py'"):
        command_of([f"{tmp_path}/huntin.py", "--seed", "1"])
    with pytest.raises(BadInput, match=f"there is no file {tmp_path}/none/impala.py: did you mean 'impala'"):
        command_of([f"{tmp_path}/none/impala.py"])


def test_unknown_names_get_near_ones(tmp_path, monkeypatch, capsys):
    def refused(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["boonta", "train", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    with pytest.raises(BadInput, match="did you mean 'muzero'"):
        command_of(["muzer"])
    monkeypatch.chdir(tmp_path)
    assert refused("impale").startswith("error: program 'impale' is unknown: did you mean 'impala")
    (tmp_path / "impale.py").touch()
    assert refused("impale").endswith(" Or give impale.py.\n")
    refused()


def test_all_that_there_is_is_listed_with_a_sentence(tmp_path):
    found = listing.choices()
    assert [name for name, _ in found["programs"]] == list(programs())
    assert {"impala", "muzero"} <= {name for name, _ in found["agents"]}
    assert {name for name, _ in found["tools"]} == set(TOOLS)
    assert all(
        text.endswith(".") and len(text) > 10 for kind in ("programs", "agents", "tools") for _, text in found[kind]
    )
    done = boonta("list", cwd=tmp_path)
    assert done.returncode == 0 and "atari/" in done.stdout
