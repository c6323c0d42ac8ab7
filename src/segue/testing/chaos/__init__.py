"""Chaos: whether tools are safe to resume, found with real processes that are killed around their real calls."""
