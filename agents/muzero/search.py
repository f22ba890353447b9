"""Planning with the model: mctx's searches, set up by the config.

See https://github.com/google-deepmind/mctx.

The dummy action. The model does not know where an episode ends, so a search would go on past the end, through states
that the model never learned. Therefore the model learns a dummy action for the time after the end: it leads from one
absorbing state to the next, with value 0 (MooZi, section 5.3.3). The search uses it as a switch: a state whose policy
gives it more than half of the probability has ended, and has no other action; any other state does not have it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx

from boonta.agents.base import Nest
from boonta.agents.exploration import randomise
from boonta.agents.heads import expectation, make_support
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.groups import SelfPlay
from boonta.agents.muzero.networks import Model

# The stochastic search of mctx 0.0.5 asks for `jax.tree.map` by an old name, which JAX no longer has. It stays, for
# another thread may trace meanwhile. mctx 0.0.71 uses the new one, and asks for CPython 3.11: this is needless once
# Boonta no longer runs on 3.10.
if not hasattr(jax, "tree_map"):
    jax.tree_map = jax.tree.map  # type: ignore[attr-defined]


class Planned(NamedTuple):
    """The results of a search for B states.

    Attributes:
      action: int32 [B], the action to take.
      policy: float32 [B, A], the improved policy over the real actions, which the network learns.
      value: float32 [B], the value of the state under that policy.
      tree: mctx's search tree, for inspection.
    """

    action: jax.Array
    policy: jax.Array
    value: jax.Array
    tree: Any


class Noise(NamedTuple):
    """How much the search of each slot explores.

    Attributes:
      temperature: float32 [B]; "puct" and "stochastic" draw the action by visits ** (1 / temperature).
      scale: float32 [B], in [0, 1], by which the noise at the root and the share of random actions are multiplied.
    """

    temperature: jax.Array | float
    scale: jax.Array | float


NO_NOISE = Noise(0.0, 0.0)


class Search(Protocol):
    """A search for B states."""

    def __call__(
        self, params: Nest, key: jax.Array, stack: Nest, legal: jax.Array, noise: Noise | None = None
    ) -> Planned:
        """Searches.

        Args:
          params: params of the model.
          key: PRNG key, consumed.
          stack: nest [B, ..., L], what the network sees, see `agents.muzero.history`.
          legal: bool [B, A].
          noise: how much to explore, if the search does; None is as much as in the first slot, before any update.
        """


def noise_of(settings: SelfPlay, env_steps: jax.Array, rung: jax.Array) -> Noise:
    """The noise of each slot, from the first, which has all of it, to the last.

    The temperature falls with env steps, as epsilons do, see `exploration.epsilon_of`; MuZero's, Appendix D, with
    updates.

    Args:
      settings: the temperatures and the spread over slots.
      env_steps: float32 [], the learner's updates times `policy.env_steps_per_update`.
      rung: float32 [B], as from `exploration.rungs`.
    """
    part = jnp.sum(env_steps >= jnp.asarray(settings.temperature_steps, jnp.float32))
    scale = 1 - settings.spread * rung
    return Noise(jnp.asarray(settings.temperature, jnp.float32)[part] * scale, scale)


def make_search(config: Config, model: Model, num_actions: int, explore: bool) -> Search:
    """Makes a search.

    Args:
      config: hyper-parameters; they choose the search, the number of simulations and the noise.
      model: the model, from `make_model`.
      num_actions: A, the number of real actions; the dummy action is one more.
      explore: whether to explore, as actors do; otherwise there is no noise, and the likeliest action is taken.
    """
    plan, scalar = _make_plan(config, model, num_actions), _make_scalar(config)
    num_simulations = config.num_simulations if explore else config.eval_simulations or config.num_simulations

    def search(params: Nest, key: jax.Array, stack: Nest, legal: jax.Array, noise: Noise | None = None) -> Planned:
        chex.assert_shape(legal, (jax.tree.leaves(stack)[0].shape[0], num_actions))
        noise = noise_of(config.self_play, jnp.float32(0), jnp.zeros(len(legal))) if noise is None else noise
        within = jax.tree.map(lambda x: x[:, None], noise) if explore else NO_NOISE  # [B, 1].
        if not explore:
            key = jax.random.PRNGKey(0)  # It breaks ties, here in the same way whatever the caller's key.
        key, stray_key = jax.random.split(key)
        hidden = model.represent(params, stack)
        prediction = model.predict(params, hidden)
        root: Any = mctx.RootFnOutput(prior_logits=prediction.logits, value=scalar(prediction.value), embedding=hidden)
        out = plan(
            params,
            key,
            root,
            within,
            num_simulations=num_simulations,
            invalid_actions=jnp.pad(~legal, ((0, 0), (0, 1)), constant_values=True).astype(jnp.float32),
        )
        policy = out.action_weights[:, :num_actions]
        value = policy_value(policy, out.search_tree.summary(), num_actions)
        action = out.action.astype(jnp.int32)
        if explore and config.self_play.random_actions:
            action = randomise(stray_key, action, legal, config.self_play.random_actions * noise.scale)
        return Planned(action, policy, value, out.search_tree)

    return search


def _make_plan(config: Config, model: Model, num_actions: int) -> Callable[..., Any]:
    """The policy of mctx that the config chooses.

    It is `(params, key, root, noise, num_simulations=, invalid_actions=) -> mctx.PolicyOutput`, whose noise has leaves
    [B, 1] or [].
    """
    recurrent, decide, happen = _make_steps(config, model, num_actions)

    def with_noise(key: jax.Array, root: Any, noise: Noise, invalid_actions: jax.Array) -> tuple[jax.Array, Any]:
        key, noise_key = jax.random.split(key)
        share = config.puct.dirichlet_fraction * noise.scale
        mixed = add_noise(noise_key, root.prior_logits, invalid_actions > 0, config.puct.dirichlet_alpha, share)
        return key, root.replace(prior_logits=mixed)

    def puct_of(noise: Noise) -> dict[str, Any]:
        return {
            "dirichlet_fraction": 0.0,  # The root has its noise already.
            "temperature": noise.temperature,
            "pb_c_init": config.puct.pb_c_init,
            "pb_c_base": config.puct.pb_c_base,
        }

    def gumbel(params: Nest, key: jax.Array, root: Any, noise: Noise, **common: Any) -> Any:
        return mctx.gumbel_muzero_policy(
            params,
            key,
            root,
            recurrent,
            max_num_considered_actions=config.max_considered_actions or min(16, num_actions),
            gumbel_scale=noise.scale,
            qtransform=functools.partial(mctx.qtransform_completed_by_mix_value, epsilon=config.min_value_range),
            **common,
        )

    def puct(params: Nest, key: jax.Array, root: Any, noise: Noise, **common: Any) -> Any:
        key, root = with_noise(key, root, noise, common["invalid_actions"])
        return mctx.muzero_policy(params, key, root, recurrent, **common, **puct_of(noise))

    def stochastic(params: Nest, key: jax.Array, root: Any, noise: Noise, **common: Any) -> Any:
        key, root = with_noise(key, root, noise, common["invalid_actions"])
        return mctx.stochastic_muzero_policy(params, key, root, decide, happen, **common, **puct_of(noise))

    return {"gumbel": gumbel, "puct": puct, "stochastic": stochastic}[config.search]


def _make_steps(config: Config, model: Model, num_actions: int) -> tuple[Callable[..., Any], ...]:
    """The steps of a search's simulations, as mctx calls them: by an action; to its afterstate; and by a chance code.

    The second and third are of a model with chance.
    """
    scalar = _make_scalar(config)

    def one_hot(action: jax.Array, hidden: jax.Array) -> jax.Array:
        return jax.nn.one_hot(action, num_actions + 1, dtype=hidden.dtype)

    def follow(params: Nest, hidden: jax.Array, choice: jax.Array) -> tuple[mctx.RecurrentFnOutput, jax.Array]:
        hidden, reward = model.dynamics(params, hidden, choice)
        prediction = model.predict(params, hidden)
        out = mctx.RecurrentFnOutput(
            reward=scalar(reward),
            discount=jnp.full(hidden.shape[:1], config.discount),
            prior_logits=switch_dummy(prediction.logits),
            value=scalar(prediction.value),
        )
        return out, hidden

    def recurrent(params: Nest, key: jax.Array, action: Any, hidden: Any) -> tuple[Any, Any]:
        del key
        return follow(params, hidden, one_hot(action, hidden))

    def decide(params: Nest, key: jax.Array, action: Any, hidden: Any) -> tuple[Any, Any]:
        del key
        assert model.chance is not None
        hidden = model.chance.afterstate(params, hidden, one_hot(action, hidden))
        prediction = model.chance.predict(params, hidden)
        value = scalar(prediction.value)
        return mctx.DecisionRecurrentFnOutput(chance_logits=prediction.logits, afterstate_value=value), hidden

    def happen(params: Nest, key: jax.Array, code: Any, hidden: Any) -> tuple[Any, Any]:
        del key
        out, hidden = follow(params, hidden, jax.nn.one_hot(code, config.chance_codes))
        logits = out.prior_logits
        return mctx.ChanceRecurrentFnOutput(
            action_logits=logits, value=out.value, reward=out.reward, discount=out.discount
        ), hidden

    return recurrent, decide, happen


def _make_scalar(config: Config) -> Callable[[jax.Array], jax.Array]:
    """The value [B] of logits [B, Z] over the config's support."""
    support = make_support(config.support_limit, config.support_bins)
    return lambda logits: expectation(support, logits)


