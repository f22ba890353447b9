"""What turns a program into a run: the command line, the ways to launch, and supervision."""
