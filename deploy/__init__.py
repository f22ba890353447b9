"""Deployment: the same program on many hosts, each of which builds it anew and runs its own node."""
