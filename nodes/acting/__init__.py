"""How a node acts: with a policy in its own process, or through an inference node."""
