"""EnvPool's environments, whose slots are stepped by threads in C++: Atari, classic control, MuJoCo and others.

See "EnvPool: A Highly Parallel Reinforcement Learning Environment Execution Engine" (https://arxiv.org/abs/2206.10558)
and https://envpool.readthedocs.io. envpool is not among the locked packages; install it yourself.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from boonta.envs import base, spaces
from boonta.envs.episode_metrics import require_names
from boonta.envs.vector import VectorBatch


@dataclasses.dataclass(frozen=True)
class EnvPool:
    """One of EnvPool's environments; all slots are stepped together, so a batch waits for its slowest slot.

    Slots' seeds follow each other within a batch, but not from one batch to the next.

    Attributes:
      task: EnvPool's name of the environment, such as "Pendulum-v1" or "HalfCheetah-v5".
      num_threads: threads that step the slots; with 0, EnvPool chooses.
      kwargs: other settings of `envpool.make`, such as `{"frame_skip": 4}`.
      metrics: names of numbers in `info` that episodes have besides their return, see `envs.gymnasium.Gymnasium`.
    """

    task: str
    num_threads: int = dataclasses.field(default=0, metadata=base.SAME_STEPS)
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metrics: tuple[str, ...] = dataclasses.field(default=(), metadata=base.SAME_STEPS)

    def __post_init__(self) -> None:
        require_names(self.metrics)
        if self.num_threads < 0:
            raise ValueError(f"num_threads is {self.num_threads}; it must be at least 0")
        known = _package().list_all_envs()
        if self.task not in known:
            raise ValueError(f"task is {self.task!r}, which envpool does not know; {base.suggest(self.task, known)}")

    @functools.cached_property
    def spec(self) -> base.EnvSpec:
        """Reads the spaces of a temporary pool.

        Raises:
          ValueError: agents don't support one of the spaces, which the message shows.
        """
        pool = self._make(1, 0)
        try:
            return spaces.env_spec(pool.observation_space, pool.action_space)
        finally:
            pool.close()

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        spec, (first,) = self.spec, base.slot_seeds(1, seed).tolist()
        base.slot_seeds(num_envs, seed)  # It refuses impossible numbers.
        return VectorBatch(_Pool(self._make(num_envs, first), num_envs), spec, None, self.metrics)

    def _make(self, num_envs: int, seed: int) -> Any:
        settings = {"num_envs": num_envs, "seed": seed, "num_threads": self.num_threads, **self.kwargs}
        return _package().make(self.task, env_type="gymnasium", **settings)


class _Pool:
    """A pool with the names of Gymnasium's `VectorEnv`."""

    def __init__(self, pool: Any, num_envs: int):
        self.num_envs, self.metadata = num_envs, pool.metadata
        self.single_observation_space, self.single_action_space = pool.observation_space, pool.action_space
        self.reset, self.step, self.close = pool.reset, pool.step, pool.close


@functools.cache
def _package() -> Any:
    """Imports envpool.

    Raises:
      ImportError: it is not installed, or doesn't go with this JAX.
    """
    try:
        import envpool
    except (ImportError, AttributeError) as error:  # Its 0.8 takes from JAX what 0.6 no longer has.
        raise ImportError(
            f"envs.envpool needs envpool 1.0 or newer, which can't be imported ({error}); on CPython 3.11 and newer: "
            "pip install 'boonta-rl[envpool]', or in a clone ./run pip install envpool"
        ) from error
    return envpool
