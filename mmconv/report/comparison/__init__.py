"""Several runs of one benchmark beside each other: their differences, and a leaderboard of them.

Each run's own numbers are those of its folder; only what is between runs is computed here.
"""
