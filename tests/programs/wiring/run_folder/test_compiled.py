"""What a run compiles is kept in its folder, and taken from there by whoever computes the same on the same machine."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from boonta.programs.wiring.run_folder import compiled

CODE = """
import os, pathlib, subprocess, sys
import jax, jax.numpy as jnp
from boonta.nodes.watch.reuse import reused
from boonta.programs.wiring.run_folder import compiled

jnp.zeros(3) + 1  # Something that is compiled before.
with compiled.kept_in(pathlib.Path(sys.argv[1]), claimed="UNCLAIMED" not in os.environ):
    print(jax.jit(lambda x: jnp.sin(x @ x).sum())(jnp.arange(9.0).reshape(3, 3)).item())
    if sys.argv[2:]:
        sys.exit(subprocess.call([sys.executable, "-c", "import os; print(os.environ['JAX_COMPILATION_CACHE_DIR'])"]))
print(int(reused()["reused"]), "JAX_COMPILATION_CACHE_DIR" in os.environ)
"""


def run(folder: pathlib.Path, *arguments: str, **environment: str) -> list[str]:
    """Runs the code in a process of its own; returns the words that it prints."""
    inherited = {name: value for name, value in os.environ.items() if name != compiled.VARIABLE}
    given = inherited | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CODE, str(folder), *arguments]
    return subprocess.run(command, env=given | environment, check=True, capture_output=True, text=True).stdout.split()


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in (folder / compiled.FOLDER).glob("*-cache")]


def test_the_second_process_takes_what_the_first_has_compiled(tmp_path):
    value, hits, inherited = run(tmp_path)
    assert (hits, inherited) == ("0", "False") and entries(tmp_path)
    again, hits, _ = run(tmp_path)
    assert again == value and int(hits) >= 1


def test_entries_that_a_kill_has_cut_off_are_written_again(tmp_path):
    value, *_ = run(tmp_path)
    whole = {entry: entry.read_bytes() for entry in entries(tmp_path)}
    for entry, content in whole.items():
        entry.write_bytes(content[:-9])
        os.utime(entry, (1_000, 1_000))
    again, hits, _ = run(tmp_path)
    assert again == value and hits == "0"
    again, hits, _ = run(tmp_path)
    assert again == value and int(hits) >= 1 and {*entries(tmp_path)} == {*whole}


def test_the_oldest_entries_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "MOST_BYTES", 25)
    (tmp_path / compiled.FOLDER).mkdir()
    for age, name in enumerate(("newest", "middle", "oldest")):
        entry = tmp_path / compiled.FOLDER / f"{name}-cache"
        entry.write_bytes(b"1234567890")
        os.utime(entry, (1_000 - age, 1_000 - age))
    compiled.tidy(tmp_path / compiled.FOLDER)
    assert {entry.name for entry in entries(tmp_path)} == {"newest-cache", "middle-cache"}


def test_what_others_may_be_writing_stays_and_an_entry_that_can_not_be_read_hinders_no_other(tmp_path):
    (tmp_path / compiled.FOLDER).mkdir()
    for name, age_s in (("young", 0.0), ("old", 3_600.0)):
        entry = tmp_path / compiled.FOLDER / f"{name}-cache"
        entry.write_bytes(compiled.ZLIB)
        os.utime(entry, (time.time() - age_s,) * 2)
    unreadable = tmp_path / compiled.FOLDER / "folder-cache"
    unreadable.mkdir()
    os.utime(unreadable, (time.time() - 1_800.0,) * 2)
    (tmp_path / compiled.FOLDER / "gone-cache").symlink_to("nowhere")
    compiled.tidy(tmp_path / compiled.FOLDER)
    assert {entry.name for entry in entries(tmp_path)} == {"young-cache", "folder-cache", "gone-cache"}


def test_who_has_not_claimed_the_folder_deletes_nothing(tmp_path):
    (tmp_path / compiled.FOLDER).mkdir()
    entry = tmp_path / compiled.FOLDER / "cut-cache"
    entry.write_bytes(compiled.ZLIB)
    os.utime(entry, (1_000, 1_000))
    run(tmp_path, UNCLAIMED="1")
    assert entry.exists()
    run(tmp_path)
    assert not entry.exists()


def test_another_machines_entries_are_left_aside(tmp_path):
    value, *_ = run(tmp_path)
    other, hits, _ = run(tmp_path, XLA_FLAGS="--xla_cpu_max_isa=SSE4_2")
    assert float(other) == pytest.approx(float(value)) and hits == "0"


def test_processes_that_it_starts_share_it_and_others_can_not_write_it(tmp_path):
    assert run(tmp_path / "run", "start")[1:] == [str(tmp_path / "run" / "compiled")]
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "run", tmp_path / "run" / "compiled")] == [0o700] * 2


def test_users_own_cache_stays_in_use(tmp_path, monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, str(tmp_path / "own"))
    with compiled.kept_in(tmp_path / "run", claimed=True):
        assert os.environ[compiled.VARIABLE] == str(tmp_path / "own") and not (tmp_path / "run").exists()


def test_a_folder_that_can_not_be_made_is_done_without(tmp_path, monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE)
    (tmp_path / compiled.FOLDER).write_text("")
    with compiled.kept_in(tmp_path, claimed=True):
        assert compiled.VARIABLE not in os.environ
