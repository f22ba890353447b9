"""MuZero as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import dataclasses
import functools

from dm_env import specs

from boonta.agents import encoders, optimisation
from boonta.agents.base import Agent, Table
from boonta.agents.heads import make_action_head
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.loss import muzero_loss
from boonta.agents.muzero.networks import make_model
from boonta.agents.muzero.policy import make_policy, view_of
from boonta.agents.muzero.search import make_search
from boonta.envs.base import EnvSpec


def make(config: Config, spec: EnvSpec) -> Agent:
    """Makes a MuZero agent, which plans with a model that it learns from replayed sequences.

    See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265).
    It computes nothing and touches no device, since programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: spec of the environment.

    Returns:
      `Agent` with the tables of `make_tables`.

    Raises:
      ValueError: the model can't take the environment's actions or observations, or the config doesn't fit them.
    """
    check(config, spec)
    num_actions = spec.actions.num_values
    model = make_model(config, view_of(spec.observations), num_actions)
    explore = make_search(config, model, num_actions, explore=True)
    exploit = make_search(config, model, num_actions, explore=False)
    renew = explore if config.reanalyze_ratio and config.reanalyze == "update" else None
    loss = functools.partial(muzero_loss, model=model, config=config, search=renew)
    target = optimisation.Target(period=config.target_period)
    update = optimisation.make_update(model.init, loss, config.optimiser, target=target)
    return Agent(
        policy=make_policy(explore, spec, config.frame_stack),
        eval_policy=make_policy(exploit, spec, config.frame_stack, deterministic=True),
        update=update,
        tables=make_tables(config),
    )


def make_unplugged(config: Config, spec: EnvSpec) -> Agent:
    """Makes the agent that learns from recorded trajectories: reanalyzers fill its only table, "reanalyzed".

    See "Online and Offline Reinforcement Learning by Planning with a Learned Model" (MuZero Unplugged,
    https://arxiv.org/abs/2104.06294).

    Args:
      config: hyper-parameters.
      spec: spec of the recorded environment.

    Raises:
      ValueError: as in `make`; or `reanalyze_ratio` isn't 0, although there are no fresh sequences.
    """
    if config.reanalyze_ratio:
        raise ValueError(
            f"muzero.Config: reanalyze_ratio is {config.reanalyze_ratio}; unplugged, all sequences are reanalyzed: "
            "leave it 0"
        )
    # Reanalyzers replay whole episodes, which are cut in the same way as an actor's.
    return make(config, spec)._replace(tables=(make_reanalyzed_table(config, period=config.roots, share=1.0),))


def make_reanalyzed_table(config: Config, period: int, share: float) -> Table:
    """The table that reanalyzers write to; it keeps only the newest targets, those of four batches. See `make_tables`.

    Args:
      config: hyper-parameters.
      period: raw steps between the starts of two sequences.
      share: the table's share of an update's sequences.
    """
    return Table(
        name="reanalyzed",
        kind="replay",
        sequence_length=config.sequence_length,
        period=period,
        batch_size=config.replay.batch_size,
        size=4 * config.replay.batch_size,
        sampler="uniform",
        samples_per_insert=config.reanalyzed_samples,
        min_size=config.replay.batch_size,
        writer="reanalyzer",
        share=share,
    )


def make_tables(config: Config) -> tuple[Table, ...]:
    """One table, "trajectories"; three if reanalyzers take part.

    Reanalyzers read "past", which holds the same sequences as "trajectories", in the same chunks under other items, so
    that nothing is stored twice. It draws uniformly: every state's targets are to be renewed, and those whose error was
    large are drawn more often from "trajectories" anyway. They write a sequence to "reanalyzed" for each that they
    read.

    "reanalyzed" draws uniformly, too, whatever `config.replay.sampler` is. A priority is the error of a target that is
    kept; these are kept for a few updates only, so that by the time an error is known its sequence is nearly gone, and
    another one with the same steps and newer targets may come. It is small for the same reason: a table of n
    sequences that are drawn k times each holds targets of about n k / (r B) updates, here 4 k / r.
    """
    fresh = Table(
        name="trajectories",
        kind="replay",
        sequence_length=config.sequence_length,
        period=config.roots,
        batch_size=config.replay.batch_size,
        size=config.replay.size,
        sampler=config.replay.sampler,
        priority_exponent=config.replay.priority_exponent,
        samples_per_insert=config.replay.samples_per_insert,
        min_size=config.replay.min_size,
    )
    ratio = config.reanalyze_ratio
    if not ratio or config.reanalyze == "update":
        return (fresh,)
    fresh = dataclasses.replace(fresh, share=1 - ratio)
    past = dataclasses.replace(fresh, name="past", share=0.0, sampler="uniform", samples_per_insert=None, min_size=1)
    return (fresh, past, make_reanalyzed_table(config, period=config.sequence_length, share=ratio))


def check(config: Config, spec: EnvSpec) -> None:
    """Refuses a config that can't work in the environment, before anything runs.

    Raises:
      ValueError: the message names the field, its value and the allowed values.
    """
    make_action_head(spec.actions, "MuZero")
    view = view_of(spec.observations)
    if not isinstance(view, specs.Array):
        raise ValueError(f"MuZero takes observations of one array; this environment gives {view}")
    encoders.check_observation(config.torso, view)
    considered = config.max_considered_actions
    if considered is not None and considered > spec.actions.num_values:
        raise ValueError(
            f"muzero.Config: max_considered_actions is {considered}, but there are {spec.actions.num_values} actions"
        )
    two = spec.num_players == 2
    if two != (config.discount < 0):
        raise ValueError(
            f"muzero.Config: discount is {config.discount}; for a game of {spec.num_players} player(s) it must be "
            + ("below 0, since what is good for one is bad for the other" if two else "above 0")
        )
