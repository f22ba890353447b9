"""What our actors have written, as Acme's dataset readers give it to Acme's learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import reverb
import tensorflow as tf
import tree
from acme.adders import reverb as adders

from boonta.agents.base import Agent, Nest, Steps
from boonta.envs.base import FIRST, LAST, EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.tables.reverb.signature import parts


def as_trajectories(agent: Agent, spec: EnvSpec) -> Callable[[reverb.ReplaySample], reverb.ReplaySample]:
    """The `postprocess` of `acme.datasets.make_reverb_dataset` for a table of ours.

    Our row of time t has the reward of the action before it, Acme's step the reward of its own action. So T rows become
    T-1 steps, whose leaves are [T-1, ...]. The step of LAST has a reward and a discount of 0, as Acme's adders pad it.

    Args:
      agent: has the extras of a step.
      spec: spec of the environment.

    Returns:
      A function of samples, whose data become `acme.adders.reverb.Step`s, without the core that a sequence keeps.
    """
    shapes = step_shapes(agent, spec)._replace(core=())

    def postprocess(sample: reverb.ReplaySample) -> reverb.ReplaySample:
        steps = unpack(shapes, tf.nest.flatten(sample.data)[0])
        before: Steps = tree.map_structure(lambda leaf: leaf[:-1], steps)
        ended = before.step_type == LAST
        data = adders.Step(
            observation=before.observation,
            action=before.action,
            reward=tf.where(ended, 0.0, steps.reward[1:]),
            discount=tf.where(ended, 0.0, steps.discount[1:]),
            start_of_episode=before.step_type == FIRST,
            extras=before.extras,
        )
        return reverb.ReplaySample(info=sample.info, data=data)

    return postprocess


def unpack(like: Nest, packed: Any) -> Nest:
    """As `nodes.tables.reverb.signature.unpack`, of a tensor uint8 [T, N]."""
    leaves = []
    for leaf, own in parts(like, packed.shape[-1]):
        dtype, part = np.dtype(leaf.dtype), packed[:, own]
        if dtype.kind == "b":
            leaves.append(tf.reshape(part != 0, (-1, *leaf.shape)))
        else:
            wide = () if dtype.itemsize == 1 else (dtype.itemsize,)
            leaves.append(tf.bitcast(tf.reshape(part, (-1, *leaf.shape, *wide)), tf.as_dtype(dtype)))
    return tree.unflatten_as(like, leaves)
