"""Nodes: the processes of a program. They take handles and an `Agent`, never a concrete agent or environment."""

# rlax pulls in TensorFlow Probability, which refuses to load once an older TensorFlow is in the process. Loaded first,
# it never looks. Every node process unpickles its node, and so imports this package, before it touches Reverb.
import rlax as _rlax  # noqa: F401
