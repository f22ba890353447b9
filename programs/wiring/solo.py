"""Programs of one process: a node that does it all, and the monitor. No Launchpad, no Reverb, any supported Python."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Annotated, Any

import tyro

from boonta.agents.base import Agent
from boonta.envs.jax.base import JaxEnv
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.programs.wiring import supervise
from boonta.programs.wiring.provenance import built_from
from boonta.programs.wiring.run import BadInput, ProgramFunction, Run, claim_workdir, origin_of, parse

LOG_EVERY_S = 2.0  # between rows of metrics: these programs are done in seconds where others take hours


@dataclasses.dataclass(frozen=True)
class Size:
    """How much runs at once.

    Attributes:
      num_envs: environments; none for the config's batch size, or a multiple of it, learned from in as many updates.
      devices: to spread them over; none for all.
      eval_every: updates between evaluations.
    """

    num_envs: int | None = None
    devices: int | None = None
    eval_every: int = 1_000


SizeFlags = Annotated[Size, tyro.conf.arg(name="")]  # --num-envs rather than --size.num-envs


@dataclasses.dataclass(frozen=True)
class Solo:
    """A program of one process.

    Attributes:
      name: of the program.
      run: where and how long.
      node: the class of its node, which takes a name, an agent, an environment, the monitor, and `settings`.
      agent: what plays and learns.
      env: what it plays in.
      settings: the node's, besides those that every run has.
    """

    name: str
    run: Run
    node: Callable[..., Node]
    agent: Agent
    env: JaxEnv
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def build(self) -> tuple[Monitor, list[Node]]:
        """The monitor, and the other nodes."""
        monitor = Monitor("monitor", self.run.workdir, self.run.stop, log_every_s=LOG_EVERY_S)
        return monitor, [self.make_node(monitor)]

    def make_node(self, monitor: Any = None) -> Node:
        """The node, with the run's folder, seed and limits; refuses what can't work.

        Raises:
          ValueError: says which setting, what it is and what it must be.
        """
        run = self.run
        return self.node("anakin", self.agent, self.env, monitor, stop=run.stop, **run.learning, **self.settings)


def main(*program_functions: ProgramFunction, arguments: list[str] | None = None) -> None:
    """Parses the command line, runs the program and exits with how it ended.

    Args:
      program_functions: `(run, **settings) -> program`, a `Solo`, or a `Sebulba`, which builds its nodes as well; of
        several, the first argument names one.
      arguments: of the command line; None is the process's.
    """
    given, run = sys.argv[1:] if arguments is None else arguments, Run()
    try:
        program_function, given = _chosen(program_functions, given)
        run, settings = parse(program_function, given)
        run.join(built_from(program_function, run, settings))
        program = program_function(run, **settings)
        monitor, nodes = program.build()
        claim = claim_workdir(program.name, run.own, settings, origin_of(program_function, given))
    except (BadInput, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        run.leave(2)
    with claim:
        print(f"run folder {run.workdir}", flush=True)
        code = supervise.run_threads(monitor, nodes)
    run.leave(code)


def _chosen(functions: tuple[ProgramFunction, ...], given: list[str]) -> tuple[ProgramFunction, list[str]]:
    """The program function that the command line names first, and the rest of the command line."""
    if len(functions) == 1:
        return functions[0], given
    names = {function.__name__: function for function in functions}
    if not given or given[0] not in names:
        about = "\n".join(
            f"  {name:20s} {(function.__doc__ or '').splitlines()[0]}" for name, function in names.items()
        )
        said = f"the first argument is {given[0]!r}; " if given and not given[0].startswith("-") else ""
        raise BadInput(f"{said}name a program first, and --help after it for its flags:\n{about}")
    return names[given[0]], given[1:]
