"""Archives: recorded trajectories as files, and the reanalyzer that learns from them."""
