"""Whole Sebulba programs, on every Python: they learn, and neither Launchpad nor Reverb nor TensorFlow is there."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from boonta.agents import dqn, impala
from boonta.agents.groups import Replay, Torso
from boonta.envs.catch import Catch
from boonta.envs.players import RandomPlayer
from boonta.nodes import metrics
from boonta.nodes.actor import Actor
from boonta.nodes.arena import Arena
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.programs.impala import impala as impala_program
from boonta.programs.impala_atari import impala_atari
from boonta.programs.muzero import muzero as muzero_program
from boonta.programs.tools import play
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.interpreters.sebulba import build
from boonta.programs.wiring.launch import Program, Run, group, main
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.swap_parts import ENVS, make_agent
from boonta.tests.helpers.swap_program import swap_program

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of Catch that ended when it had learned, in a process of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("run")
    code = (
        "import sys; sys.modules.update(launchpad=None, reverb=None, tensorflow=None, courier=None)\n"
        "from boonta.programs.impala import impala\n"
        "from boonta.programs import impala_atari, muzero\n"
        "from boonta.programs.tools import play\n"
        "from boonta.programs.wiring.launch import main\n"
        f"main(impala, ['--launch', 'sebulba', '--workdir', {str(folder)!r}, '--stop.eval-return', '0.95'])"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S, cwd=ROOT, env=environment
    )
    return folder, done


@pytest.mark.unoptimised
def test_impala_learns_catch(learned):
    folder, done = learned
    assert done.returncode == 0, done.stderr
    assert "done: eval_return reached" in done.stdout
    last = metrics.read(folder)[-1]
    assert last["eval_return"] >= 0.95 and last["policy_lag"] >= 0 and last["env_steps"] > 0
    assert list((folder / "checkpoints").iterdir())


@pytest.mark.unoptimised
def test_it_plays_what_anakin_has_learned(tmp_path):
    """The paper's transfer from Anakin to Sebulba, which learns nothing more here."""
    learn = ["--stop.updates", "1500", "--placement.learning", "1"]
    play_on = ["--config.optimiser.learning-rate", "1e-12", "--stop.eval-return", "0.95", "--stop.updates", "100000"]
    start = ["--start-from", str(tmp_path / "anakin")]
    for name, flags in (("anakin", learn), ("sebulba", start + play_on)):
        with pytest.raises(SystemExit) as ended:
            main(impala_program, ["--launch", name, "--workdir", str(tmp_path / name), *flags])
        assert ended.value.code == 0
    anakin, last = (metrics.read(tmp_path / name)[-1] for name in ("anakin", "sebulba"))
    assert last["eval_return"] >= 0.95 and 1_500 <= last["eval_version"] <= last["updates"] < 100_000
    assert last["env_steps"] > anakin["env_steps"]


@pytest.mark.unoptimised
def test_its_checkpoint_is_played(learned, capsys):
    folder, _ = learned
    play.play(folder)
    assert "in 9 env steps" in capsys.readouterr().out


@pytest.mark.unoptimised
def test_an_arena_measures_self_play_in_matches(tmp_path):
    flags = ["--env", "tic_tac_toe", "--agent", "dqn", "--stop.eval-return", "-1"]  # The first evaluation ends it.
    with pytest.raises(SystemExit) as ended:
        main(swap_program, ["--launch", "sebulba", "--workdir", str(tmp_path), *flags])
    assert ended.value.code == 0
    last = metrics.read(tmp_path)[-1]
    assert last["eval_episodes"] >= 2 and "arena/elo" in last and last["env_steps"] > 0
    assert sum(last[f"arena/random/{share}"] for share in ("win", "draw", "loss")) == pytest.approx(1.0)


def test_of_several_hosts_the_first_has_the_arena():
    agent = make_agent(ENVS["tic_tac_toe"], "dqn", 0)
    groups = [group(Learner), group(Actor, num_envs=8), group(Arena, opponents={"random": RandomPlayer()})]
    names = []
    for index in (0, 1):
        run = Run(launch="sebulba", hosts=Hosts("here:1", 2, index))
        _, nodes = build(Program("play", run, agent, ENVS["tic_tac_toe"], groups))
        names.append([node.name for node in nodes])
    assert names == [["learner", "actor/0", "evaluator"], ["learner", "actor/0"]]


