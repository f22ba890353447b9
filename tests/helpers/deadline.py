"""How long tests wait for what should take seconds, so that a slow machine fails none of them."""

from __future__ import annotations

DEADLINE_S = 400.0  # Below the limit of a test, so that what it waited for is named.
