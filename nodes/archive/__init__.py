"""Archives: recorded trajectories as files, and the reanalyzer that replays them."""
