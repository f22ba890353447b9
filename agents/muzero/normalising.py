"""Observations normalised by their running moments, which the model then takes beside its params.

A layer that is normalised over its own example keeps what all examples share, see `agents.muzero.networks`. Where
frames differ in few pixels that is nearly all of a hidden state, and learning makes it more: the states become one, and
nothing is learned from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boonta.agents.base import Nest
from boonta.agents.muzero.history import Seen
from boonta.agents.muzero.networks import ChanceModel, Model
from boonta.agents.normalisation import Moments, normalise_stack


def normalising(model: Model) -> Model:
    """The same model, whose functions take `(params, moments)` as params, and which normalises the frames that it sees.

    Its `init` still makes params alone.
    """

    def unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda params, *inputs: function(params[0], *inputs)

    def seeing(function: Callable[[Nest, Nest], Any]) -> Callable[[Nest, Nest], Any]:
        def see(params: tuple[Nest, Moments], stack: Nest) -> Any:
            own, moments = params
            if isinstance(stack, Seen):
                return function(own, stack._replace(view=normalise_stack(stack.view, moments)))
            return function(own, normalise_stack(stack, moments))

        return see

    chance = model.chance and ChanceModel(
        afterstate=unchanged(model.chance.afterstate),
        predict=unchanged(model.chance.predict),
        encode=seeing(model.chance.encode),
    )
    return model._replace(
        represent=seeing(model.represent),
        predict=unchanged(model.predict),
        dynamics=unchanged(model.dynamics),
        project=model.project and unchanged(model.project),
        foresee=model.foresee and unchanged(model.foresee),
        chance=chance,
    )
