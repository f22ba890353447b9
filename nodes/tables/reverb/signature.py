"""Raw steps as Reverb keeps them, a list of leaves, and in the agent's own classes.

Named tuples that have been through TensorFlow come back as classes of its own. So whoever reads knows the signature,
one raw step as `nodes.acting.local.step_shapes` gives it, and puts the leaves back into it. The order is dm-tree's, in
which the writer flattens, and in which an inference node sends the leaves of the extras. TensorFlow's is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tree

from boonta.agents.base import Steps


def flatten(steps: Steps) -> list[Any]:
    """The leaves, in the order of the columns of Reverb's tables."""
    return tree.flatten(steps)


def unflatten(signature: Steps, leaves: Sequence[Any]) -> Steps:
    """The leaves in the signature's classes.

    Raises:
      ValueError: there are not as many leaves as in the signature.
    """
    return tree.unflatten_as(signature, leaves)
