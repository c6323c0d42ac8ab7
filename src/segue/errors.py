"""Every error that Segue raises: `from segue.errors import ModelError`."""

from .core.errors import *  # noqa: F403
