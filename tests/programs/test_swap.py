"""The swap matrix: every sensible program of environments, agents, ways of acting, reanalyzers and schedules learns."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.launched import finish, start

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
pytest.importorskip("launchpad")
from boonta.nodes.checkpoint import Checkpointer  # noqa: E402
from boonta.tests.helpers.runs import undeclared  # noqa: E402
from boonta.tests.helpers.swap_parts import (  # noqa: E402
    DQN,
    ENVS,
    IMPALA,
    MUZERO,
    R2D2,
    TRANSITIONS,
    make_agent,
)

UPDATES = 12
# Only MuZero has targets to renew; it and DQN have a notion of an opponent. SAC and TD3 take real-valued actions.
AGENTS = {
    "catch": ("impala", "muzero", "ppo"),
    "minatar": ("impala", "muzero"),
    "tic_tac_toe": ("muzero", "ppo"),
    "pendulum": ("impala", "sac", "td3", "ppo"),
}
MATRIX = [
    (env, agent, acting, reanalyzers)
    for env, agents in AGENTS.items()
    for agent in agents
    for acting in ("local", "central")
    for reanalyzers in ((0, 1) if agent == "muzero" else (0,))
]
MATRIX += [("catch", "r2d2", acting, 0) for acting in ("local", "central")]
MATRIX += [(env, "dqn", acting, 0) for env in ("catch", "minatar", "tic_tac_toe") for acting in ("local", "central")]
REPLAYS = {"muzero": (MUZERO.roots, MUZERO.replay), "dqn": (DQN.roots, DQN.replay), "r2d2": (R2D2.period, R2D2.replay)}


def flags(folder, env: str, agent: str, acting: str, reanalyzers: int, schedule: str) -> list[str]:
    choice = ["--env", env, "--agent", agent, "--acting", acting, "--reanalyzers", str(reanalyzers)]
    return ["--workdir", str(folder), "--launch", schedule, "--stop.updates", str(UPDATES), *choice]


def require_learned(folder, env: str, agent: str, acting: str, reanalyzers: int) -> None:
    """Counters agree with each other and with the checkpoint, whose params are not those it began with."""
    assert not undeclared(folder)
    row = metrics.read(folder)[-1]
    assert row["updates"] >= UPDATES
    if agent in ("impala", "ppo"):  # Both have batches of one size.
        assert row["env_steps"] >= row["updates"] * IMPALA.batch_size * IMPALA.unroll_length
    elif agent in ("sac", "td3"):
        ahead = TRANSITIONS.batch_size / TRANSITIONS.updates_per_env_step  # Samples that a reader may be ahead.
        assert row["env_steps"] + ahead >= row["updates"] / TRANSITIONS.updates_per_env_step
    else:
        period, replay = REPLAYS[agent]
        fresh = row["updates"] * replay.batch_size * (0.5 if reanalyzers else 1.0)
        assert row["env_steps"] / period * replay.samples_per_insert + replay.batch_size >= fresh
    assert row["frames"] == row["env_steps"] * ENVS[env].spec.frames_per_step
    assert (row.get("inferences", 0) > 0) == (acting == "central")
    assert (row.get("reanalyzed_sequences", 0) > 0) == bool(reanalyzers)
    assert row["policy_lag"] >= 0 and np.isfinite(
        row["loss" if agent in REPLAYS and agent != "muzero" else "policy_loss"]
    )
    checkpoints = Checkpointer(folder / "checkpoints")
    assert checkpoints.latest() == row["updates"]
    update = make_agent(ENVS[env], agent, reanalyzers).update
    began = jax.jit(update.init)(jax.random.PRNGKey(0))
    ended, counts = checkpoints.restore(began)
    assert counts["updates"] == row["updates"]
    before, after = (jax.tree.leaves(update.params(state)) for state in (began, ended))
    assert any((x != y).any() for x, y in zip(before, after) if x.ndim)  # The number of updates is no param.
    assert all(np.isfinite(x).all() for x in after)


# Each agent, environment, way of acting and schedule is in one of these; the others are slow.
ALWAYS = [
    ("minatar", "impala", "central", 0, "serial"),
    ("catch", "r2d2", "central", 0, "serial"),
    ("catch", "r2d2", "local", 0, "sebulba"),
    ("catch", "dqn", "local", 0, "anakin"),
    ("pendulum", "ppo", "local", 0, "local_mt"),
    ("pendulum", "sac", "local", 0, "serial"),
    ("pendulum", "td3", "central", 0, "serial"),
    ("tic_tac_toe", "dqn", "local", 0, "local_mt"),
    ("catch", "muzero", "central", 1, "local_mp"),
]
RUNS = [(*choice, schedule) for choice in MATRIX for schedule in ("serial", "local_mt")]
# In one process there is no inference node, and a fused program is for environments in JAX.
ALONE = [("catch", agent) for agent in ("impala", "muzero", "ppo", "dqn", "r2d2")]
RUNS += [(*choice, "local", 0, schedule) for choice in ALONE for schedule in ("sebulba", "anakin")]
RUNS += [("catch", "muzero", "local", 1, schedule) for schedule in ("sebulba", "anakin")]
RUNS += [("tic_tac_toe", agent, "local", 0, "sebulba") for agent in ("muzero", "ppo", "dqn")]
RUNS += [("pendulum", agent, "local", 0, "sebulba") for agent in ("sac", "td3", "impala", "ppo")]


@pytest.mark.parametrize(
    ("env", "agent", "acting", "reanalyzers", "schedule"),
    [*ALWAYS, *(pytest.param(*run, marks=pytest.mark.slow) for run in RUNS if run not in ALWAYS)],
)
def test_learns(tmp_path, env, agent, acting, reanalyzers, schedule):
    process = start(
        *flags(tmp_path, env, agent, acting, reanalyzers, schedule), program="tests/helpers/swap_program.py"
    )
    output = finish(process)
    assert process.returncode == 0, output
    require_learned(tmp_path, env, agent, acting, reanalyzers)
