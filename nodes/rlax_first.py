"""Imports rlax before TensorFlow; every module here that imports Reverb, and so TensorFlow, imports this one first.

rlax brings TensorFlow Probability, which refuses to load once an older TensorFlow than its own is in the process.
Loaded first, it never looks.
"""

import rlax as _rlax  # noqa: F401
