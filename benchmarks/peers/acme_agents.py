"""Acme's own JAX agents as a Boonta program: one process that acts and learns in turn, as Acme's local layout does.

    ./run python benchmarks/peers/acme_agents.py catch --agent dqn --stop.seconds 120

This is experimental, see `nodes/acme/aliases.py`. An agent learns as much from each env step as ours with its preset
for Catch or Pendulum and the flags in `benchmarks/acme.py`: the same network, batches, sequences and samples for each
env step. What is named nowhere is as in Acme's configs.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, TypeAlias

from boonta.agents import dqn as our_dqn
from boonta.agents import impala as our_impala
from boonta.agents import r2d2 as our_r2d2
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.nodes.acme import aliases
from boonta.nodes.acme.actor import AcmeLoop, Parts
from boonta.programs.wiring.launch import Program, RunFlags, group, main

aliases.install()

import acme  # noqa: E402  # isort: skip
import haiku as hk  # noqa: E402  # isort: skip
import jax  # noqa: E402  # isort: skip
import jax.numpy as jnp  # noqa: E402  # isort: skip
from acme import wrappers  # noqa: E402  # isort: skip
from acme.agents.jax import dqn, impala, r2d2, sac  # noqa: E402  # isort: skip
from acme.agents.jax.impala.builder import IMPALABuilder  # noqa: E402  # isort: skip
from acme.jax import networks as networks_lib  # noqa: E402  # isort: skip
from acme.jax import utils  # noqa: E402  # isort: skip
from acme.jax.layouts.local_layout import LocalLayout  # noqa: E402  # isort: skip
from acme.utils import counting  # noqa: E402  # isort: skip

WIDTH = 64
Spec: TypeAlias = acme.specs.EnvironmentSpec
Name = Literal["dqn", "impala", "r2d2", "sac"]


def _flat(observation: Any, spec: Spec) -> jax.Array:
    """Observations [..., *shape] as [..., D]."""
    leading = observation.shape[: observation.ndim - len(spec.observations.shape)]
    return jnp.reshape(observation, (*leading, -1)).astype(jnp.float32)


def _recurrent(spec: Spec, head: Any) -> tuple[Any, Any, Any]:
    """Haiku functions of a small recurrent network: a step, its initial state, and an unroll [T, ...]."""

    def core() -> hk.LSTM:
        return hk.LSTM(WIDTH, name="core")

    def embedded(observation: Any) -> jax.Array:
        return jax.nn.relu(hk.Linear(WIDTH, name="torso")(_flat(observation, spec)))

    def step(observation: Any, state: Any) -> Any:
        out, state = core()(embedded(observation), state)
        return head(out), state

    def initial_state(batch_size: int | None = None) -> Any:
        return core().initial_state(batch_size)

    def unroll(observation: Any, state: Any) -> Any:
        # A state from the table is of a class of TensorFlow's.
        out, state = hk.dynamic_unroll(core(), embedded(observation), hk.LSTMState(*state))
        return head(out), state

    return step, initial_state, unroll


def make_dqn(spec: Spec) -> dict[str, Any]:
    """DQN: double, prioritised, with n-step returns."""
    ours = our_dqn.CATCH
    config = dqn.DQNConfig(
        learning_rate=ours.optimiser.learning_rate,
        discount=ours.discount,
        n_step=ours.bootstrap_length,
        target_update_period=ours.target_period,
        batch_size=ours.replay.batch_size,
        max_replay_size=ours.replay.size,
        samples_per_insert=ours.replay.samples_per_insert,
        samples_per_insert_tolerance_rate=float("inf"),
    )

    def q_values(observation: Any) -> jax.Array:
        return hk.nets.MLP([WIDTH, WIDTH, spec.actions.num_values])(_flat(observation, spec))

    pure: Any = hk.without_apply_rng(hk.transform(q_values))
    example = utils.add_batch_dim(utils.zeros_like(spec.observations))
    network = networks_lib.FeedForwardNetwork(lambda key: pure.init(key, example), pure.apply)
    loss = dqn.PrioritizedDoubleQLearning(discount=config.discount)
    builder, policy = dqn.DQNBuilder(config, loss), dqn.behavior_policy(network)
    return {"builder": builder, "networks": network, "policy_network": policy} | _schedule(config)


def make_impala(spec: Spec) -> dict[str, Any]:
    """IMPALA with an LSTM."""
    ours = our_impala.CATCH
    config = impala.IMPALAConfig(
        learning_rate=ours.optimiser.learning_rate,
        discount=ours.discount,
        batch_size=ours.batch_size,
        sequence_length=ours.unroll_length + 1,
        samples_per_insert=None,  # See `_schedule` for the limiter.
    )

    def head(x: jax.Array) -> Any:
        return hk.Linear(spec.actions.num_values, name="policy")(x), hk.Linear(1, name="value")(x)[..., 0]

    step, initial_state, unroll = _recurrent(spec, head)
    networks = impala.make_haiku_networks(spec, step, initial_state, unroll)
    key = jax.random.PRNGKey(0)
    state = networks.initial_state_fn(networks.initial_state_init_fn(key))
    builder, acting = (
        IMPALABuilder(config, state),
        dataclasses.replace(networks, forward_fn=jax.jit(networks.forward_fn)),
    )
    # The layout takes the table, whose sampler is uniform, for a replay. With the layout's own numbers an update would
    # wait for ever for a batch, in the thread that is to make it.
    period = config.sequence_length - 1
    schedule = {
        "batch_size": config.batch_size,
        "samples_per_insert": 1 / (period + 0.01),  # The layout rounds its inverse down.
        "min_replay_size": (config.batch_size + 1) * config.sequence_length,
    }
    return {"builder": builder, "networks": networks, "policy_network": acting, **schedule}


def make_r2d2(spec: Spec) -> dict[str, Any]:
    """R2D2; a sequence has as many steps as ours, one step and those of the bootstrap behind its roots included."""
    ours = our_r2d2.CATCH
    config = r2d2.R2D2Config(
        learning_rate=ours.optimiser.learning_rate,
        discount=ours.discount,
        bootstrap_n=ours.bootstrap_length,
        burn_in_length=ours.burn_in,
        trace_length=ours.roots + ours.bootstrap_length - 1,  # The config adds a step to it.
        sequence_period=ours.period,
        batch_size=ours.replay.batch_size,
        min_replay_size=1,
        max_replay_size=ours.replay.size,
        num_epsilons=1,
        target_update_period=ours.target_period,
        samples_per_insert=0.0,
        num_parallel_calls=1,
    )
    head = lambda x: hk.Linear(spec.actions.num_values, name="q")(x)  # noqa: E731
    networks = r2d2.make_networks(spec, *_recurrent(spec, head), config.batch_size)
    builder, policy = r2d2.R2D2Builder(networks, config), r2d2.make_behavior_policy(networks, config)
    # The layout counts an item for each env step, and a sequence is inserted once in a period.
    assert ours.replay.samples_per_insert is not None
    rate = {"samples_per_insert": ours.replay.samples_per_insert / ours.period}
    return {"builder": builder, "networks": networks, "policy_network": policy} | _schedule(config) | rate


def make_sac(spec: Spec) -> dict[str, Any]:
    """SAC with a learned temperature."""
    config = sac.SACConfig(
        target_entropy=sac.target_entropy_from_env_spec(spec),
        samples_per_insert_tolerance_rate=float("inf"),
        min_replay_size=1,
    )
    networks = sac.make_networks(spec)
    builder, policy = sac.SACBuilder(config), sac.apply_policy_and_sample(networks)
    return {"builder": builder, "networks": networks, "policy_network": policy} | _schedule(config)


def _schedule(config: Any) -> dict[str, Any]:
    """How often the local layout updates; the table's own limiter would block the one thread that it has."""
    return {"batch_size": config.batch_size, "samples_per_insert": config.samples_per_insert, "min_replay_size": 1000}


