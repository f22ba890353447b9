"""Slots in processes of their own: the same streams, and processes that end by name."""

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import types

import jax.numpy as jnp
import numpy as np
import psutil
import pytest
from dm_env import specs

from boonta.envs import base, catch, conformance, processes
from boonta.envs.dm_env import DmEnv
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.processes import InProcesses
from boonta.tests.helpers.fragile import Fragile


def test_the_steps_are_those_of_each_workers_batch():
    """It compares with batches in this process, each with the seed of a worker."""
    inner, actions = catch.Catch(rows=4, columns=3), np.random.default_rng(0).integers(3, size=(20, 4))
    batch = InProcesses(inner, workers=2)(num_envs=4, seed=3)
    ours = [inner(2, int(seed)) for seed in base.slot_seeds(2, 3)]
    steps, wanted = [batch.reset()], [[env.reset() for env in ours]]
    for action in actions:
        steps.append(batch.step(action))
        wanted.append([env.step(half) for env, half in zip(ours, np.split(action, 2))])
    for step, halves in zip(steps, wanted):
        for got, *parts in zip(step, *halves):
            np.testing.assert_array_equal(got, np.concatenate(parts))
            assert got.dtype == parts[0].dtype
    episodes = [
        [episode._replace(slot=episode.slot + 2 * i) for episode in env.episodes()] for i, env in enumerate(ours)
    ]
    assert sorted(batch.episodes()) == sorted(sum(episodes, [])) != []
    batch.close()


@pytest.mark.once
def test_conforms():
    conformance.check(Gymnasium("Pendulum-v1", {"max_episode_steps": 9}, workers=2), num_envs=4, steps=40)


def test_the_board_of_a_game_comes_through_and_actions_are_checked_before_they_go():
    batch = InProcesses(OpenSpiel("tic_tac_toe"), workers=2)(num_envs=2, seed=0)
    first, second = batch.reset(), batch.step(np.array([4, 0], np.int32))
    assert type(first.observation) is base.BoardView and first.observation.legal.all()
    assert second.observation.player.tolist() == [1, 1] and np.argwhere(~second.observation.legal).tolist() == [
        [0, 4],
        [1, 0],
    ]
    with pytest.raises(ValueError, match="action of slot 1 is 9; allowed: 0 to 8"):
        batch.step(np.array([1, 9]))
    batch.close()


def test_nests_pictures_and_speed_come_through_and_every_worker_is_a_process():
    batch = DmEnv(Fragile, workers=8)(num_envs=6, seed=0)  # At most one worker for each slot.
    step = batch.reset()
    assert len({os.getpid(), *step.observation[0]["process"].tolist()}) == 7
    assert step.observation[0]["flag"].dtype == bool and step.observation[0]["flag"].all()
    assert step.observation[1].dtype == np.uint8 and (step.observation[1] == 250).all()
    assert batch.render().shape == (6, 2, 3, 3) and batch.steps_per_s == 25.0
    batch.close()
    batch.close()


def test_people_see_each_slot_as_its_own_worker_knows_it():
    alone = OpenSpiel("connect_four")(num_envs=4, seed=0)
    with contextlib.closing(InProcesses(OpenSpiel("connect_four"), workers=2)(num_envs=4, seed=0)) as batch:
        for env in (batch, alone):
            env.reset()
            env.step(np.arange(4, dtype=np.int32))
        for slot in range(4):
            assert (batch.text(slot), batch.action_name(slot, 6)) == (alone.text(slot), alone.action_name(slot, 6))


def processes_of(step: base.TimeStep) -> list[int]:
    return step.observation[0]["process"].tolist()


def is_gone(process: int) -> bool:
    """Whether a process ends within seconds; one that has ended may still be in its parent's list."""
    for _ in range(500):
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:  # It may also go while its state is being read.
            return True
        time.sleep(0.02)
    return False


def test_what_an_environment_raises_comes_through_and_no_process_stays():
    batch = DmEnv(Fragile, workers=2)(num_envs=4, seed=0)
    processes = processes_of(batch.reset())
    with pytest.raises(LookupError, match="the motor is gone"):
        batch.step(np.array([0, 0, 1, 0]))
    batch.close()
    assert all(map(is_gone, processes))


def test_a_picture_of_another_shape_and_the_same_size_is_refused():
    batch = DmEnv(Fragile, {"shape": (4, 1)}, workers=1)(num_envs=2, seed=0)
    with pytest.raises(ValueError, match=r"has the shape \[2, 4, 1\]; by its spec .* it is \[2, 2, 2\]"):
        batch.reset()
    batch.close()


