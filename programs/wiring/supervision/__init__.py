"""What watches a running program and the processes beside it: shows them, starts them again and ends them."""
