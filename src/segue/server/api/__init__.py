"""Segue's own HTTP API, a module per subject."""
