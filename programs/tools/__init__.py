"""Tools that look at a run: play, compare, match, explain, export, status."""
