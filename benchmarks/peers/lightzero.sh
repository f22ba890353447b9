#!/bin/sh
# Measures LightZero's MuZero on CartPole, a well-known peer, in env steps per second while it learns on two cores.
#
#   benchmarks/peers/lightzero.sh [FOLDER [SECONDS [UPDATES [ENVS]]]]     (runs/peers/lightzero, 180, 0.015625, 8)
#
# The script makes a virtual environment in FOLDER (Python 3.11, CPU torch; about 2 GB), trains, and prints the rate
# over about SECONDS. FOLDER/log keeps the output; a second run reuses the environment.
#
# The count: the env steps that its collector reports after a warm-up of 30 s of learning, divided by all the time that
# passes, because it collects and learns in turns.
#
# The program: the package's own program (zoo/classic_control/cartpole: MLP, search in C++) with 50 simulations, on
# CartPole-v1. UPDATES is the number of updates (256 positions each, unrolled 5 steps) per env step: 0.015625 learns
# from 4 positions per env step, as Boonta's muzero.CARTPOLE does; "shipped" makes its 100 updates per collection, which
# take minutes. ENVS is the number of environments, each in a process of its own, and of episodes per collection.
# Evaluations are switched off, except for one at the start.
#
# The versions: LightZero 0.2.0 and DI-engine 0.5.3, which asks for an older setuptools than torch does; it works with
# torch's, so uv overrides the requirement. Learning needs no GPU: to avoid torch's CUDA build, point UV_FIND_LINKS at
# CPU wheels or set UV_TORCH_BACKEND=cpu.
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$house/runs/peers/lightzero}
seconds=${2:-180}
updates=${3:-0.015625}
envs=${4:-8}
mkdir -p "$folder"
cd -- "$folder"

if ! [ -e env/installed ]; then
    echo "making the environment in $folder/env" >&2
    python=$("$house/run" find-python 3.11)
    rm -rf env
    "$python" -m venv env
    env/bin/pip install --quiet uv==0.13.8
    echo 'setuptools>=77,<81' >overrides.txt
    env/bin/uv pip install --quiet --python env/bin/python --override overrides.txt \
        DI-engine==0.5.3 LightZero==0.2.0 torch==2.13.0 wandb==0.19.0
    touch env/installed
fi

cat >train.py <<'END'
import importlib
import sys
import time

from zoo.classic_control.cartpole.config.cartpole_muzero_config import create_config, main_config

seconds, updates, envs = float(sys.argv[1]), sys.argv[2], int(sys.argv[3])
train = importlib.import_module("lzero.entry.train_muzero")  # In lzero.entry the name is the function.
seen, begin = [], float("inf")  # `seen`: time, env steps and updates of each collection.


class Collector(train.Collector):
    def collect(self, train_iter, policy_kwargs):
        global begin
        now = time.monotonic()
        if train_iter:
            begin = min(begin, now + 30)
        if now >= begin:
            seen.append((now, self.envstep, train_iter))
        if now >= begin + seconds:
            finish()
        return super().collect(train_iter=train_iter, policy_kwargs=policy_kwargs)


def finish():
    if len(seen) < 2:
        sys.exit("no two collections in this time: see the log, or train longer")
    (then, old_steps, old_updates), (now, steps, new_updates) = seen[0], seen[-1]
    print(
        f"LightZero 0.2.0 MuZero, CartPole, 50 simulations, {envs} environments, updates {updates}: "
        f"{(steps - old_steps) / (now - then):.1f} env steps/s, "
        f"{(new_updates - old_updates) / (now - then):.1f} updates/s over {now - then:.0f} s",
        flush=True,
    )
    sys.exit()


if __name__ == "__main__":
    main_config.exp_name = "train"
    main_config.env.update(env_id="CartPole-v1", stop_value=10**9, collector_env_num=envs)
    main_config.policy.update(cuda=False, num_simulations=50, collector_env_num=envs, n_episode=envs, eval_freq=10**9)
    if updates != "shipped":
        main_config.policy.update(update_per_collect=None, replay_ratio=float(updates))
    train.Collector = Collector
    train.train_muzero([main_config, create_config], seed=0, max_env_step=10**9)
END

rm -rf train
echo "training; $(uptime)" >&2
timeout --kill-after=10 $((seconds + 600)) taskset --cpu-list 0,1 env/bin/python train.py "$seconds" "$updates" "$envs" >log 2>&1 ||
    { tail -n 20 log >&2 && exit 1; }
echo "trained; $(uptime)" >&2
grep '^LightZero ' log