def add_noise(
    key: jax.Array, logits: jax.Array, invalid: jax.Array, alpha: float, share: jax.Array | float
) -> jax.Array:
    """Mixes Dirichlet noise over the valid actions into the root's prior over them: logits, float32 [B, A + 1].

    mctx would mix it over all actions and remove the invalid ones then. Many invalid actions would leave little of the
    noise, and little of the prior would be left beside it where the network expects the dummy action.

    Args:
      key: PRNG key, consumed.
      logits: float32 [B, A + 1], the prior's.
      invalid: bool [B, A + 1]; where all are, the result doesn't matter, but is finite.
      alpha: parameter of the noise.
      share: the noise's share of the result, [B, 1] or [].
    """
    lowest = jnp.finfo(logits.dtype).min

    def over_valid(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.where(invalid, lowest, x), axis=-1)

    # Gamma variates over their sum are Dirichlet's. In logarithms, since all of them may be too small for a float.
    noise = over_valid(jax.random.loggamma(key, alpha, logits.shape, logits.dtype))
    mixed = (1 - share) * over_valid(logits) + share * noise
    return jnp.log(jnp.maximum(mixed, jnp.finfo(logits.dtype).tiny))


def policy_value(policy: jax.Array, summary: Any, num_actions: int) -> jax.Array:
    """The value of a state under the improved policy [B, A], from the actions that the search tried: float32 [B].

    It is not the mean over simulations: Gumbel's search tries bad actions as often as good ones, to compare them.
    """
    visits, qvalues = summary.visit_counts[:, :num_actions], summary.qvalues[:, :num_actions]
    weights = jnp.where(visits > 0, policy + 1e-8, 0.0)
    return jnp.sum(weights * qvalues, axis=-1) / jnp.sum(weights, axis=-1)


def switch_dummy(logits: jax.Array) -> jax.Array:
    """Keeps only the dummy action where its probability is above a half, and removes it elsewhere.

    Args:
      logits: float32 [B, A + 1], the dummy action last.
    """
    dummy = jnp.arange(logits.shape[-1]) == logits.shape[-1] - 1
    ended = jax.nn.softmax(logits)[:, -1:] > 0.5
    return jnp.where(ended == dummy, logits, jnp.finfo(logits.dtype).min)
