"""A run's folder is private to its user, also where it was there before, and keeps what each start had asked for."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import time
import types

import pytest

from boonta.envs.catch import Catch
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder import folder
from boonta.programs.wiring.run_folder.config_file import Origin, checkpointed, read_config
from boonta.programs.wiring.run_folder.folder import claim_workdir, lock
from boonta.programs.wiring.run_folder.state import NODES, is_held
from boonta.programs.wiring.supervision import dependent
from boonta.tests.helpers.deadline import DEADLINE_S


def mode(folder: pathlib.Path) -> int:
    return folder.stat().st_mode & 0o7777


def test_a_new_folder_is_private(tmp_path, capsys):
    lock(tmp_path / "new" / "run").close()
    assert mode(tmp_path / "new" / "run") == 0o700 and capsys.readouterr().out == ""


@pytest.mark.parametrize("wider", [0o755, 0o770, 0o701, 0o2777])
def test_an_older_folder_is_made_private_with_a_word(tmp_path, capsys, wider):
    tmp_path.chmod(wider)
    lock(tmp_path).close()
    assert mode(tmp_path) == wider & 0o7700
    told = f"was open to other users ({wider & 0o777:o}): it is private to you from now on"
    assert capsys.readouterr().out == f"warning: --workdir {tmp_path} {told}\n"
    lock(tmp_path).close()
    assert capsys.readouterr().out == ""


def test_where_the_rights_can_not_be_taken_it_is_said(tmp_path, capsys, monkeypatch):
    tmp_path.chmod(0o755)

    def refuse(path, mode):
        raise PermissionError("not permitted")

    monkeypatch.setattr(pathlib.Path, "chmod", refuse)
    lock(tmp_path).close()
    assert "was open to other users (755): it stays so" in capsys.readouterr().out
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EWOULDBLOCK, "is in use by another process"),
        (errno.ENOLCK, "can't be locked: No locks available; choose"),
    ],
)
def test_why_a_folder_can_not_be_locked_is_told(tmp_path, monkeypatch, number, words):
    def refuse(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(BadInput, match=f"--workdir {tmp_path} {words}"):
        lock(tmp_path)


def node(folder: pathlib.Path) -> subprocess.Popen:
    """A process that holds a folder as a node does, and has begun to."""
    words = dependent.command(sys.executable, "-c", "print(flush=True); input()", held=str(folder / NODES))
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    return process


def test_a_node_without_its_launcher_keeps_its_folder_until_it_has_ended(tmp_path, monkeypatch, capsys):
    with node(tmp_path) as process:

        def end(seconds: float) -> None:
            assert is_held(tmp_path) and process.poll() is None
            process.communicate(b"\n", timeout=DEADLINE_S)

        monkeypatch.setattr(folder, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=end))
        with lock(tmp_path):
            assert process.returncode == 0
    assert f"waiting for process {process.pid}, a node " in capsys.readouterr().out and not is_held(tmp_path)


def test_a_node_that_hangs_without_its_launcher_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "ENDING_S", 0.0)
    with node(tmp_path) as process:
        message = f"--workdir {tmp_path} is in use by another process, {process.pid}: "
        with pytest.raises(OSError, match=message) as late:
            lock(tmp_path)
        assert faults.code_of(late.value) == 1
        process.communicate(b"\n", timeout=DEADLINE_S)
    lock(tmp_path).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_anothers_folder_is_left_as_it_is_and_named(tmp_path, capsys):
    tmp_path.chmod(0o777)
    os.chown(tmp_path, 65534, -1)
    lock(tmp_path).close()
    assert f"--workdir {tmp_path} is user 65534's, who can change what is run from it" in capsys.readouterr().out
    assert mode(tmp_path) == 0o777


def claim(folder: pathlib.Path, width: int, allow_changes: bool = False, host: int = 0) -> None:
    """Starts a run with this width, which fails at once: it restores and saves nothing."""
    hosts = Hosts("localhost:1", 2, host)
    run = Run(workdir=str(folder), allow_changes=allow_changes, hosts=hosts, launch="sebulba").own
    claim_workdir("program", run, {"width": width}, Origin("", "", ())).close()


def save(folder: pathlib.Path, number: int) -> None:
    with SnapshotFolder(folder / "checkpoints", "checkpoint").writing(number) as new:
        new.mkdir()
        shutil.copyfile(folder / "config.json", new / "config.json")


@pytest.mark.parametrize("host", [0, 1])
def test_a_changed_start_that_saves_nothing_leaves_the_run_as_it_was(tmp_path, host):
    for each in (0, 1):
        claim(tmp_path, 8, host=each)
    save(tmp_path, 5)
    claim(tmp_path, 4, allow_changes=True, host=host)
    assert read_config(tmp_path / ("hosts/1" if host else "")).settings == {"width": 4}
    assert checkpointed(tmp_path).settings == {"width": 8}
    with pytest.raises(BadInput, match="width was 8, is 4"):
        claim(tmp_path, 4, host=host)
    claim(tmp_path, 8, host=host)


def test_a_changed_start_that_saves_is_the_run(tmp_path):
    claim(tmp_path, 8)
    save(tmp_path, 5)
    claim(tmp_path, 4, allow_changes=True)
    save(tmp_path, 6)
    claim(tmp_path, 4)
    with pytest.raises(BadInput, match="width was 4, is 8"):
        claim(tmp_path, 8)
    (tmp_path / "checkpoints" / "6" / "config.json").write_text("{")
    claim(tmp_path, 8)


def test_each_start_before_is_kept_in_order_whatever_the_time_zone(tmp_path, monkeypatch):
    """The local time of each start is three hours before that of the start before."""
    try:
        for start in range(5):
            monkeypatch.setenv("TZ", f"west{3 * start:+d}")
            time.tzset()
            run = Run(workdir=str(tmp_path), allow_changes=True)
            claim_workdir("program", run, {"actors": start}, Origin("", "", ())).close()
    finally:
        monkeypatch.undo()
        time.tzset()
    kept = sorted(path.name for path in tmp_path.glob("config-until-*.json"))
    assert [read_config(tmp_path, name).settings["actors"] for name in kept] == [0, 1, 2, 3]
    assert all(name.endswith("Z.json") for name in kept)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"env": {"cells": 3}}, {"cells": 3}),
        ({"env": "CartPole-v1"}, {"env": "CartPole-v1"}),
        ({"env": {"cells": 3}, "delay": 2}, {"env": {"cells": 3}, "delay": 2}),
    ],
)
def test_a_jax_environment_of_an_older_run_has_its_settings_without_the_adapters(tmp_path, before, now):
    claim_workdir("program", Run(workdir=str(tmp_path)), {"env": before, "actors": 2}, Origin("", "", ())).close()
    assert read_config(tmp_path).settings == {"env": now, "actors": 2}


def test_an_environment_with_settings_that_the_recorded_one_lacks_is_another(tmp_path):
    """Though they are its class's defaults: which class the recorded one was of isn't known."""
    run, origin = Run(workdir=str(tmp_path)), Origin(file=__file__, function="tiny", arguments=())
    claim_workdir("tiny", run, {"env": {}}, origin).close()
    with pytest.raises(BadInput, match=r"holds a run with other settings: env\.rows was unset, is 10"):
        claim_workdir("tiny", run, {"env": Catch()}, origin)
