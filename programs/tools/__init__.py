"""The tools of the command `boonta`: they start runs, and look at them."""
