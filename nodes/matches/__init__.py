"""Matches between players, and the ratings computed from them."""
