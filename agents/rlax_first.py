"""Imports rlax before TensorFlow and without it, for modules that use rlax and for those that import TensorFlow.

rlax imports TensorFlow Probability, which refuses to load if a TensorFlow older than it requires is in the process, but
doesn't check later. It would load TensorFlow itself, but works without it. So this module hides TensorFlow meanwhile,
which saves 325 MB and three seconds of processor time in every process.

TensorFlow Probability 0.25 asks for TensorFlow 2.18, and dm-reverb 0.7.1 and dm-launchpad 0.5.0 need 2.8. Once they run
with a newer one, this module is needless but for what it saves; once rlax needs no TensorFlow Probability, altogether.
"""

import sys

_HIDDEN = "tensorflow" not in sys.modules
if _HIDDEN:
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # This makes an import of it fail.
try:
    import rlax as rlax
except ImportError as error:
    if _HIDDEN:
        raise
    raise ImportError(
        f"import boonta's modules before TensorFlow, and before acme, which brings it: {error}"
    ) from error
finally:
    if _HIDDEN:
        del sys.modules["tensorflow"]
