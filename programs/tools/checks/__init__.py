"""What `boonta doctor` looks at. Nothing here imports more than the standard library and ours, until it is asked."""
