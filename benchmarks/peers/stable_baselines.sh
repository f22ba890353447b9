#!/bin/sh
# Measures an agent of Stable-Baselines3 (torch) or of SBX (the same in JAX) in env steps per second while it learns.
#
#   benchmarks/peers/stable_baselines.sh [FOLDER [LIBRARY [AGENT [ENV [UPDATES [ENVS [SECONDS]]]]]]]
#                          (defaults: runs/peers/stable_baselines, stable_baselines3, sac, HalfCheetah-v5, 1, 4, 60)
#
# The script makes a virtual environment in FOLDER (Python 3.11; about 2 GB with CPU torch), trains, and prints the rate.
# LIBRARY is stable_baselines3 or sbx. FOLDER/log keeps the output; a second run reuses the environment.
#
# The count: env steps of all ENVS environments, and all the time that passes, from 10 s after learning began.
#
# AGENT sac has the settings that Boonta's has by default: two layers of 256, and batches of 256, UPDATES of them for each
# env step (with ENVS environments at least one update for all their steps), 1,000 random steps first. AGENT dqn plays
# an Atari game, such as Pong, with the Nature network, four stacked frames and batches of 32. Both libraries step their
# environments in one process, then learn.
#
# Learning needs no GPU: to avoid torch's CUDA build, point PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL at CPU wheels.
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$house/runs/peers/stable_baselines}
mkdir -p "$folder"
cd -- "$folder"

if ! [ -e env/installed ]; then
    echo "making the environment in $folder/env" >&2
    python=$("$house/run" find-python 3.11)
    rm -rf env
    "$python" -m venv env
    env/bin/pip install --quiet stable-baselines3==2.9.2 sbx-rl==0.28.0 'gymnasium[classic-control,mujoco]>=1.0' \
        ale-py opencv-python-headless
    touch env/installed
fi

cat >train.py <<'END'
import importlib
import sys
import time

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

library, agent, env_id = sys.argv[1:4]
updates, envs, seconds = float(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
WARM_UP_S = 10.0


class Rate(BaseCallback):
    """Ends training after some seconds; `began` and `ended` are times and env steps."""

    began = ended = None

    def _on_step(self):
        now = time.monotonic(), self.num_timesteps
        if self.model._n_updates == 0:
            self.ready = now[0] + WARM_UP_S
        elif self.began is None and now[0] >= self.ready:
            self.began = now
        self.ended = now
        return self.began is None or now[0] < self.began[0] + seconds


rate = Rate()
settings = {"learning_starts": 1_000, "train_freq": 1, "gradient_steps": max(1, round(updates * envs)), "seed": 0}
if library == "stable_baselines3":
    settings["device"] = "cpu"
if agent == "sac":
    world = make_vec_env(env_id, envs, seed=0)
    policy = "MlpPolicy"
    settings |= {"batch_size": 256, "policy_kwargs": {"net_arch": [256, 256]}}
else:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    world = VecFrameStack(make_atari_env(f"{env_id}NoFrameskip-v4", envs, seed=0), 4)
    policy = "CnnPolicy"
    settings |= {"batch_size": 32, "buffer_size": 20_000}
model = getattr(importlib.import_module(library), agent.upper())(policy, world, **settings)
model.learn(10**9, callback=rate)
print(f"{library} {agent}, {env_id}, {envs} environments, {updates:g} updates for each step: "
      f"{(rate.ended[1] - rate.began[1]) / (rate.ended[0] - rate.began[0]):.1f} env steps/s")
END

limit=$(awk "BEGIN { print ${7:-60} + 900 }")
timeout --kill-after=10 "$limit" env/bin/python train.py \
    "${2:-stable_baselines3}" "${3:-sac}" "${4:-HalfCheetah-v5}" "${5:-1}" "${6:-4}" "${7:-60}" >log 2>&1 ||
    { tail -n 20 log >&2 && exit 1; }
grep ' env steps/s$' log
