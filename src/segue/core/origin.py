"""What sends a message: a program, a person, or a conversation."""

from typing import Final, Literal

MessageOrigin = Literal[
    "python", "terminal", "page", "api", "chat_completions", "responses", "ag_ui", "a2a", "mcp", "conversation"
]
"""`api` is Segue's own HTTP API; `conversation` sends messages to its bot."""
PEOPLE: Final = ("page", "terminal")
"""The origins of what a person writes."""

FORK_MARK = "↳ "
"""What the title of a fork begins with."""
