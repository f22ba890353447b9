"""The environment and the settings of a run, by which runs are grouped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from boonta.nodes.snapshots import schema
from boonta.programs.experiments.curves import EVALUATED
from boonta.programs.wiring.run_folder.config_file import Config

NO_HYPER_PARAMETERS = ("member", "updates", "loss", "seed", "return")  # Other columns of members; see `EVALUATED`, too.
OF_POPULATIONS = ("members", "seeds", "vary")  # Settings that list the members, each of which has values of its own.
# Settings of environments that change none of their steps, and so make no other experiment; see `envs.base.SAME_STEPS`.
OF_NO_STEP = ("env.metrics", "env.num_threads", "env.workers")


def environment_of(config: Config) -> str:
    """The environment's name; for runs that haven't recorded it, from the command line."""
    if config.provenance is not None:
        return config.provenance.environment
    first = config.arguments[0] if config.arguments else "-"
    named = config.settings.get("game", config.program) if first.startswith("-") else first
    return str(named).replace("/", "-")


def settings_of(config: Config, environment: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was chosen for a learner, except its seed, by dotted name.

    The name of the game is that of the environment, and left out, so that the groups of a suite don't differ in it; and
    so is what changes no step of an environment.

    Args:
      config: the run's config.
      environment: the environment's name.
      row: the last row of the learner in a population; empty in any other run.
    """
    inner = config.inner if row else None
    settings = {
        name: value
        for name, value in schema.flattened(config.settings if inner is None else inner.settings).items()
        if name not in OF_NO_STEP
        and not (_may_name_game(name) and f"-{environment}".endswith(f"-{value}".replace("/", "-")))
    }
    settings["launch"] = config.run.get("launch", "")
    if config.run.get("start_from"):
        settings["start_from"] = f"{config.run['start_from']}, {config.run.get('start_which', 'newest')}"
    if inner is not None:
        own = inner.members[int(row["member"])]
        settings |= {f"config.{name}": value for name, value in own.items() if name != "seed"}
    elif row:
        settings = {name: value for name, value in settings.items() if name not in OF_POPULATIONS}
        for name in _hyper_parameters(row):
            settings[f"config.{name}" if f"config.{name}" in settings else name] = row[name]
    return settings


def _may_name_game(setting: str) -> bool:
    return "." not in setting or setting.startswith("env.")


def _hyper_parameters(row: Iterable[str]) -> list[str]:
    """The names of the hyper-parameters in a row of a population's member."""
    return [name for name in row if name not in NO_HYPER_PARAMETERS and not name.startswith(EVALUATED)]
