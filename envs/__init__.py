"""Batched environments: a contract (`base`), its conformance suite, and a module per environment or adapter."""