def test_a_process_that_is_killed_is_named_by_its_slots():
    batch = DmEnv(Fragile, workers=2)(num_envs=4, seed=0)
    processes = processes_of(batch.reset())
    with pytest.raises(RuntimeError, match="the process of slots 2 to 3 ended with exit code -9, at 'step'"):
        batch.step(np.array([0, 0, 0, 2]))
    batch.close()
    assert all(map(is_gone, processes))


def test_a_process_that_was_killed_between_steps_is_named_too():
    batch = DmEnv(Fragile, workers=2)(num_envs=2, seed=0)
    processes = processes_of(batch.reset())
    os.kill(processes[0], signal.SIGKILL)
    assert is_gone(processes[0])
    with pytest.raises(RuntimeError, match="the process of slots 0 to 0 ended with exit code -9, at 'step'"):
        batch.step(np.zeros(2, int))


def test_signals_that_reach_all_processes_are_left_to_the_first():
    batch = DmEnv(Fragile, workers=1)(num_envs=2, seed=0)
    (process, _) = processes_of(batch.reset())
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process, number)
    assert processes_of(batch.step(np.zeros(2, int))) == [process] * 2
    batch.close()


class OfTests(Fragile):
    """Pytest's modules are in no folder where another process would look for them."""


def test_one_that_no_other_process_can_import_is_refused_with_a_reason():
    with pytest.raises(
        RuntimeError, match="could not start .*; it wrote the reason on standard error. It must be able to"
    ):
        DmEnv(OfTests, workers=2)(num_envs=2, seed=0)


def test_processes_that_hang_end_with_the_one_that_started_them():
    code = (
        "import signal\nimport numpy as np\nfrom boonta.envs.dm_env import DmEnv\n"
        "from boonta.tests.helpers.fragile import Fragile\n"
        "batch = DmEnv(Fragile, workers=2)(num_envs=2, seed=0)\n"
        "print(*batch.reset().observation[0]['process'], flush=True)\n"
        "signal.alarm(1)\nbatch.step(np.array([3, 3]))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        processes = [int(word) for word in parent.stdout.readline().split()]
        assert parent.wait(60) == -signal.SIGALRM and len(processes) == 2
    left = [process for process in processes if not is_gone(process)]
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left


class Stuck(catch.Catch):
    """Another process is never done with making one of these from its pickle."""

    def __reduce__(self):
        return time.sleep, (1e6,)


def test_one_that_is_never_imported_is_given_up_and_no_process_stays(monkeypatch):
    monkeypatch.setattr(processes, "DEADLINE_S", 0.5)
    before = multiprocessing.active_children()
    with pytest.raises(RuntimeError, match="have not started in 0.5 s"):
        InProcesses(Stuck(), workers=2)(num_envs=2, seed=0)
    assert set(multiprocessing.active_children()) <= set(before)


ODD = {"<U4": "<U4", "object": object, "bfloat16": jnp.bfloat16, "[('x', '<i4')]": [("x", "<i4")], ">i4": ">i4"}


@pytest.mark.parametrize("dtype", [*ODD, "complex64", "datetime64[s]"])
@pytest.mark.parametrize("leaf", ["observation.odd", "action"])
def test_a_dtype_that_processes_can_not_share_is_refused_by_its_leaf_before_any_process_starts(dtype, leaf):
    odd, number = specs.Array((3,), ODD.get(dtype, dtype)), specs.BoundedArray((), np.float32, 0, 1)
    spec = base.EnvSpec(*(({"number": number, "odd": odd}, number) if leaf != "action" else (number, odd)))
    before = multiprocessing.active_children()
    shown = re.escape(f"the environment's {leaf} is {dtype} by its spec; for slots in processes of their own it")
    with pytest.raises(ValueError, match=shown + " must be of numpy's own bools, integers or real numbers, in this"):
        InProcesses(types.SimpleNamespace(spec=spec), workers=2)(num_envs=2, seed=0)
    assert set(multiprocessing.active_children()) <= set(before)


@pytest.mark.parametrize(("slots", "workers", "seed"), [(0, 2, 0), (2, 0, 0), (2, 2, -1)])
def test_refuses_bad_settings(slots, workers, seed):
    with pytest.raises(ValueError, match="must be at least"):
        InProcesses(catch.Catch(), workers)(slots, seed)
