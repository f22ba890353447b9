"""Nodes whose rounds are evaluations: when they come, what they compile first, and what they report."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from boonta.agents.base import Agent, Nest, Slots
from boonta.envs.base import Env, Episode
from boonta.nodes.acting.base import ParamsHandle
from boonta.nodes.acting.local import Acting, Play, acting_params, evaluated_policy, jit_policy
from boonta.nodes.base import Stopped
from boonta.nodes.periodic import Periodic
from boonta.nodes.variables import open_params
from boonta.nodes.watch.calls import answered
from boonta.nodes.watch.evaluation import By, Evaluation
from boonta.nodes.watch.means import mean
from boonta.nodes.watch.reporter import MonitorHandle
from boonta.nodes.watch.stopwatch import Stopwatch

LOOK_S = 0.2  # Time between two looks at the program's counters.


class Evaluating(Periodic):
    """A node whose rounds are evaluations, at an interval of seconds or of one of the program's counters.

    A subclass says in `evaluate` what one evaluation is; compiling, waiting and reporting are the same for all.

    Args:
      name: name of this node.
      agent: the agent.
      env: makes the environments.
      variables: handle of the variable server, or `Colocated` with the learner.
      monitor: handle of the monitor, whose answers to heartbeats have the counters.
      seed: seed of the environments and the policy.
      settings: the fields of `Evaluation`.

    Raises:
      ValueError: as `Evaluation`; or the agent has no such policy.
    """

    role = "evaluator"
    saves = False

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: ParamsHandle,
        monitor: MonitorHandle | None = None,
        *,
        seed: int = 0,
        episodes: int = Evaluation.episodes,
        by: By = Evaluation.by,
        every_s: float = Evaluation.every_s,
        every_updates: int = Evaluation.every_updates,
        every_env_steps: int = Evaluation.every_env_steps,
        deterministic: bool | None = Evaluation.deterministic,
        max_share: float = Evaluation.max_share,
        max_age: int | None = Evaluation.max_age,
        max_steps: int | None = Evaluation.max_steps,
    ):
        self._evaluation = Evaluation(
            episodes, by, every_s, every_updates, every_env_steps, deterministic, max_share, max_age, max_steps
        )
        self._by, self._every = self._evaluation.interval()
        # By a counter rounds wait in `step`; and without an interval for their share of the time.
        super().__init__(name, monitor, every_s=(every_s or None) if self._by == "seconds" else None)
        self._agent = agent
        self._policy = jit_policy(evaluated_policy(agent, self._evaluation.deterministic))
        self._env = env
        self._variables = variables
        self._seed = seed
        self._target: float | None = None  # The count at which the next evaluation is due.

    def start(self) -> None:
        self._params = open_params(self._variables, acting_params(self._agent))
        self._made = 0  # Evaluations so far.

    def evaluate(self, version: int, params: Nest) -> dict[str, float]:
        """Evaluates these params, of this version; returns what was found, as metrics."""
        raise AssertionError(f"{type(self).__name__} has no evaluate()")

    def round(self) -> None:
        if not self._made:
            self._compile()
        version, params = self.wait_for("params", self._params.fetch)
        began = self._begin(version)
        found = self.evaluate(version, params)
        self._made += 1
        self.measure(found | self._evaluation.age_allowed)
        # What the first one compiles comes before it begins, since it doesn't come again.
        self.rest_after(time.monotonic() - began, self._evaluation.max_share)

    def step(self) -> None:
        with self.stopwatch("resting"):
            while not self.stopping and not self._is_reached():
                self.sleep(LOOK_S)
        if not self.stopping:
            super().step()

    def ready(self) -> bool:
        return self._is_reached() and super().ready()

    def _is_reached(self) -> bool:
        """Whether the counter has passed the next multiple of the interval."""
        if self._by == "seconds":
            return True
        if self._target is None:  # Counters are those of a resumed run, too, once its learner has published.
            if self._params.fetch(0.0) is None:
                return False
            answered(self.heartbeat)
            self._target = self._next_multiple()
        return self._count >= self._target

    @property
    def _count(self) -> float:
        """The counter that the interval counts, as of the last heartbeat."""
        return self.program_counts.get(self._by, 0.0)

    def _next_multiple(self) -> float:
        """The first multiple of the interval that the counter hasn't reached."""
        return (self._count // self._every + 1) * self._every

    def _compile(self) -> None:
        """Compiles policy and environments by a first step of these, and closes them: the first evaluation only plays.

        This is "compiling", which may take any time, and which the program's end doesn't wait for.
        """
        with contextlib.closing(self._env(self._evaluation.episodes, self._seed)) as env:
            _, params = self.wait_for("params", self._params.fetch)
            acting = Acting(self._policy, Slots(env.num_envs), self._seed, Stopwatch())
            with self.stopwatch("compiling"):
                env.step(acting(params, env.reset())[0])

    def _begin(self, version: int) -> float:
        """Reports that the evaluation of this version begins; returns the time."""
        if self._by != "seconds":
            self._target = self._next_multiple()
        self.measure({"eval_started": float(version)})
        answered(self.heartbeat)  # On this report the learner keeps its state.
        return time.monotonic()


class EvalEpisodes(NamedTuple):
    """One episode in each of some slots.

    Attributes:
      returns: the return of each; of an episode that was cut, what it had earned.
      cut: how many were cut.
      metrics: means over the others of the environment's other numbers, by name; none if all were cut.
    """

    returns: Sequence[float]
    cut: int
    metrics: Mapping[str, float]


def play_out(play: Play, params: Nest, max_steps: int, stopping: Callable[[], bool] = lambda: False) -> EvalEpisodes:
    """Plays one episode in each slot, and closes the environments.

    Args:
      play: the policy and its environments.
      params: the policy's params.
      max_steps: env steps after which an episode is cut, and counts with what it has earned: some tasks never end.
      stopping: whether to give up.

    Returns:
      Each slot's first episode, so that long episodes count as much as short ones.

    Raises:
      Stopped: `stopping` has become true.
    """
    first: dict[int, Episode] = {}
    with contextlib.closing(play.env) as env:
        earned = np.zeros(env.num_envs)
        for _ in range(max_steps):
            if stopping():
                raise Stopped
            play.step(params)
            earned += play.timestep.reward
            for episode in env.episodes():
                first.setdefault(episode.slot, episode)
            if len(first) == env.num_envs:
                break
        returns = [float(first[i].episode_return if i in first else earned[i]) for i in range(env.num_envs)]
        numbers: dict[str, list[float]] = collections.defaultdict(list)
        for episode in first.values():
            for name, value in episode.metrics.items():
                numbers[name].append(value)
        return EvalEpisodes(returns, env.num_envs - len(first), {name: mean(each) for name, each in numbers.items()})
