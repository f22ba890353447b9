"""Sinks: where the rows of a run's metrics go, and the processes that send them to trackers."""
