"""MuZero's loss, in numbered steps.

See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265), Eq. 1
and Appendix G; self-consistency after "Mastering Atari Games with Limited Data" (EfficientZero,
https://arxiv.org/abs/2111.00210), Eq. 3; chance after "Planning in Stochastic Environments with a Learned Model"
(Stochastic MuZero, https://openreview.net/forum?id=X6D9bAHhBQ1), section 4.3.

Glossary of shapes: B sequences, R roots of each, K model steps from each root, L frames of a stack. M rows of a
sequence count: the roots, the rows that they are unrolled into, and those that targets bootstrap from. A real actions,
to which the model adds the dummy action; Z categories of a value or reward; C chance codes; D features.

Batch and roots are folded together, N = B * R, and come first: a batch split over devices stays split.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents.base import Batch, Nest, Steps
from boonta.agents.heads import expectation, make_support
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.history import recall
from boonta.agents.muzero.networks import Model
from boonta.agents.muzero.reanalyze import reanalyze
from boonta.agents.muzero.search import Search
from boonta.agents.muzero.targets import Targets, make_targets
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.returns import importance_weights, mean_over, value_targets
from boonta.agents.sequences import folded
from boonta.envs.base import LAST


class Chance(NamedTuple):
    """The predictions of a model with chance for K steps.

    Attributes:
      code: float32 [N, K, C], logits of the chance codes, predicted from the afterstates.
      value: float32 [N, K, Z], logits of the afterstates' values.
      encoding: float32 [N, K, C], probabilities of the codes, encoded from the next observation.
    """

    code: jax.Array
    value: jax.Array
    encoding: jax.Array


class Unroll(NamedTuple):
    """The model's predictions for N roots and the K states after each.

    Attributes:
      policy: float32 [N, K+1, A+1], logits.
      value: float32 [N, K+1, Z], logits.
      reward: float32 [N, K, Z], logits of the rewards of the steps between.
      hidden: [N, K+1, ...], the hidden states.
      chance: `Chance`, or None.
    """

    policy: jax.Array
    value: jax.Array
    reward: jax.Array
    hidden: jax.Array
    chance: Chance | None


def muzero_loss(
    params: Nest, context: Context, batch: Batch, *, model: Model, config: Config, search: Search | None = None
) -> tuple[jax.Array, Outcome]:
    """The loss of Eq. 1 over K model steps from each root.

    Args:
      params: params of `model`.
      context: target params, number of updates, and the key for reanalyzing.
      batch: steps with leaves [`config.context` + M, B, ...]; M is the sum of R, K and the bootstrap length.
      model: the model, from `make_model`.
      config: hyper-parameters.
      search: the actors' search, which renews targets, see `agents.muzero.reanalyze`; None keeps them.

    Returns:
      The loss [], and as auxiliary output the priorities [B] and the metrics. A priority is a sequence's mean
      |value - target| (Appendix G) in units of the support's limit, so that 1 is large.
    """
    support = make_support(config.support_limit, config.support_bins)
    # 1. Rows are stacked as in acting; the context, which only fills the stacks, is dropped.
    stack, steps = recall(config, batch.steps)  # [M, B, ..., L], [M, B, ...]
    if search is not None:
        steps = reanalyze(context.target_params, context.key, stack, steps, search=search, config=config)
    # 2. Targets are made for rows, then for windows.
    bootstrap = _bootstrap_values(context.target_params, stack, steps, model, config)  # [M, B]
    returns = value_targets(steps, bootstrap, config.discount, config.bootstrap_length, config.trace_lambda)
    targets = make_targets(steps, returns, policy_targets(steps, config), config.roots, config.unroll_length)
    targets = jax.tree.map(_fold, targets)  # [N, K+1, ...]
    # 3. The model follows the recorded actions.
    unroll = unroll_model(params, stack, targets.action, model, targets.policy.shape[-1] - 1)
    # 4. Each state has its losses; those that belong to steps are 0 at the root.
    losses, costs = _losses(params, unroll, targets, stack, model, config)
    # 5. The root counts as much as the K states after it together; states beyond a truncation don't count.
    share = jnp.full(config.unroll_length + 1, 1 / config.unroll_length).at[0].set(1.0)
    of_root = {name: jnp.sum(share * targets.mask * loss, axis=1) for name, loss in losses.items()}  # [N]
    # 6. Sequences drawn with a higher probability count less.
    learns = jnp.ones_like(batch.probability, bool)  # A root is always learned from.
    importance, beta = importance_weights(batch.probability, learns, context.updates, config.replay)  # [B]
    means = {name: jnp.mean(jnp.repeat(importance, config.roots) * loss) for name, loss in of_root.items()}
    # 7. The errors of the roots' values are the sequence's priority.
    value = expectation(support, unroll.value[:, 0])  # [N]
    error = jnp.abs(value - targets.value[:, 0]).reshape(-1, config.roots)  # [B, R]
    entropy = jax.scipy.special.entr(steps.extras.policy).sum(-1)  # [M, B]
    metrics = means | {
        "value": jnp.mean(value),
        "value_target": jnp.mean(targets.value[:, 0]),
        "value_error": jnp.mean(error),
        "hidden_deviation": _deviation(unroll.hidden[:, 0]),
        "search_entropy": mean_over(steps.step_type != LAST)(entropy),
        "importance_exponent": beta,
        **_largest(targets, config.support_limit),
    }
    loss = jnp.sum(jnp.stack([costs[name] * mean for name, mean in means.items()]))
    return loss, Outcome(jnp.mean(error, axis=1) / config.support_limit, metrics)


def _losses(
    params: Nest, unroll: Unroll, targets: Targets, stack: Nest, model: Model, config: Config
) -> tuple[dict[str, jax.Array], dict[str, float]]:
    """The losses by name, float32 [N, K+1], and their weights; those that belong to steps are 0 at the root."""
    support = make_support(config.support_limit, config.support_bins)
    losses = {
        "policy_loss": optax.softmax_cross_entropy(unroll.policy, targets.policy),
        "value_loss": optax.softmax_cross_entropy(unroll.value, support.apply(targets.value)),
        "reward_loss": _after_root(optax.softmax_cross_entropy(unroll.reward, support.apply(targets.reward))),
    }
    costs = {"policy_loss": config.policy_cost, "value_loss": config.value_cost, "reward_loss": config.reward_cost}
    if config.consistency_cost:
        # A predicted hidden state must resemble the representation of the observation that followed.
        compared = consistency_loss(params, unroll.hidden, stack, model, config.roots)
        losses["consistency_loss"] = _after_root(compared * targets.real[:, 1:])
        costs["consistency_loss"] = config.consistency_cost
    if unroll.chance:
        losses["chance_loss"] = _after_root(chance_loss(unroll.chance))
        losses["afterstate_loss"] = _after_root(
            optax.softmax_cross_entropy(unroll.chance.value, support.apply(targets.value[:, :-1]))
        )
        costs |= {"chance_loss": config.chance_cost, "afterstate_loss": config.value_cost}
    return losses, costs


def _deviation(hidden: jax.Array) -> jax.Array:
    """How far hidden states [N, ...] are from their mean, as a share of the range of all their numbers."""
    return jnp.mean(jnp.std(hidden, axis=0)) / (jnp.max(hidden) - jnp.min(hidden) + 1e-8)


def _largest(targets: Targets, limit: float) -> dict[str, jax.Array]:
    """Metrics of how the largest targets compare with the support's limit."""
    largest = jnp.maximum(jnp.abs(targets.value), _after_root(jnp.abs(targets.reward))) * targets.mask  # [N, K+1]
    return {
        "largest_target": jnp.max(largest),
        "largest_target_share": jnp.max(largest) / limit,
        "outside_support": jnp.mean(largest > limit),
    }


