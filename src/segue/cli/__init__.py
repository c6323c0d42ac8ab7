"""The command line `segue`."""

from .commands import app, main

__all__ = ["app", "main"]
