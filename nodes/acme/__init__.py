"""Acme's actors, loops, loggers, counters and readers beside Boonta's nodes, tables and environments.

Importing this package needs dm-acme, and so CPython 3.10; see README.md beside it.
"""

import warnings

try:
    import acme
except ImportError as error:
    raise ImportError(
        f"boonta.nodes.acme needs dm-acme 0.4.0: {error}. It works on CPython 3.10 alone, where "
        "pip install 'boonta-rl[cluster]' brings it"
    ) from error

VERSION = "0.4.0"

if acme.__version__ != VERSION:
    warnings.warn(
        f"boonta.nodes.acme is made for dm-acme {VERSION}, and this is {acme.__version__}: where its loops, adders or "
        f"wrappers fail, pip install dm-acme=={VERSION}",
        stacklevel=2,
    )
