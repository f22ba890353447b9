"""How fast IMPALA learns Atari on this machine, part by part and as a whole, and how near the whole is to the limit.

    ./run python benchmarks/impala_atari.py

One env step costs stepping, one forward pass and its share of an update. With the three measured alone, each on all
cores, no design can do more than 1 / (1/env + 1/act + 1/learn) of them a second. Every part runs in a process of its
own, with the environment variables of its group in a program. All rates are agent (env) steps a second; an agent step
is four frames.
"""

from __future__ import annotations

from nodes import rlax_first  # noqa: F401

# isort: split

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import tyro

from benchmarks.timing import on_all_cores, per_second

ROOT = pathlib.Path(__file__).parents[1]
Part = Literal["env", "act", "learn", "reverb", "pipe"]


@dataclasses.dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
      game: of Atari.
      network: torso of the agent.
      num_envs: environments, over two groups.
      batch_size: sequences in an update.
      seconds: measured per part, after warming up; the whole program gets four times as long.
      part: only this one, and only its number is printed.
    """

    game: str = "Pong"
    network: Literal["shallow", "nature", "deep"] = "shallow"
    num_envs: int = 32
    batch_size: int = 32
    seconds: float = 15.0
    part: Part | None = None


def main(options: Options) -> None:
    """Measures a part, or all of them and the whole, and prints the table."""
    if options.part is not None:
        print(json.dumps(PARTS[options.part](options)), flush=True)
        os._exit(0)  # Reverb's and TensorFlow's threads would abort the interpreter on its way out
    rates = {part: in_process(part, options) for part in ("env", "act", "learn", "reverb")}
    limit = 1 / sum(1 / rates[part] for part in ("env", "act", "learn"))
    rates["limit"] = limit
    rates["pipe"] = in_process("pipe", options)
    row = whole(options)
    rates["processes"] = row["env_steps_per_s"]
    print_table(rates, limit)
    print("\nwhere a thread's time goes, as processes through Reverb:")
    for name, value in sorted(row.items(), key=lambda item: -item[1]):
        if name.startswith("share/") and value >= 0.01 and "resting" not in name:
            print(f"  {name.removeprefix('share/').replace('_', ' '):45s} {value:5.0%}")
    print(f"  resident memory of all nodes: {sum(v for k, v in row.items() if k.startswith('rss_mb/')) / 1000:.2f} GB")


def print_table(rates: dict[str, float], limit: float) -> None:
    """Prints rate, cost and share of the limit."""
    labels = {
        "env": "stepping the environments, alone",
        "act": "acting, alone",
        "learn": "updating, alone",
        "reverb": "writing and sampling through Reverb, alone",
        "limit": "limit of the parts: 1/(1/env + 1/act + 1/learn)",
        "pipe": "whole, threads of one process, in-process queue",
        "processes": "whole, as processes, through Reverb",
    }
    print(f"{'':50s} {'steps/s':>9s} {'us/step':>9s} {'of limit':>9s}")
    for part, label in labels.items():
        share = f"{rates[part] / limit:9.0%}" if part in ("pipe", "processes") else ""
        print(f"{label:50s} {rates[part]:9,.0f} {1e6 / rates[part]:9,.0f} {share}")


def in_process(part: Part, options: Options) -> float:
    """Runs one part in a fresh process."""
    from programs.launch import ON_CPU

    group = ON_CPU if part in ("env", "act") else {"JAX_PLATFORMS": "cpu"}
    flags = [
        f"--{field.name.replace('_', '-')}={getattr(options, field.name)}" for field in dataclasses.fields(options)
    ]
    command = [sys.executable, __file__, *[flag for flag in flags if not flag.startswith("--part")], "--part", part]
    done = subprocess.run(command, env={**os.environ, **group}, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def make(options: Options):
    """The agent and environment of the program."""
    from agents import impala
    from envs.atari import Atari

    env = Atari(options.game)
    config = impala.Config(network=options.network, batch_size=options.batch_size, queue_size=options.batch_size)
    return impala.make(config, env.spec), env


def env_rate(options: Options) -> float:
    """Stepping with random actions."""
    _, env = make(options)
    size = options.num_envs // 2

    def make_work(i: int) -> Callable[[], int]:
        batch, rng = env(size, i), np.random.default_rng(i)
        batch.reset()

        def work() -> int:
            batch.step(rng.integers(0, env.spec.actions.num_values, size).astype(np.int32))
            return size

        return work

    return on_all_cores(make_work, options.seconds)


def act_rate(options: Options) -> float:
    """The policy on one batch of observations, actions and extras brought back."""
    import jax

    from nodes.play import jit_policy

    agent, env = make(options)
    size = options.num_envs // 2
    params = agent.update.params(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    act = jit_policy(agent.policy)

    def make_work(i: int) -> Callable[[], int]:
        timestep, key = env(size, i).reset(), jax.random.PRNGKey(i)
        state = [agent.policy.initial_state(size)]

        def work() -> int:
            action, extras, state[0] = act(params, key, 0, timestep, state[0])
            jax.device_get((action, extras))
            return size

        return work

    return on_all_cores(make_work, options.seconds)


def zeros(options: Options, leading: tuple[int, ...]):
    """Raw steps of zeros; frames of noise, which costs what it costs."""
    import jax

    from nodes.play import step_shapes

    agent, env = make(options)
    rng = np.random.default_rng(0)
    steps = jax.tree.map(lambda leaf: np.zeros((*leading, *leaf.shape), leaf.dtype), step_shapes(agent, env.spec))
    frames = rng.integers(0, 255, steps.observation.shape).astype(np.uint8)
    ones = np.ones(leading, np.float32)
    return agent, steps._replace(observation=frames, step_type=np.ones(leading, np.int32), discount=ones)


def learn_rate(options: Options) -> float:
    """Updates on one batch that stays on the device."""
    import jax

    from agents.base import Batch

    agent, env = make(options)
    (table,) = agent.tables
    _, steps = zeros(options, (table.sequence_length, table.batch_size))
    batch = jax.device_put(Batch(steps, np.ones(table.batch_size, np.float32)))
    step = jax.jit(agent.update.step, donate_argnums=0)
    state = [jax.jit(agent.update.init)(jax.random.PRNGKey(0))]

    def work() -> int:
        state[0], _, metrics = step(state[0], batch)
        jax.block_until_ready(metrics)
        return table.period * table.batch_size

    return per_second(work, options.seconds)


def reverb_rate(options: Options) -> float:
    """A writer and a dataset on one table in one process, frames of a real game."""
    import jax
    import reverb
    from jax.sharding import SingleDeviceSharding

    from agents.base import Steps
    from nodes.base import Node
    from nodes.dataset import Dataset
    from nodes.play import step_shapes
    from nodes.replay import make_table
    from nodes.writer import Writer

    agent, env = make(options)
    (table,) = agent.tables
    server = reverb.Server([make_table(table, step_shapes(agent, env.spec))])
    client = reverb.Client(f"localhost:{server.port}")
    node = Node("benchmark")
    dataset = Dataset(client, table, SingleDeviceSharding(jax.devices()[0]))
    _, row = zeros(options, (options.num_envs,))
    batch, rng = env(options.num_envs, 0), np.random.default_rng(0)
    actions = rng.integers(0, env.spec.actions.num_values, (64, options.num_envs)).astype(np.int32)
    frames = [batch.reset().observation, *[batch.step(action).observation for action in actions]]
    writer = Writer(client, table, options.num_envs, node.wait_for)

    def write() -> None:
        for t in range(10**9):
            if node.stopping:
                return
            writer.append(Steps(frames[t % len(frames)], *row[1:]))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()

    def work() -> int:
        node.wait_for("a batch", dataset.next)
        return table.period * table.batch_size

    return per_second(work, options.seconds)


def pipe_rate(options: Options) -> float:
    """Actor and learner as threads of one process, with the in-process queue between them."""
    from nodes.actor import Actor
    from nodes.learner import Learner
    from nodes.pipe import Pipe
    from nodes.variables import VariableServer

    agent, env = make(options)
    pipe, variables = Pipe(agent.tables[0]), VariableServer("variables")
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner("learner", agent, pipe, variables, folder=folder, devices=1)
        actor = Actor("actor/0", agent, env, variables, pipe, num_envs=options.num_envs)
        threads = [threading.Thread(target=node.run, daemon=True) for node in (learner, actor)]
        for thread in threads:
            thread.start()
        steps = lambda: actor.report()["counts"].get("env_steps", 0)  # noqa: E731
        while learner.report()["counts"].get("updates", 0) < 5:
            time.sleep(0.5)
        done, start = steps(), time.perf_counter()
        time.sleep(2 * options.seconds)
        rate = (steps() - done) / (time.perf_counter() - start)
        for node in (actor, learner):
            node.stop()
        for thread in threads:
            thread.join(timeout=20)
    return rate


def whole(options: Options) -> dict[str, float]:
    """The program as a user starts it: medians over its rows in steady state."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "programs/impala_atari.py"), "--workdir", folder, "--game", options.game]
        command += [f"--num-envs={options.num_envs}", f"--stop.seconds={30 + 4 * options.seconds}"]
        command += [f"--config.{name}={value}" for name, value in _config(options).items()]
        subprocess.run(command, check=True, stdout=sys.stderr)
        rows = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    steady = [row for row in rows[:-1] if row.get("updates_per_s", 0) > 0][2:]
    names = {name for row in steady for name in row}
    return {name: statistics.median(row[name] for row in steady if name in row) for name in names}


def _config(options: Options) -> dict[str, object]:
    return {"network": options.network, "batch-size": options.batch_size, "queue-size": options.batch_size}


PARTS: dict[str, Callable[[Options], float]] = {
    "env": env_rate,
    "act": act_rate,
    "learn": learn_rate,
    "reverb": reverb_rate,
    "pipe": pipe_rate,
}

if __name__ == "__main__":
    main(tyro.cli(Options))
