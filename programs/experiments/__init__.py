"""Experiments: many runs of programs, and what they show together."""
