"""A run's folder: its claim, and what lies in it besides checkpoints and metrics."""
