"""Ways for a node to act: with a policy in its own process, or through an inference node."""
