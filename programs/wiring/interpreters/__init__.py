"""The ways to run a program, which `--launch` names, and what Launchpad needs for two of them."""
