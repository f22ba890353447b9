#!/bin/sh
# Measures SAC of Stable-Baselines3 (torch) or of SBX (the same in JAX) in env steps per second while it learns.
#
#   benchmarks/peers/stable_baselines.sh [FOLDER [LIBRARY [ENV [UPDATES [ENVS [SECONDS]]]]]]
#                          (defaults: runs/peers/stable_baselines, stable_baselines3, HalfCheetah-v5, 1, 4, 60)
#
# The script makes a virtual environment in FOLDER (Python 3.11; about 2 GB with CPU torch), trains, and prints the rate.
# LIBRARY is stable_baselines3 or sbx. FOLDER/log keeps the output; a second run reuses the environment.
#
# The count: env steps of all ENVS environments, and all the time that passes, from 10 s after learning began.
#
# The program: SAC with the settings that Boonta's has by default: two layers of 256, batches of 256, UPDATES of them
# for each env step (0.25 is the least with 4 environments), 1,000 random steps first. Both libraries step their
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
    env/bin/pip install --quiet stable-baselines3==2.9.2 sbx-rl==0.28.0 'gymnasium[classic-control,mujoco]>=1.0'
    touch env/installed
fi

cat >train.py <<'END'
import importlib
import sys
import time

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

library, env_id, updates, envs, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
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
model = importlib.import_module(library).SAC(
    "MlpPolicy",
    make_vec_env(env_id, envs, seed=0),
    learning_starts=1_000,
    batch_size=256,
    train_freq=1,
    gradient_steps=round(updates * envs),
    policy_kwargs={"net_arch": [256, 256]},
    seed=0,
    **({"device": "cpu"} if library == "stable_baselines3" else {}),
)
model.learn(10**9, callback=rate)
print(f"{library} SAC, {env_id}, {envs} environments, {updates:g} updates for each step: "
      f"{(rate.ended[1] - rate.began[1]) / (rate.ended[0] - rate.began[0]):.1f} env steps/s")
END

env/bin/python train.py "${2:-stable_baselines3}" "${3:-HalfCheetah-v5}" "${4:-1}" "${5:-4}" "${6:-60}" >log 2>&1 ||
    { tail -n 20 log >&2 && exit 1; }
grep ' env steps/s$' log
