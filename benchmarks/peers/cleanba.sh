#!/bin/sh
# Measures Cleanba's IMPALA on Pong, a peer in JAX that runs in one process, in env steps per second on two cores.
#
#   benchmarks/peers/cleanba.sh FOLDER [SECONDS [NET]]     (110, nature)
#
# FOLDER must hold a clone of https://github.com/vwxyzjn/cleanba as cleanba. The script makes a virtual environment
# there (Python 3.10, because Cleanba needs one below 3.11, and CPU JAX; 0.7 GB), trains for SECONDS, including
# compilation, and prints the steady-state rate. FOLDER/log keeps the output; a second run reuses the environment.
#
# The count: the updates that its learner reports, of 640 env steps each; a step is four frames. The rate is the slope
# of that count over time, after a warm-up of 20 s from the learner's first report.
#
# The program: the repository's own cleanba/cleanba_impala.py (threads that act with EnvPool, a learner that is one XLA
# program, params one update old) with settings comparable to Boonta's IMPALA: 32 environments in two halves with an
# actor thread each, sequences of 20 steps, batches of 32 sequences, one minibatch, and each batch used once. Everything
# else is as shipped: sticky actions, all 18 actions, RMSProp, acting and learning in parallel. NET is "nature" or
# "impala". The program only has the latter, a residual net of three stages (16, 32 and 32 channels), then 256 units.
# The Nature net (convolutions of 32, 64 and 64, then 512 units) is taken from the repository's PPO in
# cleanba/legacy_scripts.
#
# The versions: those of the repository's poetry.lock, except for two that pip no longer finds: EnvPool 0.8.1 (0.8.4
# here) and jaxlib 0.4.7 (0.4.13 here, the oldest one left, with its jax and ml-dtypes; chex 0.1.5 fails with it).
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
cd -- "$1"
seconds=${2:-110}
net=${3:-nature}

if ! [ -e env/installed ]; then
    echo "making the environment in $PWD/env" >&2
    python=$("$house/run" find-python 3.10)
    rm -rf env
    "$python" -m venv env
    env/bin/pip install --quiet uv==0.13.8
    awk -F '"' '/^name = / { name = $2 } /^version = / { print name "==" $2 }' cleanba/poetry.lock |
        grep -v -E '^(chex|envpool|jax|jaxlib|ml-dtypes)==' >constraints.txt
    env/bin/uv pip install --quiet --python env/bin/python --constraint constraints.txt \
        chex==0.1.7 envpool==0.8.4 jax==0.4.13 jaxlib==0.4.13 ml-dtypes==0.2.0 \
        flax optax rich rlax tensorboardx tyro
    touch env/installed
fi

# The learner's report gets a time stamp, so that the warm-up can be left out.
# The learner's loop over its one minibatch is unrolled, because inside a loop XLA's CPU compiler uses plain code for
# the gradients of convolutions (https://github.com/jax-ml/jax/issues/12868), which made them 15 times as slow.
# XLA gets all its threads: the program, meant for learning on GPUs, restricts them, so the learner had only one core.
sed -e 's/"actor_policy_version=/"at={time.time():.3f}, actor_policy_version=/' \
    -e 's/= jax\.lax\.scan(/= jax.tree_util.Partial(jax.lax.scan, unroll=2)(/' \
    -e '/^os\.environ\["XLA_FLAGS"\] = /d' \
    cleanba/cleanba/cleanba_impala.py >impala.py
case $net in
impala) ;;
nature)
    # The class of the Nature net has the same name, and no parameters.
    legacy=cleanba/cleanba/legacy_scripts/cleanba_ppo_envpool_impala_atari_wrapper_naturecnn.py
    sed -n '/^class Network(/,/^        return x$/p' "$legacy" >network.py
    sed -e '/^class Network(/r network.py' -e '/^class Network(/,/^        return x$/d' \
        -e 's/Network(args.channels, args.hiddens)/Network()/' impala.py >nature.py
    mv nature.py impala.py
    ;;
*) echo "NET is nature or impala, not $net" >&2 && exit 2 ;;
esac

echo "training the $net net for $seconds s; $(uptime)" >&2
JAX_PLATFORMS=cpu timeout --kill-after=10 "$seconds" taskset --cpu-list 0,1 env/bin/python -u impala.py \
    --env-id Pong-v5 --local-num-envs 16 --num-actor-threads 2 --num-steps 20 --num-minibatches 1 --log-frequency 5 \
    >log 2>&1 || [ $? -eq 124 ] || echo "training ended early" >&2
echo "trained; $(uptime)" >&2

# Lines read: 6432 at=1767225600.000, actor_policy_version=9, actor_update=10, learner_policy_version=10, training (...)
awk '
    / at=[0-9]/ {
        match($0, / at=[0-9.]+/)
        now = substr($0, RSTART + 4, RLENGTH - 4) + 0
        match($0, /learner_policy_version=[0-9]+/)
        steps = 640 * substr($0, RSTART + 23, RLENGTH - 23)
        if (!started) started = now
        if (now - started >= 20 && !from) { from = now; from_steps = steps }
    }
    END {
        if (now - from < 20 || !from) { print "no steady state: see the log, or train longer"; exit 1 }
        printf "cleanba IMPALA, Pong, 2 cores: %.0f agent steps/s over %.0f s\n",
            (steps - from_steps) / (now - from), now - from
    }' log || { tail -n 20 log >&2 && exit 1; }
