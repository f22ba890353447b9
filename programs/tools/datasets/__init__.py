"""Data sets of other formats, which `convert` makes archives of."""
