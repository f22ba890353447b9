"""Benchmarks run: each part on its own, in the process that the whole gives it. Nothing is said of how fast."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from boonta.benchmarks import (
    acme,
    calls,
    envs,
    inference,
    load,
    load_pod,
    load_program,
    muzero,
    replay_bytes,
    replay_place,
    restarts,
    start,
    timing,
    tunnel,
    values,
)
from boonta.tests.helpers.deadline import DEADLINE_S

OPTIONS = muzero.Options(num_simulations=2, num_envs=4, seconds=0.05)


@pytest.mark.unoptimised
@pytest.mark.parametrize(
    "part",
    [
        *(pytest.param(part, marks=pytest.mark.once) for part in ("env", "act", "learn")),
        pytest.param("reverb", marks=pytest.mark.cluster),
    ],
)
def test_a_part_has_a_rate(part):
    assert timing.in_process(muzero.__file__, OPTIONS, part) > 0


def test_sequences_are_compared_with_those_of_reverb_alone(capsys, monkeypatch):
    rates, given = {"env": 8_000.0, "act": 8_000.0, "learn": 4_000.0, "reverb": 2_000.0}, []

    def whole(program, flags, seconds):
        given.extend([program, *flags])
        return {"env_steps_per_s": 1_000.0, "updates_per_s": 12.5}

    monkeypatch.setattr(timing, "in_process", lambda file, options, part: rates[part])
    monkeypatch.setattr(timing, "whole", whole)
    values.main(values.Options(turns=1))
    assert given[:2] == ["r2d2.py", "catch"] and "--config.replay.min-size=100" in given
    lines = capsys.readouterr().out.splitlines()
    assert (
        "sequences/s written: 200.0 by Reverb alone, 100.0 in the whole, 50%" in lines
    )  # A sequence has 10 new steps.
    assert "sequences/s drawn: 800.0 by Reverb alone, 400.0 in the whole, 50%" in lines
    assert "updates/s: 50.0 alone, 12.5 in the whole" in lines  # 32 of them, each drawn four times.


@pytest.mark.once
def test_a_replay_gives_batches_in_both_places(capsys):
    options = replay_place.Options(env_name="catch", num_envs=4, size=1_000, seconds=0.05, turns=2)
    replay_place.main(options)
    first, batch, host, device, ratio = capsys.readouterr().out.splitlines()
    assert "medians of 2 turns" in first and " MB of rows are new" in batch and ratio.startswith("device / host")
    for line, place in ((host, "host"), (device, "device")):
        assert line.split()[0] == place and float(line.split()[1].replace(",", "")) > 0


@pytest.mark.cluster
def test_what_a_step_takes_is_measured_by_bootstrap_length(capfd):
    replay_bytes.main(replay_bytes.Options(steps=400, lengths=(1, 3), seconds=0.05))
    head, *rows, last = (line.split() for line in capfd.readouterr().out.splitlines())
    assert head[0] == "N" and [row[0] for row in rows] == ["1", "3"]
    assert all(float(figure.replace(",", "")) > 0 for _, sent, _, *others in rows for figure in (sent, *others))
    assert " ".join(last).startswith("in this process")


def test_both_starts_are_shown_by_their_phases(capsys, monkeypatch):
    """Two turns, each of which starts twice from one folder."""
    commands, whole = [], iter((30.0, 8.0, 34.0, 10.0))
    monkeypatch.setattr(timing.subprocess, "run", lambda command, **_: commands.append(command))
    row = {"start_s/importing": 4.0, "updates": 9.0}
    monkeypatch.setattr(start, "figures", lambda folder: [{"start_s": next(whole), **row}])
    start.main(start.Options(turns=2, seconds=50.0))
    limits = [(command[-2], command[-1]) for command in commands]
    assert [limit for _, limit in limits] == ["--stop.seconds=50.0", "--stop.seconds=100.0"] * 2
    assert limits[0][0] == limits[1][0] != limits[2][0]  # Folders.
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "at first    32.0 (30.0-34.0)  importing 4.0",
        "resumed      9.0 (8.0-10.0)  importing 4.0",
    ]


def test_the_table_shows_medians_and_compares_a_whole_with_its_own_turn(capsys):
    turns = [{"part": part, timing.LIMIT: limit, "whole": whole} for part, limit, whole in ((9, 4, 2), (7, 8, 6))]
    turns.append({"part": 8, timing.LIMIT: 2, "whole": 1})
    timing.print_table(turns, {"whole": timing.LIMIT})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["part", "8", "(7-9)", "125,000"]
    assert lines[4].split() == ["whole", "2", "(1-6)", "500,000", "50%", "(50%-75%)"]


def test_a_gpu_is_as_busy_as_its_driver_says(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho 20; echo 80\ntouch {tmp_path}/printed\nexec sleep {DEADLINE_S:.0f}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    until = time.monotonic() + DEADLINE_S
    with timing.gpu_busy() as busy:
        while not (tmp_path / "printed").exists():
            assert time.monotonic() < until, "nothing was asked of the driver"
            time.sleep(0.01)
    assert busy == [0.2, 0.8] and timing.share(busy) == "50%"


def test_without_a_gpu_nothing_is_said_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with timing.gpu_busy() as busy:
        pass
    assert timing.share(busy) == "-"


def test_central_inference_is_compared_in_turns(capsys, monkeypatch):
    rates = iter([100.0, 80.0, 120.0, 90.0])

    def whole(program, flags, seconds):
        found = {"env_steps_per_s": next(rates), "updates_per_s": 1.0, "policy_lag": 0.0, "rss_mb/actor/0": 50.0}
        return found | ({"rss_mb/inference": 10.0} if program == inference.PROGRAMS["central"] else {})

    monkeypatch.setattr(timing, "whole", whole)
    inference.main(inference.Options(turns=2))
    rows = {line[:32].strip(): line[32:].split() for line in capsys.readouterr().out.splitlines()[2:]}
    spread = ["110.0", "(100.0-120.0)", "85.0", "(80.0-90.0)", "0.78", "(0.75-0.80)"]
    assert rows["env steps/s"] == spread and rows["memory of all nodes, MB"][2] == "60.0"
    assert rows["memory of inference, MB"] == ["10.0", "(10.0-10.0)"]


def test_cadences_are_compared_with_the_first(capsys, monkeypatch):
    given = []

    def whole(program, flags, seconds):
        given.append(flags[-3:])
        rate = 100.0 if "--refresh-every=40" in flags else 80.0
        return {"env_steps_per_s": rate, "updates_per_s": 1.0, "policy_lag": 2.0, "share/learner/publishing": 0.1}

    monkeypatch.setattr(timing, "whole", whole)
    muzero.main(muzero.Options(cadences="1/10,1/10/40", turns=1))
    assert given[1] == ["--updates-per-step=1", "--publish-every=10", "--refresh-every=40"]
    first, second = (line.split() for line in capsys.readouterr().out.splitlines()[-2:])
    assert (first[0], first[3], second[0], second[3]) == ("1/10", "1.00", "1/10/40", "1.25")


def test_a_part_that_fails_ends_the_benchmark():
    def make_work(i: int):
        return lambda: 1 / 0

    with pytest.raises(ZeroDivisionError):
        timing.on_all_cores(make_work, 0.0)


def test_frames_of_a_simulated_actor_tell_whose_they_are():
    frames = load_program.steps(63, 70_000, np.zeros((2, *load_program.FRAME), np.uint8)).observation
    np.testing.assert_array_equal(load_program.origins(frames), [[63, 0, 70_000], [63, 1, 70_000]])


def test_what_a_step_costs_is_the_growth_of_processor_time_by_that_of_steps():
    cpu = {"actor": 4.0, "replay": 3.0, "learner": 2.0, "variables": 1.0, "monitor": 0.5}
    row = {f"{what}_ms_p{percent}": 1.0 for what in ("step", "sequence", "params") for percent in (50, 99)}
    row |= {"rss_mb/replay/0": 5.0, "rss_mb/replay/1": 7.0, "rss_mb/variables/0": 2.0, "rss_mb/variables/1": 4.0}
    row |= {"trajectories/size": 64.0, "env_steps_per_s": 100.0, "lost": 0.0, "torn": 0.0}
    rows = [
        {**row, "seconds": 60.0 + 5 * i, "env_steps": 1_000.0 * i, "fetches": 500.0 * i}
        | {f"cpu_s/{role}": 7.0 + i * seconds for role, seconds in cpu.items()}
        for i in range(3)
    ]
    found = load.figures(rows, servers=2)
    shown = {name.removeprefix("processor, "): value for name, value in found.items() if name.startswith("processor")}
    assert list(shown.values()) == [4_000.0, 3_000.0, 2_000.0, 2_000.0]
    assert sum(cpu.values()) / 5 == next(value for name, value in found.items() if name.startswith("cores busy"))
    assert found["memory of a replay server, MB"] == 6.0 and found["sequences in the queue"] == 128.0


def test_the_pod_needs_what_its_load_is_by_what_one_carries(capsys):
    measured = load_pod.Measured(
        actor_us=46, replay_us=100, consumer_us=10, variables_us=1_000, heartbeat_us=(60, 1_050)
    )
    assert load_pod.steps_per_s(measured) == pytest.approx((10.75e6, 20e6))
    parts = {part.name: (part.actors, part.needed) for part in load_pod.parts(measured)}
    assert parts["replay server, a core"] == (9, 1_075) and parts["variable server, a core"] == (193, 52)
    assert parts["monitor, connections"] == (3_993, 3)
    assert parts["monitor, a core"] == (905, 108)  # A call takes 149 us, and a heartbeat of one of n 50 + n.
    assert next(iter(parts)) == "replay server, a core"  # The fewest actors reach it.
    load_pod.show(measured)
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "the first of 52 variable servers serves all others once in 0.08 s, or 5 updates"


@pytest.mark.cluster
def test_a_table_is_saved_and_restored(capsys):
    load.main(load.Options(actors=(), seconds=0.1, gigabytes=0.00115, pod=False))
    found = {line[:60].strip(): float(line[60:].replace(",", "")) for line in capsys.readouterr().out.splitlines()}
    assert found["sequences restored"] == found["sequences in the table"] == 8


@pytest.mark.cluster
@pytest.mark.slow
def test_restarts_are_measured_by_node(capsys):
    plan = restarts.Plan((), ("actor/0", "monitor"))
    restarts.main(restarts.Options(turns=1, ways=("kill",)), {"tests/helpers/light_program.py": plan})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    assert [row[:2] for row in rows] == [["actor/0", "kill"], ["monitor", "kill"]]
    assert all(0.0 < float(named) <= float(works) for _, _, named, _, works, _ in rows)


def test_environments_are_measured_in_one_process_and_in_several(capsys):
    names = ("gymnasium/Pendulum-v1", "gymnasium/CartPole-v1")
    envs.main(envs.Options(names, slots=(1, 2), workers=(0, 2), seconds=0.01, turns=1))
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["slots", "workers", "0", "workers", "2"]
    assert [row[:2] for row in rows] == [[name, slots] for name in names for slots in "12"]
    assert [row[-1] == "-" for row in rows] == [True, False] * 2  # One slot has no use for two processes.
    assert all(float(row[2].replace(",", "")) > 0 for row in rows)


def test_calls_are_measured_by_every_way_that_is_installed():
    command = [sys.executable, calls.__file__, "--turns", "1", "--calls", "10"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    head, *rows = done.stdout.splitlines()[1:]
    assert "ours, unix" in head and "ours, tls" in head
    assert [row.rpartition(",")[0] for row in calls.ROWS] == [row[:24].strip().rpartition(",")[0] for row in rows]
    assert all(float(figure.replace(",", "")) >= 0 for row in rows for figure in row[24:].split())


def test_a_tunnel_is_measured_beside_none():
    command = [sys.executable, tunnel.__file__, "--turns", "1", "--messages", "5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    head, *rows = done.stdout.splitlines()[1:]
    assert head.split()[:2] == ["none", "ours"]
    assert len(rows) == len(tunnel.SIZES)
    assert all(float(figure.replace(",", "")) > 0 for row in rows for figure in row[12:].split())


def test_ours_are_compared_with_acme_s_in_each_turn():
    lines, measured = [], []
    rates = iter([200, 300, 500, 100, 170, 240])

    def measure(program, flags):
        measured.append((program, *flags))
        return {"env_steps_per_s": float(next(rates)), "updates_per_s": 2.0}

    acme.compare(acme.Options(("impala",), ("local_mp", "sebulba"), turns=2), measure, lines.append)
    flags = *acme.TASKS["impala"], timing.NO_EVALUATION
    ours = [("impala.py", *flags, "--launch", launch) for launch in ("local_mp", "sebulba")]
    assert measured == [(acme.THEIRS, "catch", "--agent", "impala"), *ours] * 2
    assert [line.split() for line in lines[2:]] == [
        ["impala", "Acme's", "150", "1.00", "(1.00-1.00)", "nan", "2.0"],
        ["impala", "local_mp", "235", "1.60", "(1.50-1.70)", "nan", "2.0"],
        ["impala", "sebulba", "370", "2.45", "(2.40-2.50)", "nan", "2.0"],
    ]
    with pytest.raises(SystemExit, match="--agents ppo is unknown; allowed: impala, dqn"):
        acme.compare(acme.Options(("ppo",)), measure)
