"""A program of a game of two, with nodes given by keyword and nothing called evaluator: tools must find their way."""

from __future__ import annotations

import json
import pathlib

import jax

from boonta.nodes.arena import Arena
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.monitor import Monitor
from boonta.nodes.services import Program, ServiceNode, lp
from boonta.nodes.variables import VariableServer
from boonta.programs.wiring.launch import RunFlags
from boonta.tests.helpers import nim


def nim_program(run: RunFlags, heap: int = 5, arena: bool = True) -> Program:
    """Only what evaluates."""
    program = Program("nim_program")
    with program.group("monitor"):
        monitor = program.add_node(ServiceNode(Monitor, "monitor", run.workdir, run.stop))
    with program.group("variables"):
        variables = program.add_node(ServiceNode(VariableServer, "variables", monitor))
    with program.group("matches"):
        if arena:
            given = {"env": nim.Nim(heap), "variables": variables, "opponents": {"one": nim.Take(1)}}
            program.add_node(lp.PyClassNode(Arena, "arena", agent=nim.agent(), **given))
        else:
            program.add_node(lp.PyClassNode(VariableServer, "other", monitor))
    return program


def make_run(folder: pathlib.Path, number: int, *arguments: str, program: str = __file__) -> pathlib.Path:
    """What a run whose agent takes `number` has left in its folder."""
    folder.mkdir(parents=True)
    config = {"file": program, "function": "nim_program", "arguments": list(arguments), "settings": {}}
    (folder / "config.json").write_text(json.dumps(config))
    Checkpointer(folder / "checkpoints").save(1, jax.tree.map(jax.numpy.asarray, nim.params(number)), {})
    return folder
