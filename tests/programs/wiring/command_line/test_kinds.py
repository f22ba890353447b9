"""A torso of another kind than the preset's has its own sizes, unless the command line gives others."""

from __future__ import annotations

import pathlib

import pytest

from boonta.agents import muzero as muzero_agent
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.programs.muzero import muzero
from boonta.programs.ppo import ppo
from boonta.programs.rainbow import rainbow
from boonta.programs.unplugged import unplugged
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.command_line.kinds import with_kinds

TOWER = Torso("tower", channels=(32,), blocks=2, halvings=4, normalise=True)


@pytest.mark.parametrize(
    ("flags", "torso"),
    [
        ([], TOWER),
        (["--config.torso.kind", "tower"], TOWER),
        (["--config.torso.kind", "nature"], Torso("nature", normalise=True)),
        (["--config.torso.kind=nature"], Torso("nature", normalise=True)),
        (["--config.torso.kind", "deep", "--config.torso.kind", "nature"], Torso("nature", normalise=True)),
        (
            ["--config.torso.channels", "8", "16", "16", "--config.torso.kind", "deep", "--config.torso.widths", "64"],
            Torso("deep", widths=(64,), channels=(8, 16, 16), normalise=True),
        ),
        (["--config.torso.kind", "nature", "--config.torso.no-normalise"], Torso("nature")),
    ],
)
def test_of_a_kind_its_own_sizes(flags, torso):
    pytest.importorskip("ale_py")
    assert parse(muzero, ["atari/Pong", *flags])[1]["config"].torso == torso


def test_a_preset_that_is_named_takes_the_kind_too(tmp_path):
    flags = ["--data", str(tmp_path), "config:atari", "--config.torso.kind", "nature"]
    config = parse(unplugged, flags)[1]["config"]
    assert config == replaced(muzero_agent.ATARI, {"torso": Torso("nature", normalise=True)})
    assert parse(unplugged, [*flags[:2], "config:cartpole"])[1]["config"] == muzero_agent.CARTPOLE


def test_heads_without_layers_below_them_stay_without():
    config = parse(rainbow, ["atari/Pong", "--config.torso.kind", "deep"])[1]["config"]
    assert config.torso == Torso("deep", widths=())


def test_what_no_kind_changes_stays():
    config = parse(ppo, ["catch", "--config.torso.kind", "minatar"])[1]["config"]
    assert config.torso == Torso("minatar", activation="tanh", orthogonal=True)


def test_another_flag_may_make_the_kind_fit(capsys):
    """Connect four's preset shows a tower the column of a move, which no other torso takes."""
    env = "pgx/connect_four"
    with pytest.raises(SystemExit):
        parse(muzero, [env, "--config.torso.kind", "minatar"])
    assert "it must be 'tower' where action_planes is 'place'" in " ".join(capsys.readouterr().err.split())
    config = parse(muzero, [env, "--config.torso.kind", "minatar", "--config.action-planes", "each"])[1]["config"]
    assert config.torso == Torso("minatar", normalise=True)


def test_a_runs_folder_has_the_kind_in_its_name():
    usual, other = (parse(ppo, ["catch", *flags])[0].workdir for flags in ([], ["--config.torso.kind", "minatar"]))
    assert other != usual and "minatar" in pathlib.Path(other).name


def test_a_kind_that_does_not_exist_is_left_to_the_parser(capsys):
    with pytest.raises(SystemExit):
        parse(ppo, ["catch", "--config.torso.kind", "natur"])
    assert "invalid choice 'natur'" in capsys.readouterr().err
    for value in (3, "text", None, Torso):
        assert with_kinds(value, "config", ["--config.torso.kind", "nature"]) is value
