"""Agents: pure functions on JAX arrays. Nothing here knows of processes, tables' servers or threads."""
