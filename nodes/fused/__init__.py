"""Environment, policy and update in one compiled program."""
