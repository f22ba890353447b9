"""The command line: its flags, and its refusals before any work starts."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys

import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.agents.impala import CATCH  # noqa: E402
from boonta.agents.ppo import Config as PPO  # noqa: E402
from boonta.nodes.snapshots import store  # noqa: E402
from boonta.nodes.snapshots.store import SnapshotFolder  # noqa: E402
from boonta.nodes.watch.stopping import StopRule  # noqa: E402
from boonta.programs.impala import impala  # noqa: E402
from boonta.programs.impala_atari import impala_atari  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.command_line.arguments import parse, run_of  # noqa: E402
from boonta.programs.wiring.run import BadInput, Run  # noqa: E402
from boonta.programs.wiring.run_folder import journal  # noqa: E402
from boonta.programs.wiring.run_folder.folder import claim_workdir  # noqa: E402
from boonta.tests.helpers import run_folders  # noqa: E402
from boonta.tests.helpers.solo_program import solo_program  # noqa: E402
from boonta.tests.helpers.tiny_program import tiny_program  # noqa: E402


def refused(capsys, *arguments: str) -> str:
    """The message with which `main` refuses."""
    with pytest.raises(SystemExit) as ended:
        launch.main(tiny_program, list(arguments))
    assert ended.value.code == 2
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
    run, _ = parse(tiny_program, ["--game", "/data/of/x/"])
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


def claim(folder, width=8, seed=0, name="tiny_program", origin=None, settings=None, **run):
    origin = {"file": __file__, "function": "tiny_program", "arguments": []} | (origin or {})
    settings = {"game": "catch", "width": width} | (settings or {})
    return claim_workdir(name, launch.Run(workdir=str(folder), seed=seed, **run), settings, origin)


def test_a_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    message = refused(capsys, "--workdir", str(tmp_path / "file" / "run"))
    assert f"--workdir {tmp_path}/file/run can't be written: Not a directory" in message


def test_a_folder_where_the_file_system_makes_none(capsys):
    message = refused(capsys, "--workdir", "/proc/none/run")
    assert "--workdir /proc/none/run can't be written: no folder can be made there" in message


def test_a_folder_in_use(capsys, tmp_path):
    with claim(tmp_path):
        assert "is in use by another process" in refused(capsys, "--workdir", str(tmp_path))


def test_a_folder_of_another_program(capsys, tmp_path):
    claim(tmp_path, name="muzero_atari").close()
    message = refused(capsys, "--workdir", str(tmp_path))
    assert f"--workdir {tmp_path} holds a run of muzero_atari, not of tiny_program" in message


def test_a_folder_of_a_run_with_other_settings(tmp_path):
    claim(tmp_path).close()
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(BadInput, match="width was 8, is 4; seed was 0, is 1"):
        claim(tmp_path, width=4, seed=1)
    assert (tmp_path / "config.json").read_text() == before
    claim(tmp_path, width=4, seed=1, allow_changes=True).close()
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["width"] == 4
    assert len(list(tmp_path.glob("config-until-*.json"))) == 1


def test_a_folder_whose_config_is_gone_is_judged_by_its_snapshots(tmp_path):
    claim(tmp_path).close()
    for number, folder in (9, "checkpoints"), (10, "members"):
        with SnapshotFolder(tmp_path / folder, "checkpoint").writing(number) as new:
            new.mkdir()
            (tmp_path / "config.json").rename(new / "config.json")
        with pytest.raises(BadInput, match="width was 8, is 4; seed was 0, is 1"):
            claim(tmp_path, width=4, seed=1)
        assert not (tmp_path / "config.json").exists()
        claim(tmp_path).close()
    (tmp_path / "checkpoints" / "9" / "config.json").write_text("{")
    (tmp_path / "config.json").unlink()
    with pytest.raises(BadInput, match="checkpoints/9/config.json is damaged, or not a run's"):
        claim(tmp_path)
    for copy in tmp_path.glob("*/*/config.json"):
        copy.unlink()
    with pytest.raises(BadInput, match="config.json is missing, and no snapshot has a copy; choose another --workdir"):
        claim(tmp_path, allow_changes=True)


def test_a_run_without_a_sound_checkpoint_is_refused_with_what_would_work(tmp_path, monkeypatch):
    claim(tmp_path).close()
    for folder, number in ("checkpoints", 9), ("checkpoints", 10), ("checkpoints/best", 9):
        with SnapshotFolder(tmp_path / folder, "checkpoint").writing(number) as new:
            new.mkdir()
            (new / "array").write_bytes(b"sound")
    first, second, best = (tmp_path / "checkpoints" / name / "array" for name in ("9", "10", "best/9"))
    second.write_bytes(b"short"[:4])
    claim(tmp_path).close()
    first.write_bytes(b"wrong")
    other = f"--start-from {tmp_path} --start-which best goes on from the best one"
    with pytest.raises(BadInput, match=f"/10: array has 4 bytes, not 5; choose another --workdir, where {other}"):
        claim(tmp_path)
    best.unlink()
    with pytest.raises(BadInput, match="none of the checkpoints in .* is sound: .*; choose another --workdir$"):
        claim(tmp_path)
    monkeypatch.setattr(store, "SMALL", 4)  # A large one is not read.
    claim(tmp_path).close()


def test_a_run_that_has_reached_its_limit_starts_nothing(tmp_path, capsys):
    started = []
    for limit, newest in (7, None), (7, 6), (7, 7), (8, 7), (7, 9):
        if newest is not None:
            with SnapshotFolder(tmp_path / "checkpoints", "checkpoint").writing(newest) as new:
                (new / "counts").mkdir(parents=True)
                (new / "counts" / "metadata").write_text(json.dumps({"updates": float(newest), "seconds": 1.0}))
        run = Run(workdir=str(tmp_path), stop=StopRule(updates=limit))
        with journal.kept_in(tmp_path):
            start = lambda pair=(limit, newest): started.append(pair) or 5  # noqa: E731
            assert launch._run(start, run) == (5 if (newest or 0) < limit else 0)
    assert started == [(7, None), (7, 6), (8, 7)]
    assert capsys.readouterr().out.splitlines() == [f"done: updates reached {n} (limit 7)" for n in (7, 9)]


def test_of_many_other_settings_a_few_are_listed(tmp_path):
    claim(tmp_path, settings=dict.fromkeys("abcdefghi", 1)).close()
    with pytest.raises(BadInput, match="a was 1, is 2; .*f was 1, is 2; and 3 more. Give them as they were"):
        claim(tmp_path, settings=dict.fromkeys("abcdefghi", 2))


def test_a_folder_of_another_agent(tmp_path):
    claim(tmp_path, settings={"config": CATCH}).close()
    with pytest.raises(BadInput, match="holds a run of the agent boonta.agents.impala, not of boonta.agents.ppo"):
        claim(tmp_path, settings={"config": PPO()})


def test_a_programs_file_that_has_changed_is_named(tmp_path, capsys):
    for digest in ("1", "1", "2"):
        assert "has changed since this run began" not in capsys.readouterr().out
        claim(tmp_path, origin={"provenance": run_folders.provenance(program__digest=digest)}).close()
    assert f"{__file__} has changed since this run began: if its network has" in capsys.readouterr().out


def test_a_networks_file_that_has_changed_is_told(tmp_path, capsys):
    for digest in ("1", "1", "2"):
        assert "has changed since this run began" not in capsys.readouterr().out
        network = {"commit": None, "dirty": None, "digest": digest}
        claim(tmp_path, origin={"provenance": run_folders.provenance(network=network)}).close()
    assert "the file of its network has changed since this run began" in capsys.readouterr().out


def test_a_folder_to_start_from_that_has_no_checkpoint(capsys, tmp_path):
    message = refused(capsys, "--workdir", str(tmp_path / "run"), "--start-from", str(tmp_path / "other"))
    assert f"--start-from {tmp_path}/other has no newest checkpoint, in {tmp_path}/other/checkpoints" in message
    assert not (tmp_path / "run").exists()


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


def test_a_config_that_could_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    claim(tmp_path).close()
    before = (tmp_path / "config.json").read_text()

    def disk_full(path, text):
        with open(path, "w") as file:
            file.write(text[:10])
        raise OSError("disk full")

    monkeypatch.setattr(pathlib.Path, "write_text", disk_full)
    with pytest.raises(OSError, match="disk full"):
        claim(tmp_path, width=4, allow_changes=True)
    assert (tmp_path / "config.json").read_text() == before


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
