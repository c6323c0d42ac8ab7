"""Recorded material, replayed through the whole app."""
