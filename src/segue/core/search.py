"""What a search finds."""

from dataclasses import dataclass
from typing import Literal

from .records import Public

Role = Literal["user", "assistant"]


@dataclass(frozen=True, kw_only=True)
class Hit(Public):
    """A task in whose message or answer something was found; `snippet` is the text around it, `role` who wrote it.

    `thread_id` is the session that it is shown in: of what a conversation's bot was told, the conversation's.
    """

    task_id: str
    thread_id: str
    title: str
    role: Role
    snippet: str
    created_at: float
