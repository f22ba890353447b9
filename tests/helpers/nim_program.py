"""A program of a game of two, with nodes given by keyword and nothing called evaluator: tools must find their way."""

from __future__ import annotations

import json
import pathlib

import jax

from boonta.nodes.arena import Arena
from boonta.nodes.checkpoint import Checkpointer
from boonta.programs.wiring.launch import Program, RunFlags, group
from boonta.tests.helpers import nim


def nim_program(run: RunFlags, heap: int = 5) -> Program:
    """Only what evaluates."""
    arena = group(Arena, label="matches", opponents={"one": nim.Take(1)})
    return Program("nim_program", run, nim.agent(), nim.Nim(heap), [arena])


def make_run(folder: pathlib.Path, number: int, *arguments: str, program: str = __file__) -> pathlib.Path:
    """What a run whose agent takes `number` has left in its folder."""
    folder.mkdir(parents=True)
    origin = {"file": program, "function": "nim_program", "arguments": list(arguments)}
    config = {"program": "nim_program", "seed": 0, "settings": {}, **origin}
    (folder / "config.json").write_text(json.dumps(config))
    Checkpointer(folder / "checkpoints").save(1, jax.tree.map(jax.numpy.asarray, nim.params(number)), {})
    return folder
