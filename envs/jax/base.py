"""The contract of environments that are pure JAX programs: two functions for one slot, which the caller vmaps.

They allow to compile environment, policy and update into one program. See "Podracer architectures for scalable
Reinforcement Learning" (https://arxiv.org/abs/2104.06272), "Online Learning with Anakin".

Glossary of shapes: B batch (environment slots stepped together), A actions.
"""

from __future__ import annotations

import abc
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs import base
from boonta.envs.actions import check_action, check_legal

Nest = Any


class JaxEnv(abc.ABC):
    """One slot of an environment as pure functions; a frozen dataclass of settings, hashable and picklable.

    It is an `envs.base.Env`, too, whose batches actors and evaluators step on the host.

    A slot is the same endless stream as in `envs.base`: FIRST, MID…, LAST, FIRST, …; the step after LAST begins the
    next episode, ignores its action, and has a reward of 0 and a discount of 1. All randomness comes from the key,
    which is part of the state. `purity.check_pure` and `envs.conformance` check these rules.
    """

    @property
    @abc.abstractmethod
    def spec(self) -> base.EnvSpec:
        """The specs of one slot; no leaf has a batch axis."""

    @abc.abstractmethod
    def init(self, key: jax.Array) -> tuple[Nest, base.TimeStep]:
        """Begins a stream.

        Args:
          key: consumed.

        Returns:
          The state, a nest of arrays whose shapes and dtypes never change, and a FIRST step: int32 [], float32 [],
          float32 [] and the observation, without a batch axis.
        """

    @abc.abstractmethod
    def step(self, state: Nest, action: jax.Array) -> tuple[Nest, base.TimeStep]:
        """Steps the slot with an action of the spec, clipped to its bounds; returns what `init` does."""

    def episode_metrics(self, state: Nest) -> dict[str, jax.Array]:
        """Numbers of an episode besides its return, such as whether it was a success.

        They are computed with every step, and read from those that are LAST.

        Args:
          state: the state that came with the step.

        Returns:
          Arrays [] of numbers or truth values by name; always the same names.
        """
        return {}

    @property
    def steps_per_s(self) -> float | None:
        """Env steps in a second of the simulated time; None where there is no such time."""
        return None

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        """Makes a batch of slots as `envs.base.Env` does, jitted and vmapped on JAX's default device."""
        return _JaxBatch(self, num_envs, seed)

    def draw(self, state: Nest) -> np.ndarray | None:
        """Draws slots, uint8 [B, H, W, 3], from their states as numpy arrays [B, ...]; None if there is no picture.

        Runs on the host; it need not be fast.
        """
        return None


class Stream(NamedTuple):
    """The state of a `Game`'s slot.

    Attributes:
      key: never changes; each step folds `steps` into it.
      steps: int32 [], number of steps since `init`.
      last: bool [], whether the last step was LAST.
      game: the state of the current episode.
    """

    key: jax.Array
    steps: jax.Array
    last: jax.Array
    game: Nest


class Game(JaxEnv):
    """Adds auto-reset to an environment that defines single episodes, and so makes it an endless stream.

    A vmapped program computes both sides of every branch, so each step pays for a `reset` and for a `move` and discards
    one of them: keep `reset` cheap. The two share a key, since only one of them is used; `observe` is called once.
    """

    @abc.abstractmethod
    def reset(self, key: jax.Array) -> Nest:
        """Draws the first state of an episode; consumes the key."""

    @abc.abstractmethod
    def move(
        self, key: jax.Array, state: Nest, action: jax.Array
    ) -> tuple[Nest, jax.Array, jax.Array | bool, jax.Array | bool]:
        """Takes an action.

        Args:
          key: consumed.
          state: the state of an episode. If the episode is over, the result is discarded.
          action: an action of the spec.

        Returns:
          The next state; the reward [] of the player who acted; terminated []; truncated [].
        """

    @abc.abstractmethod
    def observe(self, state: Nest) -> Nest:
        """Returns the observation of a state; `legal` of a `BoardView` may ignore the rule for LAST."""

    def measure(self, state: Nest) -> dict[str, jax.Array]:
        """Returns numbers of an episode besides its return, by its last state, see `JaxEnv.episode_metrics`."""
        return {}

    def episode_metrics(self, state: Stream) -> dict[str, jax.Array]:
        # Subclasses that keep states of another kind, and measure nothing, needn't override this.
        return {} if type(self).measure is Game.measure else self.measure(state.game)

    def init(self, key: jax.Array) -> tuple[Stream, base.TimeStep]:
        no, steps = jnp.bool_(False), jnp.int32(0)
        game = self.reset(jax.random.fold_in(key, steps))
        return Stream(key, steps, no, game), self._timestep(game, ~no, jnp.float32(0), no, no)

    def step(self, state: Stream, action: jax.Array) -> tuple[Stream, base.TimeStep]:
        steps = state.steps + 1
        # A vmapped `split` works along an axis of length 2, which takes up to ten times as long on a CPU.
        draw = jax.random.fold_in(state.key, steps)
        first = state.last
        moved, reward, terminated, truncated = self.move(draw, state.game, _clip(action, self.spec.actions))
        game = jax.tree.map(lambda new, old: jnp.where(first, new, old), self.reset(draw), moved)
        terminated, truncated = ~first & terminated, ~first & truncated
        reward = jnp.where(first, 0, reward).astype(jnp.float32)
        timestep = self._timestep(game, first, reward, terminated, truncated)
        return Stream(state.key, steps, terminated | truncated, game), timestep

    def _timestep(
        self, game: Nest, first: jax.Array, reward: jax.Array, terminated: jax.Array, truncated: jax.Array
    ) -> base.TimeStep:
        """Returns the current step, given the reward of the action that led here; termination outranks truncation."""
        last = terminated | truncated
        observation = self.observe(game)
        if isinstance(observation, base.BoardView):
            observation = observation._replace(legal=observation.legal | last)
        return base.TimeStep(
            step_type=jnp.where(first, base.FIRST, jnp.where(last, base.LAST, base.MID)).astype(jnp.int32),
            reward=reward,
            discount=jnp.where(terminated, 0, 1).astype(jnp.float32),
            observation=observation,
        )


