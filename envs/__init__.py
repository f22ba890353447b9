"""Batched environments: one contract (`base`), one conformance suite (`conformance`), one module per world."""
