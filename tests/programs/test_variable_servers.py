"""A whole program with two variable servers: both have the newest params, also after each of them has died."""

from __future__ import annotations

import os
import signal

import pytest

from boonta.nodes.rpc.client import Client
from boonta.programs.wiring.run_folder.temporary import address_of
from boonta.tests.helpers.running import Running

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
PROGRAM = (*("tests/helpers/tiny_program.py", "--variable-servers", "2", "--save-every-s", "1000"),)
SERVERS = ("variables/0", "variables/1")


def versions(run: Running) -> list[int]:
    return [Client(address_of(run.workdir, name), 240.0).get(-1)[0] for name in SERVERS]


def kill(run: Running, victim: str) -> None:
    """Kills a server; both have newer params once it is back, and no other node has died."""
    before, known = run.pids, max(versions(run))
    os.kill(before[victim], signal.SIGKILL)
    run.wait_until(lambda: run.pids[victim] != before[victim], "it starts again")
    run.wait_until(lambda: min(versions(run)) > known, "both have newer params")
    run.wait_until_it_works()
    assert {**run.pids, victim: 0} == {**before, victim: 0}


def test_every_server_gets_what_the_learner_publishes_and_gets_it_again_when_it_comes_back(tmp_path):
    with Running(tmp_path, *PROGRAM) as run:
        run.wait_until_it_works()
        for victim in SERVERS:
            kill(run, victim)
        run.end()


@pytest.mark.slow
def test_a_program_ends_clean_while_its_only_server_is_away(tmp_path):
    with Running(tmp_path, "tests/helpers/tiny_program.py", "--restarts.backoff-s", "1000") as run:
        run.wait_until_it_works()
        os.kill(run.pids["variables"], signal.SIGKILL)
        run.wait_until(lambda: "died variables" in run.printed, "its death is known")
        run.end()
