"""What benchmarks share: how runs are cut, compared and waited for, and what is refused before anything is measured."""

from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from boonta.benchmarks import load, load_program, replay_server, scaling, sebulba, timing
from boonta.benchmarks.peers import dqn
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import Placement

PEERS = pathlib.Path(dqn.__file__).parent


def row(seconds: float, updates: float) -> dict[str, float]:
    return {"seconds": seconds, "updates": updates, "updates_per_s": 1.0}


def test_a_run_is_measured_after_its_first_minute_and_but_for_its_last_row():
    found = [row(30, 0), row(50, 10), row(60, 20), row(70, 30), row(75, 35)]
    assert timing.steady(found, "x.py") == found[2:4]


@pytest.mark.parametrize(
    "found, why",
    [
        ([row(50, 10), row(59.9, 20), row(70, 30)], "x.py has no row of metrics between 60 s and its end"),
        ([], "x.py has no row of metrics"),
        ([row(30, 0), row(55, 0), row(65, 5), row(75, 9)], "x.py: the learner made no update in the first 60 s"),
        ([row(65, 5), row(75, 9)], "x.py: the learner made no update in the first 60 s"),
    ],
)
def test_a_run_that_had_not_begun_to_learn_is_refused(found, why):
    with pytest.raises(SystemExit, match=why):
        timing.steady(found, "x.py")


def test_a_ratio_is_that_of_each_turn():
    assert timing.ratios([2.0, 8.0, 3.0], [1.0, 2.0, 3.0]) == "2.00 (1.00-4.00)"
    assert timing.ratios([2.0, 2.0], [1.0, 4.0], [2.0, 2.0], form=".0%") == "125% (50%-200%)"
    assert timing.ratios([1.0, 3.0]) == "-"


def test_processor_time_is_that_of_all_processes():
    """Three calls warm up."""
    calls = []
    both = [types.SimpleNamespace(cpu_times=lambda: (0.5 * len(calls), 0.25 * len(calls), 9.0)) for _ in range(2)]
    assert timing.per_cpu_second(lambda: calls.append(1) or 6.0, 0.0, both) == 4.0  # type: ignore[func-returns-value]
    assert len(calls) == 4


def test_options_become_the_words_of_a_command_line():
    found = timing.as_flags({"torso.channels": (16, 32), "batch_size": 8})
    assert found == ["--torso.channels", "16", "32", "--batch-size=8"]


