"""The command line, the ways to launch a program, and supervision."""
