"""The ways to run a program, which `--launch` names."""