@pytest.mark.parametrize(
    "visible, numbers, names",
    [
        (None, None, None),
        ("2,GPU-5", None, ["2", "GPU-5"]),
        (None, [0, 1], ["0", "1"]),
        ("2,GPU-5", [1], ["GPU-5"]),
        ("", None, []),
        (None, [], []),
    ],
)
def test_gpus_are_those_in_use(visible, numbers, names, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = [types.SimpleNamespace(platform="cpu", local_hardware_id=0)]
    devices += [types.SimpleNamespace(platform="gpu", local_hardware_id=number) for number in numbers or ()]
    assert timing.gpu_names(None if numbers is None else devices) == names


def test_a_replay_server_that_fails_is_noticed():
    with pytest.raises(RuntimeError, match="ended with code 1 before it served"), replay_server.served([None], None):  # type: ignore[list-item, arg-type]
        pass


def test_torn_sequences_are_counted():
    rows = np.zeros((3, 4, 3), np.int32)  # Three steps of four sequences.
    rows[:, :, 2] = np.arange(3)[:, None]
    assert load_program.torn(rows) == 0
    rows[1, 0, 0] = 1  # Another actor's.
    rows[2, 2, 2] = 3  # One step is missing.
    assert load_program.torn(rows) == 2


@pytest.mark.parametrize("actors", [0, -8, 12, 17])
def test_actors_that_processes_can_not_share_are_refused(actors):
    with pytest.raises(SystemExit, match=f"--actors {actors}: it must be 1 to 8, or a multiple of 8"):
        load.main(load.Options(actors=(8, actors)))


def test_one_process_that_fails_ends_the_wait_for_all(tmp_path):
    folders = [tmp_path / "0", tmp_path / "1"]
    workers = []
    for folder, code in zip(folders, ("import time; time.sleep(100)", "raise SystemExit(3)")):
        folder.mkdir()
        (folder / "err").write_text("the cause")
        workers.append(subprocess.Popen([sys.executable, "-c", code]))
    try:
        with pytest.raises(SystemExit, match="process 1 ended with code 3:\nthe cause"):
            scaling.await_all(workers, folders, 90.0)
        with pytest.raises(SystemExit, match="after 0 s these processes have not ended: 0"):
            scaling.await_all(workers[:1], folders, 0.0)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def test_cores_are_those_that_processes_use():
    present = [0, 1, 2, 3]
    assert scaling.Options().cores(2, present) == [0, 1] and scaling.Options().cores(8, present) == present
    assert scaling.Options(pinned=False).cores(2, present) == present
    assert scaling.Options("local_mp", pinned=False).cores(2, present) == [0, 1]


def test_a_node_that_fails_ends_the_warm_up():
    nodes = [Node("learner"), Node("actor/0")]
    nodes[1].fail(ValueError("no such game"))
    with pytest.raises(SystemExit, match="actor/0 failed while stepping: ValueError: no such game"):
        sebulba.warm_up(nodes, "a program")


def test_the_lag_is_looked_at_while_measuring(monkeypatch):
    monkeypatch.setattr(sebulba, "LOOK_S", 0.01)
    lags = itertools.count()
    learner = types.SimpleNamespace(report=lambda: {"metrics": {"policy_lag": float(next(lags))}})
    found = sebulba.sampled_lags(learner, 0.05)  # type: ignore[arg-type]
    assert found and found == [float(i) for i in range(len(found))]


def test_the_program_around_reverb_has_the_settings_of_the_one_in_this_process():
    options = sebulba.Options(network="deep", channels=(8, 16, 16), num_envs=(48,), batch_size=16, acting=2)
    words = options.flags(48)
    assert words[:3] == ["--game=Pong", "--actors=2", "--num-envs=96"]
    assert words[3:6] == ["--config.torso.kind=deep", "--config.batch-size=16", "--config.queue-size=48"]
    assert words[6:] == ["--config.torso.channels", "8", "16", "16"]
    program = options.program(Placement(), 48, "")
    assert program.agent.tables[0].batch_size == 16 and program.agent.tables[0].size == 48


@pytest.mark.parametrize(
    "options, why",
    [
        (sebulba.Options("muzero"), "--agent muzero is measured without Reverb here: give --no-reverb"),
        (sebulba.Options(learning=(None, 300)), "placement.learning 300; this process has"),
        (sebulba.Options(num_envs=(32, 48)), "48 environments step together, and batch_size is 32"),
    ],
)
def test_what_can_not_be_measured_is_refused_at_once(options, why):
    with pytest.raises(SystemExit, match=why):
        sebulba.main(options)


def test_a_part_of_dqn_is_that_of_one_environment():
    with pytest.raises(SystemExit, match="--part boonta measures one environment: give one name as --envs"):
        dqn.main(dqn.Options(pathlib.Path("x"), part="boonta"))


@pytest.mark.parametrize(
    "script, code, printed",
    [
        (
            "echo 'ACTOR - Steps per second: 50'; echo 'ACTOR - Steps per second: 700'",
            0,
            "cartpole           64          700",
        ),
        ("echo 'ACTOR - Steps per second: 50'; echo it broke; exit 3", 1, "it broke"),
        ("echo nothing", 1, "no rate: see the log"),
    ],
)
def test_stoix_has_a_rate_or_fails(tmp_path, script, code, printed):
    python = tmp_path / "env" / "bin" / "python"
    for folder in (python.parent, tmp_path / "stoix"):
        folder.mkdir(parents=True)
    (tmp_path / "env" / "installed").touch()
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    command = [PEERS / "stoix.sh", tmp_path, "cartpole", "64"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=60)
    assert done.returncode == code and printed in (done.stderr if code else done.stdout)
