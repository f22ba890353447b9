"""The presets of DQN and R2D2, number by number: the papers' for Atari, and those that their READMEs' runs had."""

from __future__ import annotations

import pytest

from boonta.agents import dqn, r2d2
from boonta.agents.config import leaves

ATARI = {
    "torso.kind": "nature",
    "head_width": 0,
    "frame_stack": 4,
    "dueling": False,
    "noisy": 0.0,
    "distribution": "none",
    "support_bins": 51,
    "support_limit": 10.0,
    "quantiles": 200,
    "discount": 0.99,
    "bootstrap_length": 1,
    "double": False,
    "huber": 1.0,
    "conservative_cost": 0.0,
    "reward_clip": "abs_one",
    "target_period": 2_500,
    "exploration.epsilon_start": 1.0,
    "exploration.epsilon": 0.01,
    "exploration.anneal_steps": 250_000,
    "exploration.ladder": 0.0,
    "roots": 1,
    "replay.batch_size": 32,
    "replay.size": 1_000_000,
    "replay.min_size": 50_000,
    "replay.samples_per_insert": 8.0,
    "replay.sampler": "uniform",
    "fresh_errors": True,
    "optimiser.kind": "adam",
    "optimiser.learning_rate": 6.25e-5,
    "optimiser.epsilon": 1.5e-4,
    "optimiser.max_grad_norm": 10.0,
}
CATCH = {
    "torso.kind": "mlp",
    "torso.widths": (64, 64),
    "frame_stack": 1,
    "bootstrap_length": 3,
    "double": True,
    "reward_clip": "none",
    "support_limit": 2.0,
    "target_period": 100,
    "exploration.epsilon": 0.05,
    "exploration.anneal_steps": 16_000,
    "replay.batch_size": 64,
    "replay.size": 20_000,
    "replay.min_size": 1_000,
    "replay.samples_per_insert": 4.0,
    "optimiser.learning_rate": 1e-3,
    "optimiser.epsilon": None,
}
DQN = {
    "catch": CATCH,
    "cartpole": {
        **CATCH,
        "torso.normalise": True,
        "support_limit": 100.0,
        "exploration.anneal_steps": 32_000,
        "replay.size": 50_000,
        "replay.batch_size": 128,
        "replay.samples_per_insert": 8.0,
        "target_period": 500,
        "optimiser.learning_rate": 2.5e-4,
    },
    "minatar": {
        **CATCH,
        "torso.widths": (128, 128),
        "support_limit": 20.0,
        "target_period": 500,
        "exploration.anneal_steps": 160_000,
        "replay.size": 100_000,
        "replay.min_size": 5_000,
        "optimiser.learning_rate": 2.5e-4,
    },
    "board": {**CATCH, "discount": -1.0, "bootstrap_length": 1, "exploration.epsilon": 0.1},
    "atari": {},
}
RECURRENT = {
    "torso.kind": "nature",
    "lstm_size": 512,
    "head_width": 512,
    "frame_stack": 4,
    "burn_in": 40,
    "roots": 80,
    "period": 40,
    "exploration.epsilon_start": 0.4,
    "exploration.epsilon": 0.4,
    "exploration.ladder": 7.0,
    "replay.batch_size": 64,
    "replay.size": 100_000,
    "replay.min_size": 5_000,
    "replay.samples_per_insert": None,
    "replay.sampler": "proportional",
    "replay.priority_exponent": 0.9,
    "replay.importance_exponent": 0.6,
    "fresh_errors": True,
    "priority_mix": 0.9,
    "discount": 0.997,
    "bootstrap_length": 5,
    "rescale": True,
    "target_period": 2_500,
    "optimiser.learning_rate": 1e-4,
    "optimiser.epsilon": 1e-3,
    "optimiser.max_grad_norm": 80.0,
}


def require(config, *expected):
    wanted = {name: value for each in expected for name, value in each.items()}
    found = leaves(config)
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("kind", DQN)
def test_dqn(kind):
    require(dqn.Config.preset(kind), ATARI, DQN[kind])


def test_rainbow_and_ape_x():
    parts = {"double": True, "dueling": True, "bootstrap_length": 3, "replay.sampler": "proportional"}
    rainbow = {"distribution": "categorical", "replay.priority_exponent": 0.5}
    ladder = {"exploration.epsilon_start": 0.4, "exploration.epsilon": 0.4, "exploration.ladder": 7.0}
    apex = {"noisy": 0.0, "distribution": "none", "replay.priority_exponent": 0.6, **ladder}
    above = {"torso.widths": (), "head_width": 512}
    silent = {"noisy": 0.5, "exploration.epsilon_start": 0.0, "exploration.epsilon": 0.0, "exploration.ladder": 0.0}
    both = {"noisy": 0.1, "exploration.epsilon_start": 1.0, "exploration.epsilon": 0.05, "narrow_start": True}
    slow = {"replay.min_size": 20_000, "target_period": 2_000}
    require(dqn.Rainbow.preset("atari"), ATARI, parts, rainbow, silent, above, slow)
    require(dqn.Rainbow.preset("catch"), CATCH, parts, rainbow, silent, {"narrow_start": False})
    require(dqn.Rainbow.preset("minatar"), parts, rainbow, both, {"support_limit": 20.0, "replay.size": 100_000})
    large = {"replay.batch_size": 512, "optimiser.kind": "rmsprop", "optimiser.decay": 0.95}
    step = {"optimiser.learning_rate": 6.25e-5, "optimiser.epsilon": 1.5e-7, "optimiser.max_grad_norm": 40.0}
    require(dqn.ApeX.preset("atari"), ATARI, parts, apex, above, large, step)
    require(dqn.ApeX.preset("catch"), CATCH, parts, apex)


def test_r2d2():
    require(r2d2.Config.preset("atari"), RECURRENT)
    assert r2d2.Config.preset("unknown") == r2d2.CARTPOLE and r2d2.Config.preset("catch") == r2d2.CATCH
