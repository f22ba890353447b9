"""Declared bounds: what is refused and how, what --help shows, and fields by dotted name."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from typing import Literal

import jax
import pytest
import tyro

from boonta.agents import impala, muzero
from boonta.agents.config import (
    Declared,
    check,
    declared_of,
    documented,
    field,
    leaves,
    number_fields,
    replaced,
    require,
    with_values,
)
from boonta.agents.groups import Optimiser, Replay, Torso

ROOT = pathlib.Path(__file__).resolve().parents[2]


@documented
@dataclasses.dataclass(frozen=True)
class Group:
    """A group."""

    rate: float = field(0.5, "How fast.", unit="updates", source="Table 1", above=0)
    share: float | None = field(None, "How much.", at_least=0, below=1)

    def __post_init__(self) -> None:
        check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """A config.

    It has a second paragraph.
    """

    count: int = field(1, "How many.", unit="env steps", source="section 2: Data", at_least=1)
    mode: Literal["a", "b"] = field("a", "Which.")
    sizes: tuple[int, ...] | None = field(None, "How large.", at_least=1)
    cap: float = field(math.inf, "How large at most.", above=0, infinite=True)
    free: bool = field(False, "Whether.")
    group: Group = field(Group(), "The group.")

    def __post_init__(self) -> None:
        check(self)
        require(self, "group.rate", self.group.rate < self.cap, "below cap")


NAME = rf"{__name__.split('.')[-2]}\." if "." in __name__ else ""


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("count", 0, "at least 1"),
        ("mode", "c", r"one of \('a', 'b'\)"),
        ("mode", None, r"one of \('a', 'b'\)"),
        ("sizes", (8, 0), "each at least 1, or None"),
        ("cap", 0.0, "above 0"),
        ("cap", math.nan, "above 0"),
        ("group.rate", -1.0, "above 0, and finite"),
        ("group.rate", math.inf, "above 0, and finite"),
        ("group.rate", math.nan, "above 0, and finite"),
        ("group.share", 1.0, r"in \[0, 1\), or None"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(name, value, allowed):
    owner = "Group" if "." in name else "Config"
    own = name.rpartition(".")[2]
    with pytest.raises(ValueError, match=rf"{NAME}{owner}: {own} is .*; it must be {allowed}$"):
        replaced(Config(), {name: value})


def test_what_two_fields_rule_out_is_refused_by_dotted_name():
    with pytest.raises(ValueError, match="Config: group.rate is 0.5; it must be below cap"):
        Config(cap=0.25)


def test_bounds_allow_their_own_ends_and_none_where_declared():
    config = replaced(Config(), {"count": 1, "sizes": (1,), "cap": math.inf, "group.share": 0.0})
    assert (config.sizes, config.group.share) == ((1,), 0.0)
    assert replaced(config, {"sizes": None, "group.share": None}) == Config()


def test_fields_by_dotted_name():
    assert leaves(Config()) == {
        "count": 1,
        "mode": "a",
        "sizes": None,
        "cap": math.inf,
        "free": False,
        "group.rate": 0.5,
        "group.share": None,
    }
    assert number_fields(Config()) == ["cap", "group.rate", "group.share"]
    assert declared_of(Config(), "group.share").below == 1
    assert replaced(Config(), {"group.rate": 0.25, "group.share": 0.5}) == Config(group=Group(0.25, 0.5))
    assert replaced(Config(), {"group": Group(2.0)}) == Config(group=Group(2.0))
    for change in (replaced, with_values):
        for name in ("rate", "group.speed", "crowd.rate"):
            with pytest.raises(ValueError, match=f"Config has no field '{name}'; its fields are .*'group.rate'"):
                change(Config(), {name: 1.0})


def test_traced_values_are_not_compared():
    def traced(rate):
        config = with_values(Config(), {"group.rate": rate, "cap": 2 * rate})
        assert config.mode == "a" and config.group.share is None
        return config.group.rate * config.cap

    assert float(jax.jit(traced)(-3.0)) == 18.0
    assert Config().group.rate == 0.5


def test_help_says_unit_bounds_and_source(capsys):
    with pytest.raises(SystemExit):
        tyro.cli(Config, args=["--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "How many. [unit: env steps; allowed: at least 1; source: section 2: Data]" in shown
    assert "How fast. [unit: updates; allowed: above 0, and finite; source: Table 1]" in shown
    assert "--group.rate" in shown and "A config. It has a second paragraph." in shown


# Numbers without a unit: factors, exponents, shares and the like. All other numbers have one.
PURE = {
    "discount", "clip_rho", "trace_lambda", "entropy_cost", "baseline_cost", "policy_cost", "reward_cost", "value_cost",
    "consistency_cost", "chance_cost", "learning_rate", "max_grad_norm", "epsilon", "decay", "weight_decay",
    "random_actions", "dirichlet_alpha", "dirichlet_fraction", "temperature", "spread", "pb_c_init", "pb_c_base",
    "reanalyze_ratio", "priority_exponent", "importance_exponent",
}  # fmt: skip


@pytest.mark.parametrize(("config", "some"), [(impala.Config, "Table G.1"), (muzero.Config, "[E], 200 to 400")])
def test_every_field_of_an_agent_has_help_unit_and_source_on_the_command_line(config, some, capsys):
    default = config()

    def program(settings=default):
        """A program."""

    program.__annotations__ = {"settings": config}
    with pytest.raises(SystemExit):
        tyro.cli(program, prog="program", args=["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    shown = " ".join(" ".join(lines).replace("│", " ").split())
    for name, value in leaves(config()).items():
        declared = declared_of(config(), name)
        assert declared is not None and " ".join(declared.help.split())[:30] in shown, name
        assert declared.source and f"source: {declared.source}]" in shown, name
        is_number = not isinstance(value, str | bool) and name.rpartition(".")[2] not in PURE
        assert bool(declared.unit) == is_number, name
        assert f"unit: {declared.unit}" in shown, name
    assert some in shown and "unit: updates; allowed: at least 1" in shown


@pytest.mark.parametrize("config", [impala.Config, muzero.Config])
def test_sources_are_explained(config):
    """A source in square brackets is explained in the docstring of the class that has the field."""
    for owner in (config, *(type(value) for value in vars(config()).values() if dataclasses.is_dataclass(value))):
        texts = [each.metadata[Declared].source for each in dataclasses.fields(owner)]
        explained = owner.__doc__.partition("Attributes:")[0]
        for tag in {tag for text in texts for tag in re.findall(r"\[\w+\]", text)}:
            assert tag in explained, (owner, tag)
        for path in {path for text in texts for path in re.findall(r"measured in (\S+)", text)}:
            assert (ROOT / path).is_file()


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        (Optimiser, "kind", "lamb"),
        (Optimiser, "learning_rate", 0.0),
        (Optimiser, "learning_rate", math.inf),
        (Optimiser, "max_grad_norm", 0.0),
        (Optimiser, "decay", 1.0),
        (Optimiser, "anneal_updates", 0),
        (Optimiser, "epsilon", 0.0),
        (Optimiser, "weight_decay", -1.0),
        (Replay, "sampler", "fifo"),
        (Replay, "samples_per_insert", 0.0),
        (Replay, "priority_exponent", 1.5),
        (Replay, "importance_exponent", 2.0),
        (Replay, "min_size", 10**9),
        (Torso, "kind", "resnet"),
        (Torso, "widths", (0,)),
        (Torso, "blocks", -1),
    ],
)
def test_groups_refuse_what_cannot_work(group, name, value):
    with pytest.raises(ValueError, match=f"agents.{group.__name__}: {name} is .*; it must be"):
        group(**{name: value})


def test_epsilon_follows_the_kind_of_optimiser():
    assert Optimiser("rmsprop").eps == 0.1
    assert Optimiser("adam").eps == 1e-8
    assert Optimiser("adam", epsilon=1e-5).eps == 1e-5


def test_a_torso_is_its_kinds_own_where_nothing_else_is_said():
    assert Torso("nature").resolved == Torso("nature", (512,), (32, 64, 64), (8, 4, 3), (4, 2, 1))
    assert Torso("minatar").resolved == Torso("minatar", (128,), (16,), (3,), (1,))
    assert Torso("deep", channels=(8,), blocks=3).resolved == Torso("deep", (256,), (8,), blocks=3)
    assert Torso("mlp", ()).resolved.widths == ()
    with pytest.raises(ValueError, match=r"Torso: kernels is None; it must be one number for each of 1 convolutions"):
        Torso("nature", channels=(8,))
    with pytest.raises(ValueError, match=r"Torso: channels is \(8, 8\); it must be one number where kind is 'tower'"):
        Torso("tower", channels=(8, 8))
