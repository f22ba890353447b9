"""Every format that Boonta reads: a valid example, malformed ones, and what reads them."""

from __future__ import annotations

import hashlib
import itertools
import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from boonta.envs.catch import Catch
from boonta.nodes import metrics
from boonta.nodes.archive import files as archive
from boonta.nodes.archive.index import INDEX
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.rpc import encoding
from boonta.nodes.sinks import follow
from boonta.nodes.snapshots import counters, files, manifest, schema
from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.nodes.variables import pack, unpack
from boonta.programs.experiments import evaluations as finals
from boonta.programs.experiments import plan, results
from boonta.programs.experiments import spec as sweeps
from boonta.programs.wiring.archived import env_of_archive
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder.config_file import Config, Origin
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.programs.wiring.trained import agent_and_env, call_of
from boonta.tests.helpers import malformed, run_folders
from boonta.tests.helpers.archives import SIGNATURE, make

ALLOWED = (ValueError, OSError, BadInput)
PROGRAM = pathlib.Path(__file__).parents[2] / "programs" / "impala.py"


class Format(NamedTuple):
    """A format.

    Attributes:
      valid: a valid file's content, which `read` reads without an error.
      broken: malformed contents.
      read: reads a content, and uses what it reads as the program does.
      share: cases of it in a hundred; readers differ a hundredfold in speed, and formats in what can be wrong.
    """

    valid: bytes
    broken: st.SearchStrategy[bytes]
    read: Callable[[bytes], Any]
    share: int


def params(folder: pathlib.Path) -> Format:
    like = {"conv": {"w": np.ones((2, 3), np.float32)}, "steps": np.int32(3), "mask": np.ones((2, 0), bool)}
    valid = pack(like)
    return Format(valid, malformed.safetensors_files(valid), lambda content: unpack(content, like), 15)


def message(folder: pathlib.Path) -> Format:
    step = [np.zeros(2, np.int32), np.ones((2, 3, 1), np.float32), np.zeros((2, 0), bool), np.array(3)]
    content = ["act", ["actor/0/1", 7, step, 0.5, {"a": None, "b": b"bytes"}, bytes(encoding.LARGE)]]
    small, large = (b"".join(encoding.encode(value)) for value in (step, content))
    broken = malformed.changed_bytes(small) | malformed.changed_bytes(large) | st.binary()
    return Format(large, broken, lambda content: encoding.encode(encoding.decode(memoryview(content))), 5)


def archive_index(folder: pathlib.Path) -> Format:
    make(folder)
    path = folder / INDEX
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        _read_archive(folder)

    return Format(valid, malformed.sealed_files(_unsealed(valid)), read, 15)


def archive_chunk(folder: pathlib.Path) -> Format:
    make(folder)
    index = _unsealed((folder / INDEX).read_bytes())
    chunk = index["chunks"][1]
    valid = (folder / chunk[0]).read_bytes()

    def read(content: bytes) -> None:
        chunk[-1] = hashlib.sha256(content).hexdigest()
        (folder / INDEX).write_bytes(files.sealed(index))
        (folder / chunk[0]).write_bytes(content)
        _read_archive(folder)

    return Format(valid, malformed.changed_bytes(valid) | malformed.parquet_files(valid), read, 10)


def config(folder: pathlib.Path) -> Format:
    run = Run(workdir=str(folder))
    settings = {"game": "catch", "width": 8, "config": {"rate": 0.1, "sizes": [1, 2]}}
    claim_workdir("program", run, settings, Origin("", "", ())).close()
    path = folder / "config.json"
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            claim_workdir("program", run, settings, Origin("", "", ())).close()
        finally:
            for kept in folder.glob("config-until-*"):
                kept.unlink()

    return Format(valid, malformed.json_files(json.loads(valid)), read, 10)


def recorded_program(folder: pathlib.Path) -> Format:
    path = folder / "config.json"
    call = {"file": str(PROGRAM), "function": "impala", "arguments": ("catch", "--actors", "2")}
    function, run, settings = call_of(folder, Config(program="impala", seed=0, settings={}, **call))
    claim_workdir("impala", Run(workdir=str(folder)), settings, Origin(**call)).close()
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        agent_and_env(folder)

    return Format(valid, malformed.json_files(json.loads(valid)), read, 2)


def metrics_rows(folder: pathlib.Path) -> Format:
    rows = [{"env_steps": 10.0 * i, "return": i, "eval_return": None, "eval_version": i} for i in range(4)]
    valid = _lines(rows)

    def read(content: bytes) -> None:
        (folder / metrics.FILE).write_bytes(content)
        for row in metrics.read(folder):
            for value in row.values():
                assert value is None or np.isfinite(value)

    return Format(valid, _rows(rows, valid), read, 9)


def members_rows(folder: pathlib.Path) -> Format:
    rows = [
        {"member": i, "seed": 1, "rate": 0.5, "updates": 10 * i, "eval_return": 0.1, "loss": None} for i in range(4)
    ]
    valid = _lines(rows)

    def read(content: bytes) -> None:
        (folder / metrics.MEMBERS).write_bytes(content)
        for result in _results(folder):
            assert np.isfinite(result.curve.values).all() and np.isfinite(result.score.value)

    return Format(valid, _rows(rows, valid), read, 6)


