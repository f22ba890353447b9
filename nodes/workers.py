"""Launchpad's node for workers: nodes that only call others."""

from __future__ import annotations

from nodes import rlax_first  # noqa: F401

# isort: split

from nodes.services import lp


class WorkerNode(lp.PyClassNode):
    """A node that only calls others.

    A class of its own so that a process that unpickles it imports this module, and with it rlax, before the handles
    that it holds bring TensorFlow in.
    """
