import jax
import numpy as np
import pytest

from boonta.agents import impala
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.groups import Optimiser, Torso
from boonta.agents.metrics import expanded
from boonta.envs.catch import Catch
from boonta.nodes.tables.contract import with_one_core

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


@pytest.mark.parametrize("lstm_size", [0, 32])
def test_learns_catch(lstm_size):
    config = impala.Config(
        torso=Torso("mlp", widths=(64, 64)),
        lstm_size=lstm_size,
        frame_stack=1,
        unroll_length=10,
        batch_size=16,
        reduction="mean",
        optimiser=Optimiser("adam", learning_rate=3e-3),
    )
    env = Catch()(config.batch_size, seed=1)
    agent = impala.make(config, env.spec)
    act, update = jax.jit(agent.policy.step), jax.jit(agent.update.step, donate_argnums=0)
    key = jax.random.PRNGKey(0)
    learner, state = jax.jit(agent.update.init)(key), agent.policy.initial_state(Slots(config.batch_size))
    timestep, rows, returns = env.reset(), [], []
    while len(returns) < 300 or np.mean(returns[-300:]) <= 0.9:
        while len(rows) < config.sequence_length:
            key, act_key = jax.random.split(key)
            core = agent.policy.core(state)
            action, extras, state = act(agent.update.params(learner), act_key, timestep, state)
            shown = (timestep.observation, timestep.step_type, timestep.reward, timestep.discount)
            version = np.full(16, int(learner.updates))
            rows.append(jax.tree.map(np.asarray, Steps(*shown, action, extras, version, core)))
            timestep = env.step(np.asarray(action))
        steps = with_one_core(agent.tables[0], jax.tree.map(lambda *x: np.stack(x), *rows))
        batch = Batch(steps, np.ones(config.batch_size, np.float32))
        learner, _, metrics = update(learner, batch)
        rows = rows[config.unroll_length :]
        returns += [episode.episode_return for episode in env.episodes()]
        assert len(returns) < 12_000, f"mean return {np.mean(returns[-300:])} after {learner.updates} updates"
    assert all(np.isfinite(x) and x.shape == () for x in expanded(metrics).values())
    assert float(metrics["histogram/rho"].sum()) == pytest.approx(1, abs=1e-3)
    assert act._cache_size() == 1 and update._cache_size() == 1  # Nothing was compiled twice.
