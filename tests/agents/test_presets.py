"""The agents' presets, number by number, as the curves in their READMEs were measured with them."""

from __future__ import annotations

import pytest

from boonta.agents import impala, muzero, ppo, sac, td3
from boonta.agents.config import leaves

IMPALA = {
    "torso.kind": "shallow",
    "torso.widths": (256,),
    "torso.channels": (16, 32),
    "torso.kernels": (8, 4),
    "torso.strides": (4, 2),
    "torso.blocks": None,
    "torso.halvings": 0,
    "torso.normalise": False,
    "value_torso": "shared",
    "lstm_size": 0,
    "gaussian.kind": "squashed",
    "gaussian.deviation": "state",
    "frame_stack": 4,
    "normalise_observations": False,
    "eval_mode": "sample",
    "unroll_length": 20,
    "batch_size": 32,
    "queue_size": 32,
    "max_lag": 100.0,
    "discount": 0.99,
    "clip_rho": 1.0,
    "trace_lambda": 1.0,
    "reward_clip": "abs_one",
    "entropy_cost": 0.01,
    "baseline_cost": 0.5,
    "reduction": "sum",
    "optimiser.kind": "rmsprop",
    "optimiser.learning_rate": 6e-4,
    "optimiser.anneal_updates": None,
    "optimiser.decay": 0.99,
    "optimiser.epsilon": None,
    "optimiser.max_grad_norm": 40.0,
    "optimiser.weight_decay": 0.0,
}
NO_WINDOWS = {"torso.channels": None, "torso.kernels": None, "torso.strides": None}
SMALL = {"torso.kind": "mlp", "torso.widths": (64, 64), "frame_stack": 1, **NO_WINDOWS}
MEAN = {"reduction": "mean", "optimiser.kind": "adam"}
CATCH = {**SMALL, **MEAN, "unroll_length": 10, "batch_size": 16, "queue_size": 16, "optimiser.learning_rate": 3e-3}
FUSED = {**CATCH, "unroll_length": 16, "batch_size": 64, "queue_size": 64}
IMPALA_PRESETS = {
    "catch": CATCH,
    "atari": {**MEAN, "batch_size": 8, "queue_size": 8, "optimiser.max_grad_norm": 0.5},
    "grid_world": {**FUSED, "optimiser.learning_rate": 1e-3},
    "cartpole": {
        **CATCH,
        "unroll_length": 16,
        "eval_mode": "greedy",
        "reward_clip": "none",
        "optimiser.learning_rate": 1e-3,
        "optimiser.max_grad_norm": 0.5,
    },
    "minatar": {
        **FUSED,
        "torso.widths": (128, 128),
        "trace_lambda": 0.9,
        "entropy_cost": 0.02,
        "optimiser.learning_rate": 1e-3,
        "optimiser.max_grad_norm": 0.5,
    },
}

