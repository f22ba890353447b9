"""MuZero as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from dm_env import specs

from boonta.agents import descent, encoders, heads, networks, optimisation
from boonta.agents.base import Agent, Nest, Table
from boonta.agents.config import require, require_sign
from boonta.agents.exploration import with_updates
from boonta.agents.muzero import history
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.loss import muzero_loss
from boonta.agents.muzero.networks import Model, Prediction, make_model
from boonta.agents.muzero.normalising import normalising
from boonta.agents.muzero.policy import Planner, make_policy
from boonta.agents.muzero.search import make_search
from boonta.agents.n_step import FreshErrors
from boonta.agents.normalisation import observation_statistics, with_moments
from boonta.agents.views import view_of
from boonta.envs.base import EnvSpec

B = 2  # Size of the batch that a whole model is checked with.


def make(
    config: Config,
    spec: EnvSpec,
    network: networks.MakeTorso | Model | None = None,
    loss: optimisation.AgentLoss = muzero_loss,
    optimiser: optax.GradientTransformation | None = None,
) -> Agent:
    """Makes a MuZero agent, which plans with a model that it learns from replayed sequences.

    See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265).
    It computes nothing and touches no device, since programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: spec of the environment.
      network: a network of your own. A torso takes the place of the config's representation, from frames [N, ..., L] to
        features [N, D], or [N, H, W, C] where the config's torso is a "tower": that is still the dynamics' kind. A
        `Model` is the whole. With `action_history` either takes stacks of `history.Seen` in the place of frames. None
        makes the config's.
      loss: a loss of your own, with the arguments of `muzero_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of the config's, with its
        clipping and schedule; these count its steps. None makes the config's.

    Returns:
      `Agent` with the tables of `make_tables`.

    Raises:
      ValueError: the model can't take the environment's actions or observations, or the config doesn't fit them; or an
        output of your own network doesn't fit, and the message says what it must be.
    """
    check(config, spec, network)
    view, num_actions = view_of(spec.observations), spec.actions.num_values
    model = network if isinstance(network, Model) else make_model(config, view, num_actions, network)
    renew = statistics = None
    if config.normalise_observations:
        model, loss, statistics = normalising(model), with_moments(loss), observation_statistics(spec)
    if config.reanalyze_ratio and config.reanalyze == "update":
        renew = make_search(config, model, num_actions, explore=True)
    update = optimisation.make_update(
        model.init,
        functools.partial(loss, model=model, config=config, search=renew),
        descent.chosen(config.optimiser, optimiser),
        target=optimisation.Target(period=config.target_period),
        statistics=statistics,
        published=lambda params, moments: params if statistics is None else (params, moments),
    )
    return Agent(
        policy=make_policy(Planner(config, model, spec, explore=True)),
        eval_policy=make_policy(Planner(config, model, spec, explore=False)),
        update=with_updates(update),
        tables=make_tables(config),
        network=networks.name_of(network),
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
    tables = (make_reanalyzed_table(config, period=config.roots, share=1.0),)
    return make(config, spec)._replace(tables=tables)


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
    """The tables by their share r of reanalyzed sequences; without reanalyzers there is only the first.

        trajectories  actors write it; the learner draws 1 - r of a batch from it, by `config.replay.sampler`
        past          it holds the same sequences, stored once; reanalyzers draw from it, uniformly
        reanalyzed    reanalyzers write a sequence for each that they read; the learner draws r of a batch, uniformly

    "past" draws uniformly because every state's targets are to be renewed; those whose error was large are drawn more
    often from "trajectories" anyway.

    "reanalyzed" is small, so that its targets stay new: n sequences that are drawn k times each hold the targets of
    about n k / (r B) updates, here 4 k / r. It ignores the sampler, because a sequence is gone before its error could
    be used.

    With r = 1 there is no "trajectories", and "past" sets the actors' pace: reanalyzers draw each of its sequences so
    often that it is learned from `samples_per_insert` times.
    """
    fresh = config.replay.table("trajectories", config.sequence_length, config.roots, fresh_errors(config))
    ratio = config.reanalyze_ratio
    if not ratio or config.reanalyze == "update":
        return (fresh,)
    reanalyzed = make_reanalyzed_table(config, period=config.sequence_length, share=ratio)
    past = dataclasses.replace(fresh, name="past", share=0.0, sampler="uniform", errors=None)
    if ratio == 1:
        often = config.replay.samples_per_insert
        draws = None if often is None else often / config.reanalyzed_samples
        return (dataclasses.replace(past, samples_per_insert=draws), reanalyzed)
    past = dataclasses.replace(past, samples_per_insert=None, min_size=1)
    return (dataclasses.replace(fresh, share=1 - ratio), past, reanalyzed)


def fresh_errors(config: Config) -> FreshErrors:
    """|v - G| of a sequence's roots by the values of the searches that acted, as MooZi's actors insert it."""
    return FreshErrors(
        discount=config.discount,
        length=config.bootstrap_length,
        roots=config.roots,
        context=config.context,
        estimate=1,  # Of `Extras`, whose first leaf is the policy.
        value=1,
        unit=config.support_limit,
    )


def check(config: Config, spec: EnvSpec, network: networks.MakeTorso | Model | None) -> None:
    """Refuses a config or a network that can't work in the environment, before anything runs.

    Raises:
      ValueError: the message names the field or the output, what it is, and what is allowed.
    """
    actions = heads.num_actions(spec.actions, "MuZero")
    view = view_of(spec.observations)
    if config.torso.kind == "tower" and not isinstance(view, specs.Array):
        raise ValueError(
            f"muzero.Config: torso.kind is 'tower', which takes observations of one array: take 'mlp'; this "
            f"environment gives {view}"
        )
    considered = config.max_considered_actions
    if considered is not None and considered > actions:
        raise ValueError(f"muzero.Config: max_considered_actions is {considered}, but there are {actions} actions")
    require_sign(config, spec.num_players)
    alone = "False for a game of two: in a match a side isn't told the other's actions"
    require(config, "action_history", spec.num_players == 1 or not config.action_history, alone)
    if isinstance(network, Model):
        check_model(network, config, view, actions)
    elif network is not None:
        check_torso(network, config, view, actions)
    else:
        encoders.check_observation(config.torso, view)


def check_torso(torso: networks.MakeTorso, config: Config, view: Nest, num_actions: int) -> None:
    """Refuses a torso whose features aren't of the kind that the config's dynamics takes. See `check`."""
    axes: networks.Axes = {"D": None}
    if config.torso.kind == "tower":
        axes = {"H": None, "W": None, "C": None}
        if config.action_planes == "place":
            encoders.check_image(config.torso, view.shape)
            axes = {"H": view.shape[0], "W": view.shape[1], "C": None}
    seen = history.spec_of(config, view, num_actions)
    networks.check_torso(torso, "muzero.Model", seen, config.frame_stack, axes)


def check_model(model: Model, config: Config, view: Nest, num_actions: int) -> None:
    """Refuses a whole model whose functions' outputs don't fit, or that lacks one. See `check`."""
    actions, bins, codes = num_actions + 1, config.support_bins, config.chance_codes
    with_chance = config.search == "stochastic"
    if with_chance != (model.chance is not None):
        wanted = "a ChanceModel where search is 'stochastic', and None elsewhere"
        raise ValueError(f"network: chance must be {wanted}, but is {model.chance}, and search is {config.search!r}")
    if config.consistency_cost and (model.project is None or model.foresee is None):
        raise ValueError(
            f"network: project and foresee must be functions where consistency_cost is {config.consistency_cost}; give "
            "both, or make that 0"
        )
    params = networks.trace("init", lambda _: model.init(jax.random.PRNGKey(0)), ())
    networks.require_params(params)
    stack = networks.frames(history.spec_of(config, view, num_actions), config.frame_stack, B)

    def float32(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def predicted(name: str, predict: Callable, state: jax.ShapeDtypeStruct, choices: networks.Axes) -> None:
        prediction = networks.trace(name, predict, params, state)
        if not isinstance(prediction, Prediction):
            raise ValueError(f"network: {name} must return a Prediction, but returns {networks.describe(prediction)}")
        networks.require_array(f"{name}'s logits", prediction.logits, {"B": B, **choices})
        networks.require_array(f"{name}'s value", prediction.value, {"B": B, "Z": bins})

    hidden = networks.trace("represent", model.represent, params, stack)
    networks.require_array("represent's hidden state", hidden, {"B": B}, more=True)
    predicted("predict", model.predict, hidden, {"A+1": actions})
    before, choice = hidden, float32(B, actions)
    if model.chance is not None:
        before = networks.trace("chance.afterstate", model.chance.afterstate, params, hidden, choice)
        networks.require_array("chance.afterstate's state", before, {"B": B}, more=True)
        predicted("chance.predict", model.chance.predict, before, {"C": codes})
        choice = networks.trace("chance.encode", model.chance.encode, params, stack)
        networks.require_array("chance.encode's probabilities", choice, {"B": B, "C": codes})
    moved = networks.trace("dynamics", model.dynamics, params, before, choice)
    if not (isinstance(moved, tuple) and len(moved) == 2):
        got = networks.describe(moved)
        raise ValueError(f"network: dynamics must return (hidden state, reward logits), but returns {got}")
    networks.require_same("dynamics' hidden state", moved[0], hidden, "represent's")
    networks.require_array("dynamics' reward", moved[1], {"B": B, "Z": bins})
    if config.consistency_cost and model.project is not None and model.foresee is not None:
        projection = networks.trace("project", model.project, params, hidden)
        networks.require_array("project's projection", projection, {"B": B, "D": None})
        foreseen = networks.trace("foresee", model.foresee, params, projection)
        networks.require_same("foresee's projection", foreseen, projection, "project's")
