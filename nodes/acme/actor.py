"""Nodes whose loop is Acme's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import acme
import dm_env
from acme.utils import counting, loggers

from boonta.agents.base import Agent, Author
from boonta.envs.base import Env, mixed_seed
from boonta.envs.one_slot import OneSlot
from boonta.nodes.acme.acting import Published
from boonta.nodes.acme.adder import StepsAdder, require_extras
from boonta.nodes.acme.monitoring import MonitorLogger, ProgramCounter
from boonta.nodes.acting.base import Remote, VariablesHandle, count_episodes
from boonta.nodes.base import Node, Stopped
from boonta.nodes.tables.base import Store
from boonta.nodes.variables import Colocated
from boonta.nodes.watch.reporter import MonitorHandle


class Parts(NamedTuple):
    """What a node has for the Acme loop that it runs.

    Attributes:
      environment: one slot of the program's environment; `acme.make_environment_spec` has its specs.
      counter: the program's counters; those of Acme's parts may have it as their parent.
      logger: the monitor.
      seed: the seed of this node in this life of it.
      adder: writes to the program's tables; an `AcmeLoop` has none.
      source: the learner's newest params; an `AcmeLoop` has none.
    """

    environment: dm_env.Environment
    counter: counting.Counter
    logger: loggers.Logger
    seed: int
    adder: StepsAdder | None = None
    source: Published | None = None


class AcmeLoop(Node):
    """Runs an Acme loop, such as that of an agent of Acme's own that learns by itself.

    A step is an episode. The node's environment counts env steps and episodes, and samples their returns, whatever the
    loop does; what the loop returns is logged under `acme/`. Once the node is asked to stop, the environment ends the
    loop by an exception.

    Args:
      name: name of this node.
      env: makes the environment.
      monitor: handle.
      make_loop: makes the loop from the parts, in the node's own process: a function of a module, not a lambda.
      seed: the seed of the environment, and of the loop.
    """

    role = "acme"

    def __init__(
        self,
        name: str,
        env: Env,
        monitor: MonitorHandle | None = None,
        *,
        make_loop: Callable[[Parts], acme.EnvironmentLoop],
        seed: int = 0,
    ):
        super().__init__(name, monitor)
        self._env = env
        self._make_loop = make_loop
        self._seed = seed

    def start(self) -> None:
        seed = mixed_seed(self._seed, self.past_lives, self.past_starts)
        with self.stopwatch("starting environments"):
            self._environment = _Watched(self, self._env, seed)
        self.on_close(self._environment.close)
        self._logger = MonitorLogger(self)
        self._counter = ProgramCounter(self, counted=("env_steps", "episodes"))
        parts = Parts(self._environment, self._counter, self._logger, seed)
        self._loop = self._make_loop(self.complete(parts))

    def complete(self, parts: Parts) -> Parts:
        """Adds what a subclass has besides."""
        return parts

    def step(self) -> None:
        result = self._loop.run_episode()  # `run` would take Launchpad's signals over, and log by itself.
        counted = self._counter.get_counts()
        self._logger.write({name: value for name, value in result.items() if name not in counted})


class AcmeActor(AcmeLoop):
    """Runs an Acme loop whose actor's experience goes to the program's tables, in the place of an `Actor`.

    Args:
      name, env, monitor, make_loop, seed: see `AcmeLoop`.
      agent: its tables are written to.
      variables: handle of the variable server.
      replay: the tables.
      gives_extras: see `StepsAdder`.

    Raises:
      ValueError: the program runs in a way that has no place for an Acme loop; or see `require_extras`.
    """

    role: Author = "actor"
    saves = False

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: VariablesHandle,
        replay: Store,
        monitor: MonitorHandle | None = None,
        *,
        make_loop: Callable[[Parts], acme.EnvironmentLoop],
        gives_extras: bool = False,
        seed: int = 0,
    ):
        super().__init__(name, env, monitor, make_loop=make_loop, seed=seed)
        if isinstance(variables, Remote):
            raise ValueError(f"{name}: an Acme actor acts itself, so the program must have no inference node")
        if isinstance(variables, Colocated):
            raise ValueError(f"{name}: --launch sebulba can't run an Acme loop; local_mp, local_mt and serial can")
        try:
            require_extras(agent, env.spec, gives_extras)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        self._agent = agent
        self._variables = variables
        self._replay = replay
        self._gives_extras = gives_extras

    def complete(self, parts: Parts) -> Parts:
        source = Published(self._variables, self._agent, self)
        adder = StepsAdder(
            self._agent,
            self._env.spec,
            self._replay,
            self,
            gives_extras=self._gives_extras,
            version=lambda: source.version,
        )
        self.on_close(adder.close)
        return parts._replace(adder=adder, source=source)


class _Watched(OneSlot):
    """The environment of an `AcmeLoop`, which counts, and ends the loop with the node."""

    def __init__(self, node: AcmeLoop, env: Env, seed: int):
        super().__init__(env, seed)
        self._node = node

    def step(self, action: Any) -> dm_env.TimeStep:
        node = self._node
        if node.stopping:
            raise Stopped
        with node.stopwatch("stepping environments"):
            timestep = super().step(action)
        node.count(env_steps=1, frames=self.batch.spec.frames_per_step)
        count_episodes(node, self.batch)
        return timestep
