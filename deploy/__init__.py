"""Deployment: the same program on many hosts, each of which builds the program and runs its own node."""
