"""Environments that are pure JAX programs, for the programs that compile environment, policy and update into one."""
