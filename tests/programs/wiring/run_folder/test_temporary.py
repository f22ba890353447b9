"""A run's temporary files are in its own folder, and not for long."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest

from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.run_folder import temporary
from boonta.tests.helpers.deadline import DEADLINE_S


def test_files_of_this_process_and_of_those_that_it_starts_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "LONGEST", 1000)  # Pytest's folder has a long path of its own.
    usual = tempfile.gettempdir()
    with temporary.kept_in(tmp_path):
        own = pathlib.Path(tempfile.mkdtemp())
        code = "import tempfile; print(tempfile.mkdtemp())"
        childs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        assert own.parent == pathlib.Path(childs).parent == tmp_path / "tmp"
    assert not list(tmp_path.iterdir()) and tempfile.gettempdir() == usual


@pytest.mark.parametrize("before", [False, True])
def test_multiprocessing_misses_its_own_folder_neither_at_the_end_nor_before(tmp_path, before):
    """One that it made before is where its server of processes listens."""
    code = (
        "import pathlib, sys\nfrom multiprocessing.util import get_temp_dir\n"
        "from boonta.programs.wiring.run_folder import temporary\n"
        f"if {before}:\n    get_temp_dir()\n"
        "with temporary.kept_in(pathlib.Path(sys.argv[1])):\n    made = pathlib.Path(get_temp_dir())\n"
        "print(made.exists())"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), ended.stderr) == (str(before), "") and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["run", "a long name " * 10])
def test_each_program_of_a_process_gets_a_server_of_processes_that_listens(tmp_path, name):
    """A socket's path may have no more than 107 bytes."""
    folder = tmp_path / name
    folder.mkdir()
    code = (
        "import os, pathlib, sys, time\nfrom multiprocessing import get_context\n"
        "from boonta.programs.wiring.run_folder import temporary\n"
        "for _ in range(2):\n"
        "    with temporary.kept_in(pathlib.Path(sys.argv[1])):\n"
        "        hangs = get_context('forkserver').Process(target=time.sleep, args=(600,), daemon=True)\n"
        "        hangs.start()\n"
        "        print(os.environ['TMPDIR'])\n"
        "    os.kill(hangs.pid, 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=DEADLINE_S
    )
    places = [pathlib.Path(line) for line in ended.stdout.splitlines()]
    assert len(places) == 2 and ended.stderr == ""
    assert not [place for place in places if place.exists()] and not list(folder.iterdir())


def test_where_the_path_is_long_files_of_a_killed_run_are_removed_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "LONGEST", 0)
    with temporary.kept_in(tmp_path):
        elsewhere = pathlib.Path(tempfile.mkdtemp()).parent
        (tmp_path / "tmp").rename(tmp_path / "killed")  # A launcher that is killed removes neither.
    assert elsewhere.parent == pathlib.Path("/tmp") and elsewhere.exists()
    (tmp_path / "killed").rename(tmp_path / "tmp")
    with temporary.kept_in(tmp_path):
        assert not elsewhere.exists()
    assert not list(tmp_path.iterdir())


def test_the_machine_s_folder_is_locked_meanwhile_so_that_systemd_removes_nothing_there(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "LONGEST", 0)
    with temporary.kept_in(tmp_path):
        elsewhere = os.open((tmp_path / "tmp" / "elsewhere").resolve(), os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(elsewhere, fcntl.LOCK_EX | fcntl.LOCK_NB)  # As systemd-tmpfiles tries it.
    fcntl.flock(elsewhere, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(elsewhere)


def test_a_folder_that_can_not_be_removed_may_still_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **options: None)  # As on NFS, where a file is open.
    (tmp_path / "tmp").mkdir()
    words = f"{tmp_path}/tmp can't be removed: a process of"
    with pytest.raises(OSError, match=words) as raised, temporary.kept_in(tmp_path):
        pass
    assert faults.code_of(raised.value) == 1  # It may pass.


def test_a_copy_of_a_running_run_starts_without_touching_the_files_of_that_one(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "LONGEST", 0)
    running, copy = tmp_path / "running", tmp_path / "copy"
    running.mkdir()
    with temporary.kept_in(running):
        theirs = pathlib.Path(tempfile.mkdtemp())
        shutil.copytree(running, copy, symlinks=True)  # As `cp -a` does.
        with temporary.kept_in(copy):
            own = pathlib.Path(tempfile.mkdtemp())
            assert theirs.exists() and own.parent != theirs.parent
        assert theirs.exists() and not own.parent.exists()
    assert not theirs.parent.exists() and not list(running.iterdir()) and not list(copy.iterdir())


@pytest.mark.parametrize("named", ["another-", temporary.PREFIX])
def test_a_link_to_a_folder_that_is_not_the_run_s_own_removes_nothing(tmp_path, monkeypatch, named):
    """Even to one that says so in another place, or of such a name without saying whose it is."""
    monkeypatch.setattr(temporary, "LONGEST", 1000)
    with tempfile.TemporaryDirectory(prefix=named, dir="/tmp") as precious:
        own = tmp_path / "tmp"
        own.mkdir()
        (own / "elsewhere").symlink_to(precious)
        if named != temporary.PREFIX:
            (pathlib.Path(precious) / "owner").symlink_to(own)
        with temporary.kept_in(tmp_path):
            assert pathlib.Path(precious).exists()
    assert not own.exists()


def test_what_a_killed_run_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/")
    monkeypatch.setattr(temporary, "LONGEST", 1000)
    (tmp_path / "tmp" / "of old").mkdir(parents=True)
    with pytest.raises(RuntimeError), temporary.kept_in(tmp_path):
        assert not list((tmp_path / "tmp").iterdir())
        raise RuntimeError
    assert not list(tmp_path.iterdir()) and tempfile.gettempdir() == "/"


@pytest.mark.parametrize("longest", [1000, 0])
def test_a_running_node_s_address_is_found(tmp_path, monkeypatch, longest):
    monkeypatch.setattr(temporary, "LONGEST", longest)
    with temporary.kept_in(tmp_path), temporary.sockets() as sockets:
        with socket.socket(socket.AF_UNIX) as served:
            served.bind(str(sockets / "actor-0"))
            assert temporary.address_of(tmp_path, "actor/0") == f"unix:{sockets.resolve() / 'actor-0'}"
        with pytest.raises(OSError, match="has no running node 'variables' that serves: start the run with local_mp"):
            temporary.address_of(tmp_path, "variables")
    assert not sockets.parent.exists()
