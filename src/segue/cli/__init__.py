"""The command line `segue`."""

from .main import app, main

__all__ = ["app", "main"]
