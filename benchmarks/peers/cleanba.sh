#!/bin/sh
# Cleanba's IMPALA on Pong: how many agent steps a second a peer in JAX, in one process, learns from, on two cores.
#
#   benchmarks/peers/cleanba.sh FOLDER [SECONDS [NET]]     (110, nature)
#
# FOLDER holds a clone of https://github.com/vwxyzjn/cleanba as cleanba. An environment is made there (Python 3.10, as
# it wants one below 3.11, and CPU JAX; 0.7 GB), then it trains for SECONDS, compiling included, and prints the
# steady-state rate. FOLDER/log keeps the whole output, and a second run finds the environment there.
#
# What is counted: the updates that its learner says it has made, 640 agent steps each, four frames to a step. The rate
# is the slope of that count over time, once 20 s since the learner's first report, which warm up, are past.
#
# What is run: the repository's own cleanba/cleanba_impala.py (threads that act around EnvPool, a learner that is one
# XLA program, parameters one update old) with what compares to Boonta's IMPALA: 32 environments, in two halves with an
# actor thread each, sequences of 20 steps, batches of 32 of them, one minibatch, every batch used once. All else is as
# shipped: sticky actions, all 18 of them, RMSProp, acting and learning side by side. NET is "nature" or "impala". The
# program has but the latter, a residual net of three stages (16, 32 and 32 channels), then 256 units; the Nature net
# (convolutions of 32, 64 and 64, then 512 units) is the one that the repository's cleanba/legacy_scripts has for PPO,
# put in its place.
#
# Which versions: the repository's poetry.lock holds, but for what pip found no more: EnvPool 0.8.1 (0.8.4 instead) and
# jaxlib 0.4.7 (0.4.13, the oldest left, with its jax and the ml-dtypes that this asks for; chex 0.1.5 fails with it).
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

# The learner's report gets the time: it has none, and the rate is to leave out what comes before the warm-up's end.
# The learner's loop over its one minibatch is unrolled: in a loop, XLA's CPU compiler leaves the gradients of
# convolutions to plain code (https://github.com/jax-ml/jax/issues/12868), which made them 15 times as slow.
# XLA gets its threads back, which the program, meant for learning on GPUs, takes from it: the learner had but one core.
sed -e 's/"actor_policy_version=/"at={time.time():.3f}, actor_policy_version=/' \
    -e 's/= jax\.lax\.scan(/= jax.tree_util.Partial(jax.lax.scan, unroll=2)(/' \
    -e '/^os\.environ\["XLA_FLAGS"\] = /d' \
    cleanba/cleanba/cleanba_impala.py >impala.py
case $net in
impala) ;;
nature)
    # Its class has the same name, and no parameters.
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
