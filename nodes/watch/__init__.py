"""The watch over nodes: their heartbeats and limits, the monitor's view of them, and the health of learning."""
