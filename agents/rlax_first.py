"""rlax, imported before TensorFlow and without it: for modules that use rlax, and for those that import Reverb.

rlax brings TensorFlow Probability, which refuses to load once an older TensorFlow than its own is in the process.
Loaded first, it never looks. It would load TensorFlow itself, though it does without where there is none: so there
seems to be none meanwhile, which spares 325 MB and six seconds of every process that does not read a replay server.
"""

import sys

_HIDDEN = "tensorflow" not in sys.modules
if _HIDDEN:
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # an import of it fails
try:
    import rlax as rlax
finally:
    if _HIDDEN:
        del sys.modules["tensorflow"]
