"""Tables that tools print."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.table import Table

UNBROKEN = 1_000  # Letters of a line.


def show(table: Table) -> None:
    """Prints a table, as wide as the terminal; in a file or a pipe no line is broken, so that it can be searched."""
    Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNBROKEN).print(table)
