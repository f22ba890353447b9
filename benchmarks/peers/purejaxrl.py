"""Measures PureJaxRL's PPO, as a peer of `benchmarks/anakin.py`, in env steps per second while it learns.

    git clone https://github.com/luchris429/purejaxrl FOLDER
    python3.11 -m venv FOLDER/.venv && FOLDER/.venv/bin/pip install jax flax distrax gymnax==0.0.9 optax brax navix
    FOLDER/.venv/bin/python benchmarks/peers/purejaxrl.py FOLDER

It trains one epoch with one minibatch, so that each sequence of T = 16 steps is used once, as IMPALA does. It has two
networks of two layers of 64, one for the policy and one for the value, like `benchmarks/anakin.py --value-torso own`.
`fused.py` runs all of them in turns.
"""

import argparse
import sys
import time
from typing import Any

import jax

ENVS = {"catch": "Catch-bsuite", "cartpole": "CartPole-v1", "breakout": "Breakout-MinAtar"}


def measure(make_train, env_name: str, num_envs: int, seconds: float) -> float:
    """Returns the env steps per second, without compiling."""
    config: dict[str, Any] = {
        "LR": 2.5e-4,
        "NUM_ENVS": num_envs,
        "NUM_STEPS": 16,
        "TOTAL_TIMESTEPS": num_envs * 16 * 100,
        "UPDATE_EPOCHS": 1,
        "NUM_MINIBATCHES": 1,
        "GAMMA": 0.99,
        "GAE_LAMBDA": 0.95,
        "CLIP_EPS": 0.2,
        "ENT_COEF": 0.01,
        "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5,
        "ACTIVATION": "relu",
        "ENV_NAME": ENVS[env_name],
        "ANNEAL_LR": False,
        "DEBUG": False,
    }
    train = jax.jit(make_train(config)).lower(jax.random.PRNGKey(0)).compile()
    done, elapsed = 0, 0.0
    jax.block_until_ready(train(jax.random.PRNGKey(0)))
    while elapsed < seconds:
        began = time.perf_counter()
        jax.block_until_ready(train(jax.random.PRNGKey(1)))
        elapsed += time.perf_counter() - began
        done += config["TOTAL_TIMESTEPS"]
    return done / elapsed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="the clone")
    parser.add_argument("--envs", nargs="+", default=list(ENVS), choices=list(ENVS))
    parser.add_argument("--num-envs", nargs="+", type=int, default=[64, 1024])
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    sys.path.insert(0, f"{options.folder}/purejaxrl")
    from ppo import make_train

    for env_name in options.envs:
        for num_envs in options.num_envs:
            rate = measure(make_train, env_name, num_envs, options.seconds)
            print(f"{env_name:12s} {num_envs:8,d} {rate:12,.0f}", flush=True)
