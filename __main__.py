"""The console script `boonta`: runs a tool, and passes the rest of the command line on."""

from __future__ import annotations

import importlib
import sys

RUN_TOOLS = ("compare", "evaluate", "explain", "export", "match", "play", "runs", "status", "sweep")
TOOLS = ("train", "list", "doctor", "metrics", *RUN_TOOLS)


def main() -> int:
    """Runs the tool that the first argument names."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name not in TOOLS:
        print(f"Usage: boonta TOOL [ARGUMENT...]\n\nTools: {', '.join(TOOLS)}; boonta TOOL --help shows its arguments.")
        return 0 if name in ("-h", "--help") else 2
    sys.argv = [f"boonta {name}", *sys.argv[2:]]
    importlib.import_module(f"boonta.programs.tools.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
