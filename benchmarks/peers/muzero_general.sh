#!/bin/sh
# Measures muzero-general on CartPole, the best-known open MuZero, in env steps per second while it learns on two cores.
#
#   benchmarks/peers/muzero_general.sh [FOLDER [SECONDS [RATIO]]]     (runs/peers/muzero_general, 180, 1.5)
#
# The script makes a virtual environment in FOLDER (Python 3.11, CPU torch; about 2 GB), trains, and prints the rate
# over SECONDS. FOLDER/log keeps the output; a second run reuses the environment.
#
# The count: the steps of the games that self-play puts into the replay buffer, after a warm-up of 30 s of learning,
# from the first such game to the last one within SECONDS.
#
# The program: the repository's own games/cartpole.py with its 50 simulations and one self-play worker. RATIO is the
# number of updates (128 positions each, unrolled 10 steps) per env step: 1.5 as shipped; 0.03125 learns from 4
# positions per env step, as Boonta's muzero.CARTPOLE does. There is no test worker, so it spends no time on tests.
#
# The versions: the last commit of 2022, with packages that it still runs with; gym 0.25 has the old signatures of
# `reset` and `step`. Learning needs no GPU: to avoid torch's CUDA build, point PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL at
# CPU wheels. MUZERO_GENERAL names another place to clone from.
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$house/runs/peers/muzero_general}
seconds=${2:-180}
ratio=${3:-1.5}
mkdir -p "$folder"
cd -- "$folder"

if ! [ -e env/installed ]; then
    echo "making the environment in $folder/env" >&2
    python=$("$house/run" find-python 3.11)
    rm -rf env source
    git clone --quiet --no-checkout \
        "${MUZERO_GENERAL:-https://github.com/werner-duvaud/muzero-general}" source
    git -C source checkout --quiet 0825bd544fc172a2e2dcc96d43711123222c4a2f -- '*.py'
    "$python" -m venv env
    env/bin/pip install --quiet \
        gym==0.25.2 nevergrad==1.0.12 'numpy<2' ray==2.60.0 seaborn==0.13.2 tensorboard==2.21.0 torch==2.13.0
    touch env/installed
fi

cat >train.py <<'END'
import pathlib
import sys
import time

import ray
from muzero import MuZero

seconds, ratio = float(sys.argv[1]), float(sys.argv[2])
muzero = MuZero("cartpole", {"ratio": ratio, "results_path": pathlib.Path("results").resolve()})
muzero.train(log_in_tensorboard=False)
seen, begin, now = [], float("inf"), 0.0  # `seen`: time, env steps and updates at each new game.
while now < begin + seconds:
    time.sleep(0.2)
    info = ray.get(muzero.shared_storage_worker.get_info.remote(["num_played_steps", "training_step"]))
    now, steps, updates = time.monotonic(), info["num_played_steps"], info["training_step"]
    if updates:
        begin = min(begin, now + 30)
    if now >= begin and (not seen or steps > seen[-1][1]):
        seen.append((now, steps, updates))
if len(seen) < 2:
    sys.exit("no two games ended in this time: see the log, or train longer")
(then, old_steps, old_updates), (now, steps, updates) = seen[0], seen[-1]
print(
    f"muzero-general, CartPole, 50 simulations, ratio {ratio:g}: {(steps - old_steps) / (now - then):.1f} env steps/s, "
    f"{(updates - old_updates) / (now - then):.1f} updates/s over {now - then:.0f} s",
    flush=True,
)
END

echo "training; $(uptime)" >&2
PYTHONPATH=source timeout --kill-after=10 $((seconds + 300)) taskset --cpu-list 0,1 env/bin/python train.py "$seconds" "$ratio" >log 2>&1 ||
    { tail -n 20 log >&2 && exit 1; }
echo "trained; $(uptime)" >&2
grep '^muzero-general, ' log
