"""What `boonta doctor` looks at. Nothing here imports more than the standard library before it is asked."""
