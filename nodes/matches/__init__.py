"""Matches between players, and the ratings that follow from them."""
