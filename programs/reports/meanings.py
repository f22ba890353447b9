"""The declarations of all metrics: what a page or a tool says of a metric in a row."""

from __future__ import annotations

import re

from boonta.agents import metrics as shared
from boonta.agents.dqn import metrics as dqn
from boonta.agents.impala import metrics as impala
from boonta.agents.metrics import Metric
from boonta.agents.muzero import metrics as muzero
from boonta.agents.ppo import metrics as ppo
from boonta.agents.r2d2 import metrics as r2d2
from boonta.agents.sac import metrics as sac
from boonta.agents.td3 import metrics as td3
from boonta.nodes.watch import declarations as nodes
from boonta.nodes.watch.rules import RULES

AGENTS = {
    "IMPALA": impala.METRICS,
    "MuZero": muzero.METRICS,
    "PPO": ppo.METRICS,
    "DQN": dqn.METRICS,
    "R2D2": r2d2.METRICS,
    "SAC": sac.METRICS,
    "TD3": td3.METRICS,
}
GROUPS = {
    "Counters": nodes.COUNTERS,
    "Rates": nodes.RATES,
    "Episodes of actors": nodes.EPISODES,
    "Evaluations": nodes.EVALUATION,
    "Learner": (*nodes.LEARNER, *shared.METRICS),
    **AGENTS,
    "Tables": nodes.TABLES,
    "Processes": nodes.PROCESSES,
    "Populations": nodes.POPULATION,
    "Health": nodes.HEALTH,
}
OF_ONE_NODE = re.compile(r"/[^/]+/\d+$")  # What several nodes measure has each one's value, too, as in loss/actor/1.


def declared(agent: str = "") -> list[Metric]:
    """All declarations; given the module of one of our agents, those that its runs have, and no other agent's."""
    own = next((title for title in AGENTS if title.lower() == agent.rpartition(".")[2]), None)
    titles = [title for title in GROUPS if own is None or title == own or title not in AGENTS]
    return [metric for title in titles for metric in GROUPS[title]]


def found(name: str, agent: str = "") -> list[Metric]:
    """The declarations of a metric in a row: several where agents call theirs the same, none if it is undeclared.

    Args:
      name: the metric's name.
      agent: the module of the run's agent; empty if it isn't known.
    """
    exact = [metric for metric in declared(agent) if metric.name == name]
    like = exact or [metric for metric in declared(agent) if _pattern(metric.name).fullmatch(name)][:1]
    of_all = OF_ONE_NODE.sub("", name)
    return like or ([] if of_all == name else found(of_all, agent))


def healthy(metric: Metric) -> str:
    """What is healthy, and which rules of health watch it."""
    rules = [rule.name for rule in RULES if metric.name in rule.reads]
    return ". ".join(part for part in (metric.healthy, rules and f"Watched: {', '.join(rules)}") if part)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("".join(".+" if part.startswith("<") else re.escape(part) for part in re.split(r"(<\w+>)", name)))
