"""Nodes: the processes of a program. They take handles and an `Agent`, never a concrete agent or environment."""
