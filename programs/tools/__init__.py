"""Tools that look at a run: play, plot, match, explain, export, members."""
