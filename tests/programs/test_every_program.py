"""Every cluster program can be built, as the launcher builds it before anything starts."""

from __future__ import annotations

import importlib
import pathlib

import pytest

pytestmark = pytest.mark.cluster
launch = pytest.importorskip("boonta.programs.wiring.launch", exc_type=ImportError)

PROGRAMS = pathlib.Path(__file__).parents[2] / "programs"
ALGORITHMS = ("impala", "muzero")
NAMES = sorted(path.stem for name in ALGORITHMS for path in PROGRAMS.glob(f"{name}_*.py"))


def groups(name: str, *flags: str) -> set[str]:
    """The groups of the program's nodes, each of which has taken its settings."""
    function = getattr(importlib.import_module(f"programs.{name}"), name)
    run, settings = launch.parse(function, list(flags))
    program = function(run, **settings)
    launch.check_nodes(program)
    return set(program.groups)


@pytest.mark.parametrize("name", NAMES)
def test_it_has_who_acts_learns_and_evaluates(name, tmp_path):
    assert len(NAMES) >= 11
    assert {"monitor", "variables", "replay", "learner", "actor", "evaluator"} <= groups(
        name, "--workdir", str(tmp_path)
    )


def test_a_game_without_planes_is_seen_flat(tmp_path):
    flags = ("--workdir", str(tmp_path), "--game", "nim")
    with pytest.raises(ValueError, match="view is 'planes', but nim has observations of shape .*; allowed: 'flat'"):
        groups("muzero_board", *flags)
    assert "evaluator" in groups("muzero_board", *flags, "--view", "flat")