MUZERO = {
    "torso.kind": "mlp",
    "torso.widths": (128, 128),
    "torso.channels": None,
    "torso.kernels": None,
    "torso.strides": None,
    "torso.blocks": None,
    "torso.halvings": 0,
    "torso.normalise": True,
    "action_planes": "each",
    "head_width": 128,
    "support_bins": 51,
    "support_limit": 10.0,
    "frame_stack": 1,
    "action_history": False,
    "normalise_observations": False,
    "search": "gumbel",
    "num_simulations": 16,
    "eval_simulations": None,
    "max_considered_actions": None,
    "min_value_range": 0.01,
    "puct.dirichlet_alpha": 0.3,
    "puct.dirichlet_fraction": 0.25,
    "puct.pb_c_init": 1.25,
    "puct.pb_c_base": 19652.0,
    "self_play.temperature": (1.0,),
    "self_play.temperature_steps": (),
    "self_play.random_actions": 0.0,
    "self_play.spread": 0.0,
    "chance_codes": 32,
    "discount": 0.997,
    "unroll_length": 5,
    "bootstrap_length": 5,
    "trace_lambda": 1.0,
    "value_target": "target",
    "target_period": 100,
    "policy_target": "search",
    "policy_cost": 1.0,
    "reward_cost": 1.0,
    "value_cost": 0.25,
    "consistency_cost": 2.0,
    "chance_cost": 1.0,
    "roots": 8,
    "replay.batch_size": 32,
    "replay.size": 20_000,
    "replay.min_size": 200,
    "replay.samples_per_insert": 4.0,
    "replay.sampler": "uniform",
    "replay.priority_exponent": 0.6,
    "replay.importance_exponent": 0.4,
    "replay.importance_anneal_updates": 100_000,
    "reanalyze_ratio": 0.0,
    "reanalyze": "nodes",
    "reanalyzed_samples": 4.0,
    "optimiser.kind": "adam",
    "optimiser.learning_rate": 1e-3,
    "optimiser.anneal_updates": None,
    "optimiser.max_grad_norm": 5.0,
    "optimiser.epsilon": None,
    "optimiser.decay": 0.99,
    "optimiser.weight_decay": 1e-4,
}
TOWER = {"torso.kind": "tower", "torso.widths": ()}
BOARD = {
    "support_bins": 21,
    "support_limit": 1.0,
    "num_simulations": 25,
    "min_value_range": 0.3,
    "self_play.random_actions": 0.1,
    "discount": -1.0,
    "bootstrap_length": 3,
    "value_target": "search",
    "optimiser.learning_rate": 2e-3,
}
MUZERO_PRESETS = {
    "atari": {
        **TOWER,
        "torso.channels": (32,),
        "torso.blocks": 2,
        "torso.halvings": 4,
        "support_limit": 300.0,
        "frame_stack": 4,
        "normalise_observations": True,
    },
    "board": BOARD,
    "cartpole": {"support_limit": 300.0, "min_value_range": 1.0, "bootstrap_length": 10},
    "catch": {
        "torso.widths": (64,),
        "head_width": 64,
        "support_bins": 21,
        "support_limit": 2.0,
        "num_simulations": 8,
        "min_value_range": 0.3,
        "discount": 0.95,
        "bootstrap_length": 10,
        "optimiser.learning_rate": 3e-3,
    },
    "connect_four": {
        **BOARD,
        **TOWER,
        "torso.channels": (16,),
        "torso.blocks": 1,
        "action_planes": "place",
        "num_simulations": 16,
        "eval_simulations": 400,
        "min_value_range": 0.5,
        "unroll_length": 3,
        "bootstrap_length": 30,
        "value_cost": 1.0,
        "consistency_cost": 0.0,
        "replay.samples_per_insert": 2.0,
    },
    "minatar": {
        "torso.widths": (128,),
        "support_limit": 30.0,
        "min_value_range": 0.3,
        "discount": 0.99,
        "unroll_length": 3,
        "consistency_cost": 0.0,
    },
    "grid_world": {},
    "default": {"support_limit": 300.0},
}


def known(config):
    """The fields by dotted name, without those of dense layers, which only PPO's presets change."""
    values = leaves(config)
    layers = [name for name in values if name.endswith((".activation", ".orthogonal"))]
    assert {values.pop(name) for name in layers} == {"relu", False}
    return values


def resolved(config):
    """Every field by dotted name, with the torso's own sizes."""
    torso = {f"torso.{name}": value for name, value in leaves(config.torso.resolved).items()}
    return {name: value for name, value in (leaves(config) | torso).items() if name in known(config)}


@pytest.mark.parametrize("kind", IMPALA_PRESETS)
def test_impala(kind):
    assert resolved(impala.Config()) == IMPALA
    assert resolved(impala.Config.preset(kind)) == IMPALA | IMPALA_PRESETS[kind]


@pytest.mark.parametrize("kind", MUZERO_PRESETS)
def test_muzero(kind):
    assert resolved(muzero.Config.preset(kind)) == MUZERO | MUZERO_PRESETS[kind]


def test_ppo():
    paper = {"unroll_length": 128, "batch_size": 8, "epochs": 3, "minibatches": 4, "clip": 0.1, "trace_lambda": 0.95}
    assert leaves(ppo.Config()).items() >= paper.items()
    a2c = {"epochs": 1, "minibatches": 1, "trace_lambda": 1.0, "optimiser.kind": "rmsprop"}
    for kind, discount in (("cartpole", 0.99), ("board", -1.0)):
        preset = ppo.A2C.preset(kind)
        assert leaves(preset).items() >= {**a2c, "discount": discount}.items() and isinstance(preset, ppo.A2C)
    for preset in (ppo.CARTPOLE, ppo.CATCH, ppo.MINATAR, ppo.CONTINUOUS):
        settings = {"torso.widths": (64, 64), "value_torso": "own", "epochs": preset.epochs, "clip": 0.2}
        assert leaves(preset).items() >= settings.items() and preset.torso.orthogonal


def test_any_other_kind_of_environment_has_a_preset_too():
    for agent in (impala, muzero, ppo, sac, td3):
        assert agent.Config.preset("lunar_lander") == agent.Config.preset("default")
    assert impala.Config.preset("default").torso.kind == "mlp"
    assert ppo.Config.preset("continuous") == ppo.CONTINUOUS != ppo.Config.preset("default")
    assert impala.Config.preset("catch") == impala.CATCH and muzero.Config.preset("board") == muzero.BOARD
