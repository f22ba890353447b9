#!/bin/sh
# Measures Stoix's Anakin PPO, as a peer of benchmarks/anakin.py, in env steps per second while it learns.
#
#   benchmarks/peers/stoix.sh FOLDER cartpole|breakout ENVIRONMENTS [STEPS]     (2000000)
#
# FOLDER must hold clones of https://github.com/EdanToledo/Stoix as stoix and of https://github.com/EdanToledo/Stoa, on
# which Stoix is built, as stoa. The script makes a virtual environment there (Python 3.11 and jax 0.5.3, because Stoix
# needs a version below 0.6). It installs releases of the packages that Stoix would take from GitHub.
#
# The program: the package's own stoix/systems/ppo/anakin/ff_ppo.py, with gymnax's CartPole or MinAtar Breakout, T = 16,
# one epoch with one minibatch, so that each sequence is used once, and two networks of two layers of 64, as in
# `benchmarks/anakin.py --value-torso own`. The script prints the best of four periods of Stoix's own "actor steps per
# second": all env steps divided by the time of rollouts and updates, without compilation. FOLDER/log keeps the output.
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
cd -- "$1"
env_name=$2
envs=$3
steps=${4:-2000000}

if ! [ -e env/installed ]; then
    python=$("$house/run" find-python 3.11)
    rm -rf env
    "$python" -m venv env
    env/bin/pip install --quiet uv==0.13.8
    env/bin/uv pip install --quiet --python env/bin/python jax==0.5.3 jaxlib==0.5.3 chex flax hydra-core omegaconf colorama \
        optax distrax tensorflow-probability rlax wandb neptune tensorboard-logger gymnasium orbax-checkpoint gymnax==0.0.9 \
        pandas rich protobuf==3.20.3 mctx pgx flashbax
    touch env/installed
fi

(cd stoix && WANDB_MODE=disabled PYTHONPATH=$PWD:$PWD/../stoa timeout --kill-after=10 1800 ../env/bin/python \
    stoix/systems/ppo/anakin/ff_ppo.py env=gymnax/"$env_name" arch.total_num_envs="$envs" system.rollout_length=16 \
    system.epochs=1 system.num_minibatches=1 system.decay_learning_rates=False \
    'network.actor_network.pre_torso.layer_sizes=[64,64]' 'network.critic_network.pre_torso.layer_sizes=[64,64]' \
    arch.total_timesteps="$steps" arch.num_evaluation=4 arch.num_eval_episodes=8 arch.absolute_metric=False) >log 2>&1 ||
    { tail -n 20 log >&2 && exit 1; }
rate=$(sed -n 's/.*ACTOR - Steps per second: \([0-9]*\).*/\1/p' log | sort -n | tail -n 1)
[ "$rate" ] || { echo "no rate: see the log" >&2 && tail -n 20 log >&2 && exit 1; }
printf '%-12s %8d %12s\n' "$env_name" "$envs" "$rate"