def test_the_placement_has_the_threads_whatever_the_number_of_environments():
    """An odd number comes with one thread, where a process steps it."""
    agent = make_agent(ENVS["catch"], "dqn", 0)
    run = Run(launch="sebulba", placement=Placement(threads=3))
    _, nodes = build(Program("mine", run, agent, ENVS["catch"], [group(Learner), group(Actor, num_envs=9)]))
    assert len(nodes[1]._numbers) == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--placement.acting", "99"], "placement.acting is 99 and placement.learning 1; this process has"),
        (["--num-envs", "48"], "24 environments step together, and batch_size is 16"),
        (["--num-envs", "1"], "actor: num_envs is 1; it must divide over the threads of an acting device, 2"),
        (["--placement.lag", "-1"], "placement.lag is -1"),  # Tyro formats this message itself.
    ],
)
def test_bad_input_is_refused_before_anything_starts(tmp_path, capsys, flags, message):
    with pytest.raises(SystemExit) as ended:
        main(impala_program, ["--launch", "sebulba", "--workdir", str(tmp_path / "run"), *flags])
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_atari_programs_build_every_node():
    run = Run(launch="sebulba", placement=Placement(lag=3))
    config = impala.Config(batch_size=4, queue_size=4)
    _, nodes = build(impala_atari(run, "Pong", num_envs=4, config=config))
    assert [node.name for node in nodes] == ["learner", "actor/0", "evaluator"]
    run, settings = parse(muzero_program, ["atari/Pong", "--launch", "sebulba"])
    _, nodes = build(muzero_program(run, **settings))
    assert [node.name for node in nodes] == ["learner", "actor/0", "evaluator"]


@pytest.mark.parametrize(
    ("cores", "flags", "threads"),
    [(16, [], 4), (2, [], 1), (16, ["--env.num-threads", "3"], 3)],
    ids=["divided", "one at least", "chosen"],
)
def test_cores_are_divided_among_the_groups_whose_environments_have_threads(monkeypatch, cores, flags, threads):
    monkeypatch.setattr("boonta.programs.wiring.machine.cores.usable", lambda: cores)
    run, settings = parse(impala_program, ["atari/Pong", "--launch", "sebulba", "--placement.threads", "4", *flags])
    _, nodes = build(impala_program(run, **settings))
    (actor,) = (node for node in nodes if isinstance(node, Actor))
    assert actor._env.env.num_threads == threads


@pytest.mark.unoptimised
def test_a_large_acting_batch_is_split_into_updates_at_the_replays_rate(tmp_path):
    """The smallest DQN: 8 environments complete 8 sequences together, each drawn twice, 4 per update."""
    env = Catch(rows=3, columns=3)
    config = dqn.Config(
        torso=Torso("mlp", widths=(8,)),
        head_width=8,
        replay=Replay(batch_size=4, samples_per_insert=2.0, min_size=8, size=800),
        frame_stack=1,
    )
    groups = [group(Learner), group(Actor, num_envs=16)]
    program = Program("tiny", Run(workdir=str(tmp_path)), dqn.make(config, env.spec), env, groups)
    _, (learner, actor) = build(program)
    for node in (learner, actor):
        node.start()
    (table,) = program.agent.tables
    for _ in range(2 * (table.sequence_length + 2 * table.period)):
        while learner.ready():
            learner.step()
            learner.settle()
        actor.step()
    while learner.ready():
        learner.step()
        learner.settle()
    inserted, updates = learner._replay.open_stream(table, 1, 1).inserted, learner.report()["counts"]["updates"]
    assert inserted == 2 * 3 * 8
    assert updates == 2 * (inserted - 8) / 4 + 1  # The first 8 fill the table; the reader may be a batch ahead.
