"""Acting on the device: a policy and a JAX environment stepped together inside a compiled program.

See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272), Figure 2.

Everything here is pure and batched; callers jit it. One key serves all slots: JAX's random bits depend on the shape
that is drawn, not on how many devices hold it, so that a run is the same on one device and on many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Policy, Slots, Steps
from boonta.envs.base import FIRST, LAST, TimeStep
from boonta.envs.jax.base import JaxEnv, metrics_of
from boonta.nodes.acting.outputs import checked_step
from boonta.nodes.fused.nans import Nans, after_steps, joined
from boonta.nodes.matches.match import shares
from boonta.nodes.watch.evaluation import as_metrics


class Stage(NamedTuple):
    """B environment slots and the policy that plays in them, between two steps.

    Attributes:
      env: the environments' states [B, ...].
      timestep: the time step to act on next, leaves [B, ...].
      policy: the policy's state [B, ...].
      key: PRNG key of the policy; the environments keep their own.
      episode_return: float32 [B], the raw returns of the running episodes so far.
      episode_steps: int32 [B], the env steps of the running episodes so far.
    """

    env: Nest
    timestep: TimeStep
    policy: Nest
    key: jax.Array
    episode_return: jax.Array
    episode_steps: jax.Array


class Episodes(NamedTuple):
    """The number of episodes that ended, over slots and steps, sums over them, and what was wrong in any."""

    number: jax.Array  # float32 []
    returns: jax.Array  # float32 [], raw.
    squares: jax.Array  # float32 []; the squares of the raw returns.
    steps: jax.Array  # float32 [], env steps.
    nans: Nans | None = None  # None where they aren't looked for.
    metrics: Mapping[str, jax.Array] = {}  # float32 [], the environment's other numbers of episodes, by name.


class Played(NamedTuple):
    """One episode in each of E slots."""

    returns: jax.Array  # float32 [E], raw; of an episode that was cut, what it had earned, and 0 in a game of two.
    over: jax.Array  # bool [E], whether the episode came to its end, and wasn't cut.
    metrics: Mapping[str, jax.Array]  # float32 [E], its other numbers by name; 0 where it was cut.


def begin(env: JaxEnv, policy: Policy, num_envs: int, key: jax.Array) -> Stage:
    """Starts `num_envs` slots, each with a stream of its own, whatever the number of devices."""
    key, env_key = jax.random.split(key)
    state, timestep = jax.vmap(env.init)(jax.random.split(env_key, num_envs))
    zero = jnp.zeros(num_envs)
    return Stage(state, timestep, policy.initial_state(Slots(num_envs)), key, zero, zero.astype(jnp.int32))


def act(
    env: JaxEnv, policy: Policy, params: Nest, version: jax.Array, stage: Stage, rows: int
) -> tuple[Stage, Steps, Episodes]:
    """Plays `rows` steps in every slot.

    The steps are scanned, also those of a convolutional policy on CPU: in loops there, XLA is slow only at the gradient
    of convolutions. The forward pass of a MinAtar network, 64 slots, 20 steps, took 21 ms in a scan and 65 ms without;
    five of its gradients took 1,430 ms in a loop and 153 ms without (jax 0.6.2, two busy cores).

    Args:
      env: the environment of a slot.
      policy: acts with `params`.
      params: the policy's params.
      version: int32 [], the version of the params.
      stage: the stage before the first step.
      rows: T.

    Returns:
      The stage after the last step, raw steps [T, B, ...], and the episodes that ended.
    """

    def one(stage: Stage, _: None) -> tuple[Stage, tuple[Steps, Episodes]]:
        shown, core = stage.timestep, policy.core(stage.policy)
        stage, action, extras = _move(env, policy, params, stage)
        versions = jnp.full(shown.step_type.shape, version, jnp.int32)
        stage, episodes = _account(env, stage, shown)
        return stage, (Steps.of(shown, action, extras, versions, core), episodes)

    stage, (steps, episodes) = jax.lax.scan(one, stage, None, length=rows)
    return stage, steps, jax.tree.map(jnp.sum, episodes)._replace(nans=after_steps(steps, stage.timestep))


def total(before: Episodes, after: Episodes) -> Episodes:
    """The sums over the episodes of some steps and of those that follow on them; arrays of JAX or of numpy."""
    sums = jax.tree.map(lambda a, b: a + b, before._replace(nans=None), after._replace(nans=None))
    return sums._replace(nans=joined(before.nans, after.nans))


def play_back(policy: Policy, params: Nest, version: jax.Array, steps: Steps, key: jax.Array) -> Steps:
    """Plays recorded sequences to a policy, as `nodes.acting.replayed` does; its outputs replace those recorded.

    Args:
      policy: acts with `params`; its actions have no effect. It begins each sequence anew, so that what it does in the
        context of a sequence isn't what it would have done; nothing is learned from that.
      params: the policy's params.
      version: int32 [], the version of the params.
      steps: leaves [T, B, ...].
      key: PRNG key, consumed.

    Returns:
      The same steps with other extras, versions and cores, all of them [T, B, ...].
    """

    def one(carry: tuple[Nest, jax.Array], row: Steps) -> tuple[tuple[Nest, jax.Array], Steps]:
        memory, key = carry
        key, act_key = jax.random.split(key)
        core = policy.core(memory)
        _, extras, memory = checked_step(policy, params, act_key, row.timestep, memory)
        versions = jnp.full(row.step_type.shape, version, jnp.int32)
        return (policy.executed(memory, row.action), key), row._replace(extras=extras, version=versions, core=core)

    memory = policy.initial_state(Slots(steps.reward.shape[1], alike=True))
    return jax.lax.scan(one, (memory, key), steps._replace(extras=(), version=(), core=()))[1]


def play(
    env: JaxEnv, policy: Policy, params: Nest, episodes: int, most_steps: int, key: jax.Array
) -> dict[str, jax.Array]:
    """Plays one episode in each of `episodes` slots, as `play_out` does.

    Returns:
      Metrics: the mean of the returns, its standard error, the least return, the number of episodes that were cut, and
      means of the environment's numbers over the other episodes, NaN where there are none; of a game of two also the
      shares that an arena reports of a random opponent.
    """
    returns, over, metrics = play_out(env, policy, params, episodes, most_steps, key)
    error = jnp.std(returns, ddof=1) / math.sqrt(episodes) if episodes > 1 else None
    cut = jnp.sum(~over).astype(jnp.float32)
    means = {name: jnp.sum(values) / jnp.sum(over) for name, values in metrics.items()}
    found = as_metrics(mean=jnp.mean(returns), error=error, least=jnp.min(returns), cut=cut, episodes=means)
    return found if env.spec.num_players == 1 else found | shares(returns, "random")


def play_out(env: JaxEnv, policy: Policy, params: Nest, episodes: int, most_steps: int, key: jax.Array) -> Played:
    """Plays one episode in each of `episodes` slots.

    In a game of two the policy is player 0 in the even slots and player 1 in the odd ones, against a random player;
    returns are its outcomes, as `nodes.matches.match` has them. The random player makes any legal move, and learns
    nothing, so that these outcomes compare between runs and within one.

    Args:
      env: the environment of a slot.
      policy: plays with `params`.
      params: the policy's params.
      episodes: number of slots; each plays its first episode, so that long ones count as much as short ones. Even in a
        game of two.
      most_steps: env steps after which an episode that is not over counts with its return so far.
      key: PRNG key of environments and policy.
    """

    class Playing(NamedTuple):
        stage: Stage
        played: Played
        steps: jax.Array  # int32 []

    def unfinished(playing: Playing) -> jax.Array:
        return ~jnp.all(playing.played.over) & (playing.steps < most_steps)

    side = jnp.arange(episodes) % 2 if env.spec.num_players == 2 else None  # The policy's number as a player.

    def one(playing: Playing) -> Playing:
        shown = playing.stage.timestep
        stage, *_ = _move(env, policy, params, playing.stage, side)
        timestep, (returns, over, metrics) = stage.timestep, playing.played
        reward = timestep.reward if side is None else _reward_of(side, shown, timestep)
        returns = jnp.where(over, returns, returns + reward)
        last = timestep.step_type == LAST
        now = metrics_of(env, stage.env)
        metrics = {name: jnp.where(last & ~over, now[name], values) for name, values in metrics.items()}
        return Playing(stage, Played(returns, over | last, metrics), playing.steps + 1)

    begun = begin(env, policy, episodes, key)
    nothing = jax.tree.map(jnp.zeros_like, metrics_of(env, begun.env))
    start = Playing(begun, Played(jnp.zeros(episodes), jnp.zeros(episodes, bool), nothing), jnp.int32(0))
    played = jax.lax.while_loop(unfinished, one, start).played
    return played if side is None else played._replace(returns=jnp.where(played.over, played.returns, 0.0))


def _move(
    env: JaxEnv, policy: Policy, params: Nest, stage: Stage, side: jax.Array | None = None
) -> tuple[Stage, jax.Array, Nest]:
    """Plays one step in every slot; returns the stage, the actions [B] and the policy's extras.

    Args:
      env, policy, params, stage: see `act`.
      side: int [B], the player that the policy is in a match with a random one, which it sees moving; None outside of
        matches, where the policy makes all moves.
    """
    key, act_key = jax.random.split(stage.key)
    action, extras, memory = checked_step(policy, params, act_key, stage.timestep, stage.policy)
    if side is not None:
        key, other_key = jax.random.split(key)
        shown = stage.timestep.observation
        other = jax.random.categorical(other_key, jnp.where(shown.legal, 0.0, -jnp.inf))
        action = jnp.where(shown.player == side, action, other)
        memory = policy.executed(memory, action)
    played = action.astype(env.spec.actions.dtype)  # As a batch of the environment takes it on the host.
    state, timestep = jax.vmap(env.step)(stage.env, played)
    return stage._replace(env=state, timestep=timestep, policy=memory, key=key), action, extras


def _account(env: JaxEnv, stage: Stage, shown: TimeStep) -> tuple[Stage, Episodes]:
    """Adds a step to its slots' episodes; returns the stage and the episodes that ended, leaves [B]."""
    first, last = stage.timestep.step_type == FIRST, stage.timestep.step_type == LAST
    reward = stage.timestep.reward
    if env.spec.num_players == 2:  # Returns are those of player 0.
        reward = _reward_of(0, shown, stage.timestep)
    returns = jnp.where(first, 0.0, stage.episode_return + reward)
    steps = jnp.where(first, 0, stage.episode_steps + 1)
    of_ended = jnp.where(last, returns, 0.0)
    number, steps_of_ended = last.astype(jnp.float32), jnp.where(last, steps, 0).astype(jnp.float32)
    metrics = {name: jnp.where(last, values, 0.0) for name, values in metrics_of(env, stage.env).items()}
    ended = Episodes(number, of_ended, of_ended**2, steps_of_ended, metrics=metrics)
    return stage._replace(episode_return=returns, episode_steps=steps), ended


def _reward_of(player: jax.Array | int, shown: TimeStep, timestep: TimeStep) -> jax.Array:
    """A player's reward [B] in a game of two, who loses what the other one earns, for the move in a time step."""
    return jnp.where(shown.observation.player == player, timestep.reward, -timestep.reward)
