"""The command line: its flags, and its refusals before any work starts."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
import os
import pathlib
import sys

import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.hosts.coordination import Hosts  # noqa: E402
from boonta.nodes.snapshots.store import SnapshotFolder  # noqa: E402
from boonta.nodes.watch.stopping import StopRule  # noqa: E402
from boonta.nodes.watch.stopwatch import before_nodes  # noqa: E402
from boonta.programs.impala import impala  # noqa: E402
from boonta.programs.impala_atari import impala_atari  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.command_line.arguments import parse, run_of  # noqa: E402
from boonta.programs.wiring.run import Run  # noqa: E402
from boonta.programs.wiring.run_folder import folder, journal  # noqa: E402
from boonta.tests.helpers.solo_program import solo_program  # noqa: E402
from boonta.tests.helpers.tiny_program import tiny_program  # noqa: E402


def refused(capsys, *arguments: str, code: int = 2) -> str:
    """The message with which `main` refuses."""
    with pytest.raises(SystemExit) as ended:
        launch.main(tiny_program, list(arguments))
    assert ended.value.code == code
    out, told = capsys.readouterr()
    assert "network: " not in out  # It is of no use before a refusal.
    return told


def test_flags_come_from_the_program_functions_signature(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ["--width", "4", "--seed", "7", "--stop.updates", "3", "--launch", "serial", "--game", "x"]
    run, settings = parse(tiny_program, arguments)
    assert settings == {"game": "x", "breaks_after": 0, "save_takes_s": 0.0, "width": 4, "num_envs": 8}
    assert (run.seed, run.stop.updates, run.launch) == (7, 3, "serial")
    assert run.workdir == str(tmp_path / "runs" / "tiny_program-x-width4-seed7")
    run, _ = parse(tiny_program, ["--game", "/data/of/x/", "--profile", "3"])
    assert run.workdir == str(tmp_path / "runs" / "tiny_program-x")


def test_an_argument_of_a_name_that_every_run_has_is_refused(capsys, tmp_path):
    def my_program(run: launch.RunFlags, learners: bool = True):
        raise AssertionError("it isn't called")

    with pytest.raises(SystemExit, match="2"):
        launch.main(my_program, ["--workdir", str(tmp_path / "run")])
    assert "error: my_program takes learners, of which every run has a flag of its own" in capsys.readouterr().err


def test_the_run_is_known_before_the_rest_is_parsed(capsys):
    known = run_of(impala, ["catch", "--env.rows", "5", "--launch", "anakin", "--restarts.number=2", "--width", "3"])
    assert known is not None and known.launch == "anakin" and known.restarts.number == 2 and known.restarts_itself
    assert run_of(impala, ["catch", "--help"]) is None and run_of(impala, ["--stop.updates", "-1"]) is None
    assert run_of(solo_program, []) == Run(launch="anakin")
    assert not run_of(solo_program, ["--restarts.number", "0"]).restarts_itself  # type: ignore[union-attr]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("launch_type", ["local_mt", "serial"])
def test_restarts_are_refused_where_nothing_starts_again(capsys, tmp_path, launch_type):
    flags = ["--launch", launch_type, "--restarts.number"]
    message = refused(capsys, "--workdir", str(tmp_path), *flags, "7")
    assert f"with --launch {launch_type} nothing is started again" in " ".join(message.replace("│", " ").split())
    assert not parse(tiny_program, [*flags, "0", "--restarts.limit-s", "60"])[0].restarts_nodes


def test_an_unknown_flag_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(tiny_program, ["--widht", "4"])
    assert ended.value.code == 2
    assert "--width" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    message = refused(capsys, "--workdir", str(tmp_path / "file" / "run"))
    assert f"--workdir {tmp_path}/file/run can't be written: Not a directory" in message


def test_a_folder_where_the_file_system_makes_none(capsys):
    message = refused(capsys, "--workdir", "/proc/none/run")
    assert "--workdir /proc/none/run can't be written: no folder can be made there" in message


def save(folder: pathlib.Path, updates: int) -> None:
    with SnapshotFolder(folder / "checkpoints", "checkpoint").writing(updates) as new:
        (new / "counts").mkdir(parents=True)
        (new / "counts" / "metadata").write_text(json.dumps({"updates": float(updates), "seconds": 1.0}))


def test_a_run_that_has_reached_its_limit_starts_nothing(tmp_path, capsys):
    started = []
    for limit, newest in (7, None), (7, 6), (7, 7), (8, 7), (7, 9):
        if newest is not None:
            save(tmp_path, newest)
        run = Run(workdir=str(tmp_path), stop=StopRule(updates=limit))
        with journal.kept_in(tmp_path):
            start = lambda pair=(limit, newest): started.append(pair) or 5  # noqa: E731
            assert launch._run(start, run) == (5 if (newest or 0) < limit else 0)
    assert started == [(7, None), (7, 6), (8, 7)]
    assert capsys.readouterr().out.splitlines() == [f"done: updates reached {n} (limit 7)" for n in (7, 9)]


def others(run: launch.RunFlags) -> launch.Program:
    """A program with another limit than its flags have."""
    program = tiny_program(run)
    return dataclasses.replace(program, run=dataclasses.replace(program.run, stop=StopRule(updates=8)))


def test_the_limit_is_the_programs_which_for_a_population_is_of_all_members(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "prepare", lambda program: lambda: 5)
    for saved in (0, 7, 8):
        if saved:
            save(tmp_path, saved)
        with pytest.raises(SystemExit) as ended:
            launch.main(others, ["--workdir", str(tmp_path), "--stop.updates", "7"])
        assert ended.value.code == (5 if saved < 8 else 0)


def test_a_stop_rule_that_is_none(capsys, tmp_path):
    assert "stop.updates is -1" in refused(capsys, "--workdir", str(tmp_path), "--stop.updates", "-1")


@pytest.mark.parametrize("override", ["learner", "learner:X", "nobody:X=1", "learner:=1"])
def test_process_env_overrides_must_name_a_group(capsys, tmp_path, override):
    message = refused(capsys, "--workdir", str(tmp_path), "--process-env", override)
    assert f"--process-env {override!r} is not GROUP:NAME=VALUE with a group of" in message
    assert not os.path.exists(tmp_path / "config.json")


@pytest.mark.parametrize("launch_type", ["local_mt", "serial"])
def test_process_env_overrides_need_processes(capsys, tmp_path, launch_type):
    message = refused(capsys, "--workdir", str(tmp_path), "--launch", launch_type, "--process-env", "learner:X=1")
    assert "--process-env 'learner:X=1' is for processes of its own" in " ".join(message.replace("│", " ").split())
    assert not os.path.exists(tmp_path / "config.json")


@pytest.mark.parametrize(
    "found",
    ["", '{"program": "tiny_pro', '{"name": "x"}', "[]", '{"program": "tiny_program", "seed": 0, "settings": 1}'],
)
def test_a_damaged_or_foreign_config_is_told_and_kept(capsys, tmp_path, found):
    (tmp_path / "config.json").write_text(found)
    message = refused(capsys, "--workdir", str(tmp_path))
    assert f"{tmp_path}/config.json is damaged, or not a run's" in message
    assert (tmp_path / "config.json").read_text() == found


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--num-envs", "0", "actor/0: num_envs is 0; it must divide over the threads, 2"),
        ("--width", "0", "table 'trajectories': batch_size is 0; it must be at least 1"),
    ],
)
def test_what_a_node_or_a_table_cannot_do_is_refused_before_anything_starts(capsys, tmp_path, flag, value, message):
    assert message in refused(capsys, "--workdir", str(tmp_path / "run"), flag, value)
    assert not (tmp_path / "run").exists()


def test_meeting_other_hosts_is_a_phase_of_the_start(capsys, monkeypatch, tmp_path):
    activities: list[str] = []

    def join(*given: object) -> None:
        activities.append(before_nodes.longest()[0])
        raise OSError("nobody came")

    monkeypatch.setattr(Hosts, "join", join)
    assert "nobody came" in refused(capsys, "--workdir", str(tmp_path / "run"), "--launch", "sebulba", code=1)
    assert activities == ["connecting"]


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EIO, 1), (errno.ESTALE, 1), (errno.ENOSPC, 1), (errno.EACCES, 2), (errno.EROFS, 2)]
)
def test_a_folder_that_may_open_at_the_next_start_ends_this_one_with_another_code_than_bad_input(
    capsys, monkeypatch, tmp_path, number, code
):
    def fails(*given: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(folder, "open", fails, raising=False)
    message = refused(capsys, "--workdir", str(tmp_path / "run"), code=code)
    assert f"--workdir {tmp_path}/run can't be written: {os.strerror(number)}" in message


@pytest.mark.parametrize("code", [0, 3])
def test_hosts_part_before_trackers_end_which_may_take_long(monkeypatch, tmp_path, code):
    did: list[object] = []
    monkeypatch.setattr(launch, "prepare", lambda program: lambda: code)
    monkeypatch.setattr(Hosts, "leave", lambda self, agreed: did.append(agreed))
    monkeypatch.setattr(launch.Trackers, "end", lambda self, wait_s=0.0: did.append("trackers end"))
    with pytest.raises(SystemExit) as ended:
        launch.main(solo_program, ["--workdir", str(tmp_path)])
    assert ended.value.code == code and did == [code == 0, "trackers end"]


def impala_refuses(capsys, function, *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        launch.main(function, list(arguments))
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_impala_programs_refuse_what_cannot_work(capsys, tmp_path):
    folder = ["--workdir", str(tmp_path / "run")]
    message = impala_refuses(capsys, impala_atari, *folder, "--game", "Pnog")
    assert "game is 'Pnog'" in message and "did you mean 'pong'" in message
    message = impala_refuses(capsys, impala_atari, *folder, "--config.unroll-length", "0")
    assert "unroll_length is 0; it must be at least 1" in message
    message = impala_refuses(capsys, impala, *folder, "--config.torso.kind", "nature")
    assert "torso.kind is 'nature'" in message
    message = impala_refuses(capsys, impala, "minatar/brakeout", *folder)
    assert "environment 'minatar/brakeout': " in message and "breakout" in message
    assert not (tmp_path / "run").exists()


def test_without_the_clusters_packages_it_is_said_what_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "launchpad", None)  # As on a newer Python, for which it has no wheel.
    monkeypatch.delitem(sys.modules, "boonta.programs.wiring.interpreters.launchpad", raising=False)
    with pytest.raises(ImportError) as refused:
        importlib.import_module("boonta.programs.wiring.interpreters.launchpad")
    message = str(refused.value)
    assert "CPython 3.10" in message and "extra [cluster]" in message and "--launch sebulba or anakin" in message
    assert "boonta[" not in message  # On the package index, that name is somebody else's.
