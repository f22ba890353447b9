"""What watches a running program's processes and threads, shows them, starts them again and ends them."""
