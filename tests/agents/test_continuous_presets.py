"""The presets of agents of real-valued actions, number by number, and those of pixels."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.agents import encoders, impala, ppo, sac, td3
from boonta.agents.config import leaves

CONTINUOUS = {
    "layers.torso.kind": "mlp",
    "layers.torso.widths": (),
    **{f"layers.torso.{name}": None for name in ("channels", "kernels", "strides", "blocks")},
    "layers.torso.halvings": 0,
    "layers.torso.normalise": False,
    "layers.widths": (256, 256),
    "layers.normalise": False,
    "layers.normalise_observations": False,
    "layers.critics": 2,
    "layers.frame_stack": 1,
    "replay.batch_size": 256,
    "replay.size": 1_000_000,
    "replay.min_size": 1_000,
    "replay.updates_per_env_step": 1.0,
    "replay.unroll_length": 1,
    "replay.bootstrap_length": 1,
    "discount": 0.99,
    "tau": 0.005,
}
ADAM = {
    "kind": "adam",
    "learning_rate": 3e-4,
    "anneal_updates": None,
    "max_grad_norm": float("inf"),
    "epsilon": None,
    "decay": 0.99,
    "weight_decay": 0.0,
}
SAC = {
    **CONTINUOUS,
    "entropy_per_number": -1.0,
    "temperature": 1.0,
    **{f"{name}_optimiser.{field}": x for name in ("policy", "critic", "temperature") for field, x in ADAM.items()},
}
TD3 = {
    **CONTINUOUS,
    "exploration_noise": 0.1,
    "policy_delay": 2,
    "target_noise": 0.2,
    "target_noise_clip": 0.5,
    **{f"{name}_optimiser.{field}": x for name in ("policy", "critic") for field, x in ADAM.items()},
}
DDPG = TD3 | {"layers.critics": 1, "policy_delay": 1, "target_noise": 0.0}
PIXELS = {
    "layers.torso.kind": "nature",
    "layers.torso.widths": None,
    "layers.frame_stack": 3,
    "replay.size": 100_000,
    "replay.updates_per_env_step": 0.5,
}


def known(config):
    """The fields by dotted name, without those of dense layers."""
    return {name: x for name, x in leaves(config).items() if not name.endswith((".activation", ".orthogonal"))}


@pytest.mark.parametrize(("config", "values"), [(sac.Config, SAC), (td3.Config, TD3), (td3.DDPG, DDPG)])
def test_sac_td3_and_ddpg(config, values):
    assert known(config.preset("default")) == values and isinstance(config.preset("mujoco"), config)
    assert known(config.preset("mujoco")) == values | {"replay.min_size": 10_000}
    assert known(config.preset("dm_control_pixels")) == values | PIXELS


@pytest.mark.parametrize("config", [impala.Config, ppo.Config, ppo.A2C, sac.Config, td3.Config, td3.DDPG])
def test_presets_of_pixels_learn_from_whole_rewards(config):
    """A task of dm_control is a picture [84, 84, 3], and pays at most 1 a step."""
    preset = config.preset("dm_control_pixels")
    torso = preset.layers.torso if hasattr(preset, "layers") else preset.torso
    encoders.check_observation(torso, specs.BoundedArray((84, 84, 3), np.uint8, 0, 255, "pixels"))
    assert getattr(preset, "layers", preset).frame_stack == 3
    assert getattr(preset, "reward_clip", "none") == "none"
