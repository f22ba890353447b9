"""Units on several hosts, here processes that meet on loopback: they learn as one, end as one, and none hangs."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

from boonta.nodes import metrics
from boonta.nodes.hosts import coordination as hosts
from boonta.tests.helpers.apart import free_ports
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.runs import end, saved
from boonta.tests.helpers.units import Units

ENDS_S = 120.0  # Time that a host may outlive another.

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Two hosts' run of some updates in lock-step, and one host's that has the environments of both."""
    folder = tmp_path_factory.mktemp("units")
    stop = ("--stop.env-steps", "6000")
    with Units(folder / "two", 2, *stop) as two:
        assert two.codes() == [0, 0], two.output() + two.output(1)
    with Units(folder / "one", 1, "--placement.threads", "2", "--num-envs", "12", *stop) as one:
        assert one.codes() == [0], one.output()
    return folder


def test_two_hosts_hold_the_same_params_bit_by_bit(learned):
    (updates, first), (others, second) = end(learned / "two"), end(learned / "two" / "hosts" / "1")
    assert updates == others > 5
    np.testing.assert_array_equal(first, second)
    assert np.any(first != 0)


def test_two_hosts_learn_as_one_with_the_environments_of_both(learned):
    two, one = (np.load(learned / name / "after-5.npy") for name in ("two", "one"))
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-7)
    assert np.any(two != 0)


def test_counters_and_checkpoints_are_those_of_the_whole(learned):
    updates, _ = end(learned / "two")
    rows = metrics.read(learned / "two")
    assert saved(learned / "two") == updates
    assert rows[-1]["env_steps"] >= 6000 and "done: env_steps reached" in (learned / "two-1.log").read_text()
    assert not (learned / "two" / "hosts" / "1" / "checkpoints").exists()


def test_meeting_the_other_host_is_a_phase_of_the_start(learned):
    for folder in ("two", "two/hosts/1"):
        row = metrics.read(learned / folder)[-1]
        assert 0 < row["start_s/connecting"] < row["start_s"]


def test_a_run_goes_on_with_another_number_of_hosts(learned):
    updates, _ = end(learned / "two")
    flags = ("--placement.threads", "2", "--num-envs", "12", "--allow-changes", "--stop.updates", str(updates + 5))
    with Units(learned / "two", 1, *flags) as one:
        assert one.codes() == [0], one.output()
    rows = [row for row in metrics.read(learned / "two") if row.get("updates")]
    assert rows[-1]["updates"] >= updates + 5 and saved(learned / "two") >= updates + 5


def test_an_evaluation_on_the_first_host_ends_all(tmp_path):
    """The first evaluation reaches the least return of Catch."""
    with Units(tmp_path / "run", 2, "--evaluate", "--placement.lag", "None", "--stop.eval-return", "-1") as units:
        assert units.codes() == [0, 0], units.output() + units.output(1)
    assert "done: eval_return reached" in units.output(0) and "done: eval_return reached" in units.output(1)


def test_the_first_host_that_is_killed_ends_the_other(tmp_path):
    with Units(tmp_path / "run", 2, "--save-every-s", "1") as units:
        units.await_checkpoint()
        units.processes[0].kill()
        assert units.processes[1].wait(ENDS_S) not in (0, None)


def test_a_host_whose_actor_fails_ends_the_other(tmp_path):
    with Units(tmp_path / "run", 2, broken=True) as units:
        assert units.processes[1].wait(DEADLINE_S) == 1
        assert units.processes[0].wait(ENDS_S) not in (0, None)
    assert "actor/0 failed while stepping: RuntimeError: the actor is broken" in units.output(1)


def test_a_host_that_is_told_to_end_ends_both_after_the_same_update_saved(tmp_path):
    folder = tmp_path / "run"
    with Units(folder, 2, "--save-every-s", "1") as units:
        units.await_checkpoint()
        units.processes[1].send_signal(signal.SIGTERM)
        assert units.codes() == [1, 143], units.output() + units.output(1)
    assert "host 1 was asked to end; a checkpoint is saved" in units.output(0)
    (updates, first), (others, second) = end(folder), end(folder / "hosts" / "1")
    assert updates == others == saved(folder)
    np.testing.assert_array_equal(first, second)


def test_a_save_that_fails_is_told_on_all_hosts_and_tried_again(tmp_path):
    """Then the second host is killed, which ends the first one."""
    in_the_way = tmp_path / "run" / "checkpoints" / "unfinished"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    with Units(tmp_path / "run", 2, "--save-every-s", "1") as units:
        until = time.monotonic() + DEADLINE_S
        while not all("could not be saved in" in units.output(index) for index in (0, 1)):
            assert time.monotonic() < until and all(each.poll() is None for each in units.processes), units.output()
            time.sleep(0.1)
        in_the_way.unlink()
        units.await_checkpoint()
        units.processes[1].kill()
        assert units.processes[0].wait(ENDS_S) not in (0, None)


def test_hosts_that_are_not_alike_name_both(tmp_path):
    with Units(tmp_path / "run", 2, own=("--seed", "5")) as units:
        codes = units.codes()
    assert 0 not in codes
    for index in (0, 1) if codes[1] > 0 else (0,):  # JAX may kill the second host, once the first one is gone.
        assert f"host {index} is program unit_program" in units.output(index), units.output(index)
        assert f"but host {1 - index} is program unit_program" in units.output(index)


def test_a_folder_that_hosts_do_not_share_is_named(tmp_path):
    with Units(tmp_path / "run", 2, own=("--workdir", str(tmp_path / "elsewhere"))) as units:
        assert units.processes[1].wait(DEADLINE_S) == 2
        assert units.processes[0].wait(ENDS_S) not in (0, None)
    assert f"--workdir {tmp_path / 'elsewhere'} of host 1 is not the first host's" in units.output(1)


def test_a_batch_that_hosts_cannot_divide_is_refused(tmp_path):
    with Units(tmp_path / "run", 2, "--batch-size", "13") as units:
        assert 2 in units.codes() and 0 not in units.codes()
    assert "batch_size is 13; it must divide over" in units.output(0) + units.output(1)


def test_a_coordinator_out_of_reach_is_named(tmp_path):
    with pytest.raises(OSError, match="hosts.coordinator 127.0.0.1:9 could not be reached in 0 s"):
        hosts.Hosts("127.0.0.1:9", 2, 1, reach_s=0.2).join("", str(tmp_path))


def test_a_host_that_does_not_come_is_told_in_time_though_jax_may_never_return(tmp_path):
    place = f"127.0.0.1:{free_ports(1)}"
    flags = ("--hosts.coordinator", place, "--hosts.number", "2", "--hosts.reach-s", "2")
    with Units(tmp_path / "run", 1, *flags) as units:
        assert units.codes() == [1], units.output()  # It may come when a platform tries again.
    assert f"host 0 waits up to 2 s for 2 hosts at {place}" in units.output()
    assert f"hosts.number is 2, but not all came to {place} in 2 s" in units.output()
