"""Acme's actors, loops, loggers, counters and readers beside Boonta's nodes, tables and environments.

Importing this package needs dm-acme, and so CPython 3.10; see README.md beside it.
"""

from boonta.agents import rlax_first  # noqa: F401  # Acme brings TensorFlow.

# isort: split

try:
    import acme  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"boonta.nodes.acme needs dm-acme 0.4.0: {error}. It works on CPython 3.10 alone, where "
        "pip install 'boonta-rl[cluster]' brings it"
    ) from error
