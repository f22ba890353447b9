"""Who lives and works: a node's heartbeats and limits, and the monitor's view of all nodes."""
