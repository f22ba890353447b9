"""Actors that join a running program, leave it again, and die."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest

from boonta.agents import dqn
from boonta.envs.catch import Catch
from boonta.nodes.snapshots import counters, schema
from boonta.nodes.tables import contract
from boonta.nodes.tables.division import SERVERS, divided
from boonta.nodes.watch.status import STATUS
from boonta.tests.helpers.launched import LIGHT, LIMIT, TINY, ends_with
from boonta.tests.helpers.running import ROOT, Running

pytestmark = pytest.mark.cluster
JOIN = [sys.executable, "-m", "boonta", "join"]


class Joining:
    """A context manager that lets actors join a run by a command of their own, and kills what is left of it."""

    def __init__(self, run: Running, printed: pathlib.Path, *flags: str):
        self._run, self._printed = run, printed
        with open(printed, "wb") as output:
            self.process = subprocess.Popen(
                [*JOIN, str(run.workdir), *flags], cwd=ROOT, stdout=output, stderr=output, start_new_session=True
            )

    def __enter__(self) -> Joining:
        return self

    def __exit__(self, *error: object) -> None:
        for process in [*self.nodes, self.process]:
            process.kill()
        self.process.wait()

    @property
    def nodes(self) -> list[psutil.Process]:
        """The processes of its actors."""
        return psutil.Process(self.process.pid).children() if self.process.poll() is None else []

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._printed.read_text(errors="replace")

    def wait_until_counted(self, *names: str, counter: str = "env_steps") -> None:
        """Waits until the monitor has counted steps of these actors, or what else they count."""

        def there() -> bool:
            assert self.process.poll() is None, self.printed
            return all(counts(self._run, counter).get(name, 0.0) > 0 for name in names)

        self._run.wait_until(there, f"{counter} of {names} are counted")


def counts(run: Running, counter: str = "env_steps") -> dict[str, float]:
    """What each node's present life has counted, as the monitor has last saved it."""
    found = counters.load(run.workdir)
    return {} if found is None else {name: own.get(counter, 0.0) for name, (_, own) in found.lives.items()}


def has_left(run: Running, name: str) -> bool:
    """Whether the monitor knows it, and has saved the node's last counters, as it does before it says so."""
    return json.loads((run.workdir / STATUS).read_text())["nodes"][name]["gone"]


def test_actors_join_one_leaves_another_is_killed_and_all_that_they_did_is_counted(tmp_path):
    end = tmp_path / "end"
    with Running(tmp_path, LIGHT, *ends_with(end)) as run:
        run.wait_until_it_works()
        config = json.loads((run.workdir / schema.CONFIG).read_text())
        config["provenance"]["boonta"]["commit"] = "0123456789"
        (run.workdir / schema.CONFIG).write_text(json.dumps(config))
        with (
            Joining(run, tmp_path / "leaves") as leaves,
            Joining(run, tmp_path / "stays", "--actors", "2") as stays,
        ):
            leaves.wait_until_counted("actor/1", "actor/2", "actor/3")
            leaves.process.send_signal(signal.SIGINT)
            assert leaves.process.wait(120) == 0, leaves.printed
            (left,) = (name for name in ("actor/1", "actor/2", "actor/3") if f"{name} join" in leaves.printed)
            run.wait_until(lambda: has_left(run, left), f"{left} has left")
            assert "warning: the run was started from boonta" in leaves.printed and "01234567" in leaves.printed
            before = counts(run)
            os.kill(stays.nodes[0].pid, signal.SIGKILL)
            run.wait_until_it_works()
            end.touch()
            printed = run.finish(0)
            assert stays.process.wait(120) == 1 and "ended with code -9" in stays.printed
    after = counts(run)
    assert after[left] == before[left] > 0 and all(after[name] >= value for name, value in before.items())
    steps = [row["env_steps"] for row in run.rows]
    assert steps == sorted(steps) and steps[-1] >= max(LIMIT, sum(after.values()))
    assert f"away {left} for " in printed and "error" not in printed


@pytest.mark.slow
def test_actors_that_have_joined_write_to_the_same_table_at_the_same_ratio(tmp_path):
    with Running(tmp_path, TINY) as run:
        run.wait_until_it_works()
        with Joining(run, tmp_path / "joined", "--actors", "2") as joined:
            joined.wait_until_counted("actor/1", "actor/2")
            run.wait_until_it_works()
            run.end()
            assert joined.process.wait(120) == 0, joined.printed
    last = run.rows[-1]
    (name,) = (key.partition("/")[0] for key in last if key.endswith("/inserted"))
    assert last[f"{name}/sampled"] <= last[f"{name}/inserted"] and last["rss_mb/actor/2"] > 0


@pytest.mark.slow
def test_each_of_two_servers_keeps_its_ratio_with_actors_that_have_joined(tmp_path):
    """The samples that a server owes stay within its limiter's bounds, whoever is faster, and so those of both do."""
    (table,) = dqn.make(dqn.CATCH, Catch().spec).tables
    limit = contract.rate_limit(divided(table, 2, SERVERS))

    def flow(row: dict[str, float]) -> list[tuple[int, int]]:
        """Sequences inserted and sampled, by server."""
        names = [[f"{table.name}/{flow}/replay/{i}" for flow in ("inserted", "sampled")] for i in range(2)]
        return [(int(row[inserted]), int(row[sampled])) for inserted, sampled in names if inserted in row]

    with Running(tmp_path, "tests/helpers/shards_program.py", "catch", "--replay-servers", "2") as run:
        run.wait_until_it_works()
        with Joining(run, tmp_path / "joined", "--actors", "2") as joined:
            joined.wait_until_counted("actor/1", "actor/2", counter="sequences")
            run.wait_until_it_works()  # Its rows know what they have written.
            before = flow(run.rows[-1])
            grown = lambda: np.all(np.greater(flow(run.rows[-1]), before))  # noqa: E731
            run.wait_until(grown, "both servers take sequences in, and give some out")
            run.end()
            assert joined.process.wait(120) == 0, joined.printed
    flows = [flow(row) for row in run.rows]
    assert len(flows[-1]) == 2 and min(inserted for inserted, _ in flows[-1]) > limit.min_size
    for inserted, sampled in itertools.chain(*flows):
        assert limit.lowest <= limit.owed(inserted, sampled) <= limit.highest
    inserted, sampled = np.sum(flows[-1], axis=0)
    most = 2 * max(-limit.lowest, limit.highest)
    assert sampled / inserted == pytest.approx(limit.samples_per_insert, abs=most / inserted)


def test_a_run_that_has_ended_or_never_began_cannot_be_joined(tmp_path):
    with Running(tmp_path, LIGHT, "--stop.updates", "1") as run:
        run.finish(0)
    ended = subprocess.run([*JOIN, str(run.workdir)], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2 and "no program that can be joined runs in" in ended.stderr
    learner = subprocess.run([*JOIN, str(run.workdir), "--group", "learner"], cwd=ROOT, capture_output=True, text=True)
    assert learner.returncode == 2 and "group 'learner' can't be joined" in learner.stderr
    absent = subprocess.run([*JOIN, str(tmp_path / "nothing")], cwd=ROOT, capture_output=True, text=True)
    assert absent.returncode == 2 and "holds no run" in absent.stderr
