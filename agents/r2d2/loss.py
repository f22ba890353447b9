"""R2D2's loss on sequences, in numbered steps.

See "Recurrent Experience Replay in Distributed Reinforcement Learning" (https://openreview.net/forum?id=r1lyTjAqYX),
section 2.3.

Glossary of shapes: B sequences, of L-1 rows of frames, a burn-in, R roots, and N rows to bootstrap from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from boonta.agents.base import Batch, Nest
from boonta.agents.heads import mask_illegal
from boonta.agents.light_rlax import rlax
from boonta.agents.n_step import ahead_of_roots, n_step, rescaled, sequence_error, unscaled
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.r2d2.config import Config
from boonta.agents.r2d2.networks import Network
from boonta.agents.recurrence import burn_in, inputs_as_acted
from boonta.agents.returns import importance_weights, mean_over
from boonta.agents.views import legal_of


def raw_of(config: Config) -> Callable[[jax.Array], jax.Array]:
    """The function from the network's values to returns."""
    return unscaled if config.rescale else lambda value: value


def r2d2_loss(
    params: Nest, context: Context, batch: Batch, *, network: Network, config: Config
) -> tuple[jax.Array, Outcome]:
    """Half the squared error of action values against double N-step targets.

    Args:
      params: params of `network`.
      context: target params, and the number of updates.
      batch: steps with leaves [L-1+burn-in+R+N, B, ...].
      network: as in `make_network`.
      config: hyper-parameters.

    Returns:
      The loss [], and the priorities [B] and metrics.
    """
    # 1. Both networks start from the stored state, which the burn-in brings up to date with their params.
    inputs, lstm, steps = inputs_as_acted(batch.steps, config.frame_stack)

    def unroll(params: Nest) -> jax.Array:
        rest, state = burn_in(network.unroll, params, inputs, lstm, config.burn_in)
        return network.unroll(params, rest, state)[0]  # [R+N, B, A]

    values, target_values = unroll(params), unroll(context.target_params)
    steps = jax.tree.map(lambda x: x[config.burn_in :], steps._replace(core=()))  # [R+N, B]
    # 2. The learned network chooses the actions that the target network values.
    legal = legal_of(steps.observation, values.shape)
    best = jnp.argmax(mask_illegal(jax.lax.stop_gradient(values), legal), axis=-1)
    bootstrap = raw_of(config)(_of(target_values, best))  # [R+N, B]
    moved = n_step(steps.step_type, steps.reward, steps.discount, config.discount, config.bootstrap_length)  # [R, B]
    ahead = functools.partial(ahead_of_roots, ahead=moved.ahead, length=config.bootstrap_length)
    returns = moved.reward + moved.discount * ahead(bootstrap)
    target = jax.lax.stop_gradient(rescaled(returns) if config.rescale else returns)
    # 3. Only the action that was taken learns; a root that is LAST doesn't count.
    chosen = _of(values[: config.roots], steps.action[: config.roots])
    error = target - chosen
    loss = rlax.l2_loss(error)
    if config.conservative_cost:
        soft = jax.nn.logsumexp(mask_illegal(values, legal)[: config.roots], axis=-1)
        loss += config.conservative_cost * (soft - chosen)
    learns = jnp.any(moved.mask > 0, axis=0)
    weights, beta = importance_weights(batch.probability, learns, context.updates, config.replay)  # [B]
    mean = mean_over(moved.mask)
    # 4. A sequence's priority is made of its roots' errors.
    priorities = jax.lax.stop_gradient(sequence_error(jnp.abs(error), moved.mask, config.priority_mix))
    metrics = {
        "value": mean(raw_of(config)(chosen)),
        "value_target": mean(returns),
        "value_error": mean(jnp.abs(error)),
        "importance_exponent": beta,
    }
    return mean(weights * loss), Outcome(priorities, metrics)


def _of(values: jax.Array, action: jax.Array) -> jax.Array:
    """The values of one action each: [T, B, A] -> [T, B]."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]
