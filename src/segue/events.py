"""Every event: `from segue.events import ToolCall`."""

from .core.events import *  # noqa: F403