def metrics_of(env: JaxEnv, state: Nest) -> dict[str, jax.Array]:
    """The numbers of every slot's episode, float32 [B] by name, from states [B, ...]; those of slots at LAST count."""

    def one(state: Nest) -> dict[str, jax.Array]:
        return {name: jnp.asarray(value, jnp.float32) for name, value in env.episode_metrics(state).items()}

    return jax.vmap(one)(state)


def _clip(action: jax.Array, spec: specs.Array) -> jax.Array:
    """Clips a slot's real-valued action to the spec's bounds, as `check_action` does; leaves integers as they are."""
    if not isinstance(spec, specs.BoundedArray) or np.issubdtype(spec.dtype, np.integer):
        return action
    return jnp.clip(action, spec.minimum, spec.maximum)


def draw_bits(key: jax.Array, count: int) -> jax.Array:
    """Draws uint32 [count] at the cost of one `fold_in` for every two of them; consumes the key.

    `jax.random.randint` and `choice` cost several times as much for one number, and a vmapped `bits` of shape [count]
    works along that short axis, which is slow, see `Game.step`.
    """
    blocks = [jax.random.key_data(jax.random.fold_in(key, i)) for i in range(-(-count // 2))]
    return jnp.concatenate(blocks)[:count]


class _JaxBatch(base.BatchedEnv):
    """Keeps the slots' states on the device and returns numpy arrays."""

    def __init__(self, env: JaxEnv, num_envs: int, seed: int):
        self.num_envs = num_envs
        self.spec = env.spec
        self.steps_per_s = env.steps_per_s
        self._env = env
        self._seeds = base.slot_seeds(num_envs, seed).astype(np.uint32)  # [B]
        self._resets = 0
        self._state: Nest = None
        self._timestep: base.TimeStep | None = None
        self._tracker = base.EpisodeTracker(num_envs)

    def reset(self) -> base.TimeStep:
        out = _init(self._env, self._seeds, self._resets)
        self._resets += 1
        return self._take(out)

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        if self._timestep is None:
            return self.reset()
        check_legal(action, self._timestep)
        return self._take(_step(self._env, self._state, action.astype(self.spec.actions.dtype)))

    def episodes(self) -> list[base.Episode]:
        return self._tracker.take()

    def render(self) -> np.ndarray | None:
        return None if self._state is None else self._env.draw(jax.device_get(self._state))

    def _take(self, out: _Stepped) -> base.TimeStep:
        """Keeps the state [B, ...] that `init` or `step` returned, and counts its time step."""
        self._state, (self._timestep, metrics) = out[0], jax.device_get(out[1:])
        reward = base.reward_of_player_0(self._timestep, self.spec.num_players)
        step_type = self._timestep.step_type
        first, last = step_type == base.FIRST, step_type == base.LAST
        self._tracker.update(reward, first, last, lambda slot: {name: values[slot] for name, values in metrics.items()})
        return self._timestep


_Stepped = tuple[Nest, base.TimeStep, dict[str, jax.Array]]  # The states, the time steps and what `metrics_of` gives.


@functools.partial(jax.jit, static_argnums=0)
def _init(env: JaxEnv, seeds: jax.Array, resets: jax.Array) -> _Stepped:
    """Begins a stream for each of the seeds [B]; each reset begins another one."""
    state, timestep = jax.vmap(lambda seed: env.init(jax.random.fold_in(jax.random.PRNGKey(seed), resets)))(seeds)
    return state, timestep, metrics_of(env, state)


@functools.partial(jax.jit, static_argnums=0)
def _step(env: JaxEnv, state: Nest, action: jax.Array) -> _Stepped:
    """Steps every slot, state and action [B, ...]; equal environments share one compiled program."""
    state, timestep = jax.vmap(env.step)(state, action)
    return state, timestep, metrics_of(env, state)