def policy_targets(steps: Steps, config: Config) -> jax.Array:
    """The target of the policy for each row: float32 [M, B, A].

    It is the search's policy, or the recorded action; then it is zeros on LAST, where the environment ignores the
    action.
    """
    if config.policy_target == "search":
        return steps.extras.policy
    action = jax.nn.one_hot(steps.action, steps.extras.policy.shape[-1])
    return jnp.where((steps.step_type == LAST)[..., None], 0.0, action)


def unroll_model(params: Nest, stack: Nest, action: jax.Array, model: Model, num_actions: int) -> Unroll:
    """Represents the roots and follows their actions.

    Args:
      params: params of the model.
      stack: nest [M, B, ..., L]; the first R rows are the roots, and the other rows follow them.
      action: int32 [B * R, K].
      model: the model, from `make_model`.
      num_actions: A; the action of that number is the dummy.
    """
    roots = action.shape[0] // jax.tree.leaves(stack)[0].shape[1]

    def fold_rows(start: int) -> Nest:
        """The R rows from `start` on, [N, ..., L]."""
        return folded(jax.tree.map(lambda x: x[start : start + roots], stack))

    seen = fold_rows(0)
    hidden = model.represent(params, seen)  # [N, ...]
    hiddens, rewards, chances = [hidden], [], []
    for k in range(action.shape[1]):
        # Half the gradient at each step: the model's depth must not multiply it (Appendix G).
        hidden = optax.scale_gradient(hidden, 0.5)
        choice = jax.nn.one_hot(action[:, k], num_actions + 1)
        if model.chance:
            hidden = model.chance.afterstate(params, hidden, choice)
            # After the dummy action the stack has frames of the next episode, so the last ones of this one are kept.
            ended = action[:, k] == num_actions
            seen = jax.tree.map(functools.partial(_choose, ended), seen, fold_rows(k + 1))
            encoding = model.chance.encode(params, seen)  # [N, C]
            code_logits, value = model.chance.predict(params, hidden)
            chances.append(Chance(code_logits, value, encoding))
            # The code is one-hot; its gradient goes straight through to the encoding.
            choice = _code(encoding) + encoding - jax.lax.stop_gradient(encoding)
        hidden, reward = model.dynamics(params, hidden, choice)
        hiddens.append(hidden)
        rewards.append(reward)
    hidden = jnp.stack(hiddens, axis=1)  # [N, K+1, ...]
    prediction = _each(lambda x: model.predict(params, x), hidden)
    chance = jax.tree.map(lambda *x: jnp.stack(x, axis=1), *chances) if chances else None
    return Unroll(prediction.logits, prediction.value, jnp.stack(rewards, axis=1), hidden, chance)