MAKERS = {"dqn": make_dqn, "impala": make_impala, "r2d2": make_r2d2, "sac": make_sac}


def make_loop(name: Name, parts: Parts) -> acme.EnvironmentLoop:
    """A loop whose actor learns in its `update`."""
    environment = parts.environment
    if name == "sac":
        environment = wrappers.CanonicalSpecWrapper(environment, clip=True)
    spec = acme.make_environment_spec(environment)
    counter = counting.Counter(parts.counter, prefix="learner")
    agent = LocalLayout(parts.seed % 2**31, spec, workdir=None, checkpoint=False, counter=counter, **MAKERS[name](spec))
    return acme.EnvironmentLoop(environment, agent, parts.counter, parts.logger)


def acme_agent(run: RunFlags, agent: Name = "dqn", env: Env = Catch()) -> Program:  # noqa: B008
    """One of Acme's agents in one of our environments.

    Args:
      run: the run's settings.
      agent: which one.
      env: the environment.
    """
    nothing: Any = None  # There is no agent of ours.
    groups = [group(AcmeLoop, make_loop=functools.partial(make_loop, agent))]
    return Program(f"acme_{agent}", run, nothing, env, groups)


if __name__ == "__main__":
    # Nodes import the module by this name, which installs the aliases first; functions of `__main__` would be pickled
    # with what they use of Acme.
    from boonta.benchmarks.peers import acme_agents

    main(acme_agents.acme_agent)
