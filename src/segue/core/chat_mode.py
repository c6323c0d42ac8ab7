"""The built-in modes by name."""

from enum import StrEnum


class ChatMode(StrEnum):
    """How a message is worked on; each is accepted wherever a mode's name is."""

    DIRECT = "direct"
    """One answer without tools."""
    REACT = "react"
    """Round by round, with tools."""
    PLAN = "plan"
    """A plan first, then its steps."""
    PLAN_REACT = "plan_react"
    """A plan whose steps are carried out round by round."""
    LIFECYCLE = "lifecycle"
    """A goal broken down into subtasks, each of which runs on its own."""
    CONTROLLER = "controller"
    """A plan that a controller carries out branch by branch, with memory files."""
    AUTO = "auto"
    """The one of the above that suits the message."""