def consistency_loss(params: Nest, hidden: jax.Array, stack: Nest, model: Model, roots: int) -> jax.Array:
    """Cosine distance between predicted hidden states and those of the observations, which get no gradient.

    See EfficientZero's Eq. 3, after "Exploring Simple Siamese Representation Learning"
    (https://arxiv.org/abs/2011.10566).

    Args:
      params: params of the model.
      hidden: [N, K+1, ...], the unrolled hidden states.
      stack: nest [M, B, ..., L].
      model: the model, from `make_model`.
      roots: R.

    Returns:
      float32 [N, K], in [0, 2].
    """
    project, foresee = model.project, model.foresee
    assert project is not None and foresee is not None
    length = hidden.shape[1] - 1
    # The roots after the first are represented already.
    known = hidden[:, 0].reshape(-1, roots, *hidden.shape[2:])[:, 1:]  # [B, R-1, ...]
    rows = jax.tree.map(lambda x: jnp.swapaxes(x[roots : roots + length], 0, 1), stack)  # [B, K, ..., L]
    later = _each(lambda x: model.represent(params, x), rows)
    observed = _each(lambda x: project(params, x), jnp.concatenate([known, later], axis=1))  # [B, R+K-1, D]
    windows = jnp.stack([observed[:, k : k + roots] for k in range(length)], axis=2)  # [B, R, K, D]
    foreseen = _each(lambda x: foresee(params, project(params, x)), hidden[:, 1:])  # [N, K, D]
    return optax.cosine_distance(foreseen, jax.lax.stop_gradient(windows.reshape(foreseen.shape)), epsilon=1e-6)


def chance_loss(chance: Chance) -> jax.Array:
    """Loss of the predicted codes and of their encoding: float32 [N, K].

    Stochastic MuZero, section 4.3: the cross-entropy of the code, and the encoder's distance from its own choice.
    """
    code = _code(chance.encoding)
    return optax.softmax_cross_entropy(chance.code, code) + jnp.sum((code - chance.encoding) ** 2, axis=-1)


def _code(encoding: jax.Array) -> jax.Array:
    """The likeliest code, one-hot [..., C], without a gradient."""
    return jax.nn.one_hot(jnp.argmax(encoding, axis=-1), encoding.shape[-1])


def _bootstrap_values(target_params: Nest, stack: Nest, steps: Steps, model: Model, config: Config) -> jax.Array:
    """The values [M, B] from which targets bootstrap."""
    if config.value_target == "search":
        return steps.extras.value
    rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), stack)  # [B, M, ..., L]
    logits = _each(lambda x: model.predict(target_params, model.represent(target_params, x)).value, rows)
    return jax.lax.stop_gradient(expectation(make_support(config.support_limit, config.support_bins), logits)).T


def _each(function: Callable[[Nest], Nest], x: Nest) -> Nest:
    """Applies a function of a nest [B * M, ...] to the nest x [B, M, ...]."""
    outputs = function(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), x))
    batch = jax.tree.leaves(x)[0].shape[:2]
    return jax.tree.map(lambda y: y.reshape(*batch, *y.shape[1:]), outputs)


def _choose(condition: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """The rows of x [N, ...] where condition [N] holds, elsewhere those of y."""
    return jnp.where(condition.reshape(-1, *(1,) * (x.ndim - 1)), x, y)


def _fold(x: jax.Array) -> jax.Array:
    """[K, R, B, ...] -> [B * R, K, ...]."""
    x = jnp.moveaxis(x, 0, 2).swapaxes(0, 1)  # [B, R, K, ...]
    return x.reshape(-1, *x.shape[2:])


def _after_root(loss: jax.Array) -> jax.Array:
    """Assigns the losses of K steps [N, K] to the states they lead to, [N, K+1]; the root's is 0."""
    return jnp.pad(loss, ((0, 0), (1, 0)))
