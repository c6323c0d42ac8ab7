"""The bounds of numbers that people set: what is beyond them can be neither stored nor waited for."""

MOST_COUNT = 10**9
"""Of whatever is counted: calls, turns, tokens, characters."""
MOST_SECONDS = 10.0**9
LEAST_SEED, MOST_SEED = -(2**63), 2**63 - 1
