"""The page of one run, as a file and live; `boonta report` makes it."""
