#!/bin/sh
# Stoix's Anakin PPO beside benchmarks/anakin.py: env steps a second while it learns, compiling left out.
#
#   benchmarks/peers/stoix.sh FOLDER cartpole|breakout ENVIRONMENTS [STEPS]     (2000000)
#
# FOLDER holds clones of https://github.com/EdanToledo/Stoix as stoix and of https://github.com/EdanToledo/Stoa, which it
# is written on, as stoa. An environment is made there (Python 3.11, jax 0.5.3: Stoix asks for one below 0.6); of the
# packages that Stoix wants from GitHub the released ones do.
#
# What is run: the package's own stoix/systems/ppo/anakin/ff_ppo.py, CartPole or MinAtar Breakout by gymnax, T = 16, one
# epoch in one minibatch, so that each sequence is learned from once, two nets of two layers of 64, as `benchmarks/anakin.py`
# has with `--value-torso own`. Printed is what it calls the actor's steps per second, the best of four stretches: all env
# steps over all the time of rollouts and updates.
set -eu

house=$(cd -- "$(dirname -- "$0")/../.." && pwd)
cd -- "$1"
world=$2
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

rate=$(cd stoix && WANDB_MODE=disabled PYTHONPATH=$PWD:$PWD/../stoa ../env/bin/python \
    stoix/systems/ppo/anakin/ff_ppo.py env=gymnax/"$world" arch.total_num_envs="$envs" system.rollout_length=16 \
    system.epochs=1 system.num_minibatches=1 system.decay_learning_rates=False \
    'network.actor_network.pre_torso.layer_sizes=[64,64]' 'network.critic_network.pre_torso.layer_sizes=[64,64]' \
    arch.total_timesteps="$steps" arch.num_evaluation=4 arch.num_eval_episodes=8 arch.absolute_metric=False 2>&1 |
    sed -n 's/.*ACTOR - Steps per second: \([0-9]*\).*/\1/p' | sort -n | tail -n 1)
printf '%-12s %8d %12s\n' "$world" "$envs" "$rate"
