"""What this machine has for a program: cores, memory, accelerators, and a private network."""
