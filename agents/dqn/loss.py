"""DQN's loss on N-step transitions, in numbered steps.

See "Human-level control through deep reinforcement learning" (https://doi.org/10.1038/nature14236), and "Rainbow:
Combining Improvements in Deep Reinforcement Learning" (https://arxiv.org/abs/1710.02298), section 3.

Glossary of shapes: B sequences, R roots of each, N steps to the row that a root bootstraps from; a sequence has R + N
rows after its context. Roots and batch are folded together, M = B * R.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Batch, Nest
from boonta.agents.dqn.config import Config
from boonta.agents.dqn.networks import Network
from boonta.agents.dqn.values import Target, expected, losses
from boonta.agents.heads import mask_illegal
from boonta.agents.n_step import ahead_of_roots, n_step, sequence_error
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.returns import clipped, importance_weights, mean_over
from boonta.agents.views import legal_of, view_of


def dqn_loss(
    params: Nest, context: Context, batch: Batch, *, network: Network, num_actions: int, config: Config
) -> tuple[jax.Array, Outcome]:
    """The loss of action values against N-step targets of the target network.

    Args:
      params: params of `network`.
      context: target params, number of updates, and the key of noise and fractions.
      batch: steps with leaves [L-1+R+N, B, ...].
      network: as in `make_network`.
      num_actions: A.
      config: hyper-parameters.

    Returns:
      The loss [], and the priorities [B] and metrics.
    """
    # 1. Frames are stacked as in acting; rewards add up to the row to bootstrap from.
    stack = sequences.stack(view_of(batch.steps.observation), batch.steps.step_type, config.frame_stack)  # [R+N, B]
    steps = sequences.drop_context(batch.steps, config.frame_stack)
    reward = clipped(steps.reward, config.reward_clip)
    moved = n_step(steps.step_type, reward, steps.discount, config.discount, config.bootstrap_length)  # [R, B]
    seen = (stack, legal_of(steps.observation, (*steps.reward.shape, num_actions)))
    ahead = functools.partial(ahead_of_roots, ahead=moved.ahead, length=config.bootstrap_length)
    (later, later_legal), (roots, legal), action, moved = sequences.folded(
        (jax.tree.map(ahead, seen), *jax.tree.map(lambda x: x[: config.roots], (seen, steps.action)), moved)
    )
    # 2. The target network values the next action, which with double Q-learning the learned network chooses.
    key, target_key, choice_key = jax.random.split(context.key, 3)
    outputs = network.apply(params, key, roots)  # [M, A, Z]
    next_outputs = network.apply(context.target_params, target_key, later)
    chooser = network.apply(jax.lax.stop_gradient(params), choice_key, later) if config.double else next_outputs
    next_action = jnp.argmax(mask_illegal(expected(config, chooser.values), later_legal), axis=-1)
    target = Target(moved.reward, moved.discount, _of(next_outputs.values, next_action))
    # 3. Only the action that was taken learns.
    values = _of(outputs.values, action)  # [M, Z]
    loss, error = losses(config, values, outputs.tau, target)
    if config.conservative_cost:
        best = jax.nn.logsumexp(mask_illegal(expected(config, outputs.values), legal), axis=-1)
        loss += config.conservative_cost * (best - expected(config, values))
    # 4. Sequences drawn with a higher probability count less; a root that is LAST doesn't count.
    learns = jnp.any(moved.mask.reshape(-1, config.roots) > 0, axis=1)
    weights, beta = importance_weights(batch.probability, learns, context.updates, config.replay)  # [B]
    mean = mean_over(moved.mask)
    wanted = moved.reward + moved.discount * expected(config, target.values)
    metrics = {
        "value": mean(expected(config, values)),
        "value_target": mean(wanted),
        "value_error": mean(jnp.abs(wanted - expected(config, values))),
        "reward": jnp.mean(reward),
        "importance_exponent": beta,
    }
    if config.distribution == "categorical":
        share = jnp.abs(wanted) * moved.mask / config.support_limit
        metrics |= {"largest_target_share": jnp.max(share), "outside_support": mean(share > 1)}
    error, mask = (x.reshape(-1, config.roots).T for x in (error, moved.mask))  # [R, B]
    priorities = sequence_error(error, mask, 0.0)
    return mean(jnp.repeat(weights, config.roots) * loss), Outcome(priorities, metrics)


def _of(values: jax.Array, action: jax.Array) -> jax.Array:
    """The numbers of one action each: [M, A, Z] -> [M, Z]."""
    return jnp.take_along_axis(values, action[:, None, None], axis=1)[:, 0]