def evaluations(folder: pathlib.Path) -> Format:
    lines = [
        {"updates": i, "which": "newest", "episodes": 2, "deterministic": True, "seed": 0, "returns": [0.5, i]}
        for i in range(3)
    ]
    valid = _lines(lines)

    def read(content: bytes) -> None:
        (folder / finals.FILE).write_bytes(content)
        for result in _results(folder):
            assert np.isfinite(result.score.value)

    return Format(valid, _rows(lines, valid), read, 2)


def snapshot_manifest(folder: pathlib.Path) -> Format:
    store = SnapshotFolder(folder, "snapshot")
    with store.writing(1) as new:
        (new / "inner").mkdir(parents=True)
        (new / "inner" / "array").write_text("1, 2")
    path = folder / "1" / manifest.NAME
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        store._require_room(0)
        store.newest_whole(lambda warning: None)

    return Format(valid, malformed.sealed_files(_unsealed(valid)), read, 10)


def checkpoint_counts(folder: pathlib.Path) -> Format:
    state = {"w": np.ones(3, np.float32)}
    Checkpointer(folder).save(1, state, {"env_steps": 10.0, "updates": 2})
    path = folder / "1" / "counts" / "metadata"
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        (folder / "1" / manifest.NAME).unlink()
        manifest.write(folder / "1", 1)
        _, counts = Checkpointer(folder).restore(state)
        assert all(np.isfinite(value) for value in counts.values())

    return Format(valid, malformed.json_files(json.loads(valid)), read, 1)


def monitor_counters(folder: pathlib.Path) -> Format:
    saved = counters.Counters()
    saved.record("actor/0", "first", {"env_steps": 10.0})
    saved.record("actor/0", "second", {"env_steps": 5.0})
    saved.resume("learner", {"updates": 4.0, "seconds": 2.0})
    counters.save(folder, saved.content())
    path = folder / counters.FILE
    valid = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        loaded = counters.load(folder)
        if loaded is None:
            raise ValueError("damaged")
        now = counters.Counters()
        now.record("actor/0", "second", {"env_steps": 6.0})
        now.resume("actor/0", {"env_steps": 2.0})
        continued = now.continued_from(loaded)
        assert all(np.isfinite(value) for value in continued.totals().values())
        counters.save(folder, continued.content())

    return Format(valid, malformed.sealed_files(_unsealed(valid)), read, 9)


def sent_rows(folder: pathlib.Path) -> Format:
    valid = follow.SENT.dump_json(follow.Sent("0" * 32, 3))
    return Format(valid, malformed.json_files(json.loads(valid)), lambda content: schema.load(follow.SENT, content), 1)


def sweep_file(folder: pathlib.Path) -> Format:
    content = {
        "program": str(PROGRAM),
        "env": ["catch", "grid_world"],
        "seeds": [0, 3],
        "flags": {"launch": "anakin", "stop.updates": 5},
        "grid": {"config.discount": [0.9, 0.99]},
        "runs": [{"name": "one"}, {"config.lstm-size": 8}],
        "sample": {"trials": 2, "flags": {"rate": {"low": 0.1, "high": 1.0, "log": True}, "size": [1, 2]}},
        "slots": {"number": 1, "cores": None},
    }
    path = folder / "sweep.yaml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found = sweeps.read(path)
        assert sweeps.entries(found)

    return Format(json.dumps(content).encode(), malformed.json_files(content), read, 3)


def sweep_plan(folder: pathlib.Path) -> Format:
    run = sweeps.Entry("run", str(PROGRAM), "catch", 3, {"rate": 0.5, "sizes": [1, 2]}, {"rate": 0.5})
    jobs = [plan.Job("run", (run,)), plan.Job("two", (run, run), ({"seed": 1}, {"seed": 2}))]
    plan.write(folder, ["boonta", "sweep"], sweeps.Spec(str(PROGRAM)), jobs)
    path = folder / plan.FILE

    def read(content: bytes) -> None:
        path.write_bytes(content)
        plan.read(folder)

    return Format(path.read_bytes(), malformed.json_files(json.loads(path.read_bytes())), read, 2)


_MADE = (params, message, archive_index, archive_chunk, config, recorded_program, metrics_rows, members_rows)
_MADE += (evaluations, snapshot_manifest, checkpoint_counts, monitor_counters, sent_rows, sweep_file, sweep_plan)
FORMATS: dict[str, Callable[[pathlib.Path], Format]] = {made.__name__: made for made in _MADE}


def _results(folder: pathlib.Path) -> list[results.Result]:
    """The results of a run that has this folder's members and evaluations."""
    if not (folder / metrics.FILE).exists():
        run_folders.write_run(folder)
    return results.results_of(results.recorded(folder), results.RETURN, "newest")[0]


def _read_archive(folder: pathlib.Path) -> None:
    opened = archive.open_archive(folder, env_of_archive(folder), SIGNATURE)
    for steps in itertools.islice(archive.read(opened, seed=0), 12):
        archive.complete(steps)
        archive.episode_return(steps, Catch().spec)


def _unsealed(content: bytes) -> dict[str, Any]:
    value = json.loads(content)
    value.pop("sha256")
    return value


def _lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _rows(rows: list[Any], valid: bytes) -> st.SearchStrategy[bytes]:
    """Malformed JSON lines."""
    changed = malformed.json_files(rows[1])
    return st.tuples(changed, st.just(valid)).map(b"\n".join) | malformed.changed_bytes(valid)
