#!/bin/sh
# Measures Sample Factory's APPO on Pong, a well-known peer, in env steps per second that it learns from on two cores.
#
#   benchmarks/peers/sample_factory.sh [FOLDER [SECONDS]]     (defaults: runs/peers/sample_factory, 120)
#
# The script makes a virtual environment in FOLDER (Python 3.11, CPU torch; about 2 GB), trains for about SECONDS and
# prints the steady-state rate. FOLDER/log keeps the output; a second run reuses the environment.
#
# The count: Sample Factory reports the frames of the steps that its learner has trained on; a step is four frames. The
# rate is the slope of that count over time, after a warm-up of 20 s of learning.
#
# The program: the package's own Atari program (84x84, 4 frames stacked, rewards clipped, Nature network: convolutions of
# 32, 64 and 64, then 512 units) with settings comparable to Boonta's IMPALA: 32 environments, sequences of 20 steps,
# batches of 640 steps, each batch used once, acting and learning in parallel, inputs scaled by 255 but not normalised.
# The returns are APPO's (GAE), because with_vtrace=True fails in 2.1.1: its summaries need the other branch's advantages.
#
# The versions: sample-factory 2.1.1 needs gymnasium below 1.0, and so numpy below 2. ale-py 0.10 includes the games and
# still registers them with that gymnasium, in every process that imports it. `timeout` ends the training, because 2.1.1
# ignores train_for_seconds and never ends once its learner has failed. Learning needs no GPU: to avoid torch's CUDA
# build (which works too, and takes 5 GB), point PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL at CPU wheels.
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$house/runs/peers/sample_factory}
seconds=${2:-120}
mkdir -p "$folder"
cd -- "$folder"

if ! [ -e env/installed ]; then
    echo "making the environment in $folder/env" >&2
    python=$("$house/run" find-python 3.11)
    rm -rf env
    "$python" -m venv env
    env/bin/pip install --quiet \
        ale-py==0.10.2 gymnasium==0.29.1 'numpy<2' sample-factory==2.1.1 torch==2.13.0
    touch env/installed
fi

cat >train.py <<'END'
import sys
import ale_py  # This registers the games, in this process and in those that it starts.
from sf_examples.atari.train_atari import main

if __name__ == "__main__":
    sys.exit(main())
END

echo "training for $seconds s; $(uptime)" >&2
OMP_NUM_THREADS=1 timeout --kill-after=10 "$seconds" taskset --cpu-list 0,1 env/bin/python train.py \
    --env=atari_pong --experiment=pong --train_dir=train --restart_behavior=overwrite --save_every_sec=100000 \
    --device=cpu --num_workers=2 --num_envs_per_worker=16 --worker_num_splits=2 --async_rl=True \
    --rollout=20 --recurrence=1 --batch_size=640 --num_batches_per_epoch=1 --num_epochs=1 \
    --normalize_input=False --seed=1 >log 2>&1 || [ $? -eq 124 ] || echo "training ended early" >&2
echo "trained; $(uptime)" >&2

# Lines read: [2026-01-31 10:03:30,372][05815] Fps is (...). Total num frames: 30720. ...
sed 's/\x1b\[[0-9;]*m//g' log | awk '
    /Total num frames: [1-9]/ {
        split($2, clock, /[:,\]]/)
        now = clock[1] * 3600 + clock[2] * 60 + clock[3] + clock[4] / 1000
        match($0, /frames: [0-9]+/)
        frames = substr($0, RSTART + 8, RLENGTH - 8)
        if (!started) started = now
        if (now < started) now += 86400  # The clock has passed midnight.
        if (now - started >= 20 && !from) { from = now; from_frames = frames }
    }
    END {
        if (now - from < 20 || !from) { print "no steady state: see the log, or train longer"; exit 1 }
        rate = (frames - from_frames) / 4 / (now - from)
        printf "sample-factory 2.1.1 APPO, Pong, 2 cores: %.0f agent steps/s (%.0f frames/s) over %.0f s\n",
            rate, 4 * rate, now - from
    }' || { tail -n 20 log >&2 && exit 1; }
