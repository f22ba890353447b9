"""Flags from a program function's signature, and how a command ends that can't do its work."""
