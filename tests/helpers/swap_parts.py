"""The choices of the swap matrix: environments, and agents small enough to compile in seconds."""

from __future__ import annotations

import dataclasses

from boonta.agents import dqn, impala, muzero, ppo, r2d2, sac, td3
from boonta.agents.actor_critic import Layers
from boonta.agents.base import Agent
from boonta.agents.config import replaced
from boonta.agents.groups import Replay, Torso
from boonta.agents.transitions import TransitionReplay
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.minatar import MinAtar
from boonta.envs.open_spiel import OpenSpiel

ENVS: dict[str, Env] = {
    "catch": Catch(),
    "minatar": MinAtar("breakout"),
    "pendulum": Gymnasium("Pendulum-v1"),
    "tic_tac_toe": OpenSpiel("tic_tac_toe"),
}
IMPALA = impala.Config(Torso("mlp", widths=(8,)), frame_stack=1, unroll_length=4, batch_size=8)
PPO = ppo.Config(Torso("mlp", widths=(8,)), frame_stack=1, unroll_length=4, batch_size=8, epochs=2, minibatches=2)
MUZERO = muzero.Config(
    torso=Torso("mlp", widths=(8,), normalise=True),
    head_width=8,
    num_simulations=2,
    unroll_length=1,
    bootstrap_length=2,
    roots=4,
    replay=Replay(batch_size=8, min_size=8),
    consistency_cost=0.0,
    support_limit=20.0,
    search="puct",  # This search compiles fastest.
    self_play=muzero.SelfPlay((1.0, 0.5), temperature_steps=(32,), random_actions=0.1, spread=0.5),
)
SMALL = {"torso.widths": (8,), "replay.batch_size": 8, "replay.min_size": 64}
# Every part that the others don't have.
DQN = replaced(dqn.ApeX.preset("catch"), {**SMALL, "distribution": "quantile", "quantiles": 4, "noisy": 0.5})
R2D2 = replaced(
    r2d2.CATCH, {**SMALL, "lstm_size": 8, "head_width": 8, "burn_in": 2, "roots": 4, "period": 4, "replay.min_size": 8}
)
LAYERS = Layers(widths=(8,))
TRANSITIONS = TransitionReplay(batch_size=8, min_size=16, updates_per_env_step=0.5, bootstrap_length=2)


def make_agent(env: Env, agent: str, reanalyzers: int, acting: str = "local") -> Agent:
    """Half of MuZero's sequences are reanalyzed if there are reanalyzers; PPO is asynchronous under a central node."""
    if agent == "impala":
        return impala.make(IMPALA, env.spec)
    if agent == "r2d2":
        return r2d2.make(R2D2, env.spec)
    if agent == "ppo":
        discount = -0.99 if env.spec.num_players == 2 else 0.99
        stale = {"correction": "v_trace", "max_staleness": None} if acting == "central" else {}
        return ppo.make(replaced(PPO, {"discount": discount, **stale}), env.spec)
    if agent == "sac":
        return sac.make(sac.Config(LAYERS, TRANSITIONS), env.spec)
    if agent == "td3":
        return td3.make(td3.Config(LAYERS, replay=TRANSITIONS), env.spec)
    discount = -1.0 if env.spec.num_players == 2 else 0.9
    if agent == "dqn":
        return dqn.make(dataclasses.replace(DQN, discount=discount), env.spec)
    changes = {"discount": discount, "reanalyze_ratio": 0.5 if reanalyzers else 0.0}
    return muzero.make(replaced(MUZERO, {**changes, "action_history": env.spec.num_players == 1}), env.spec)
