"""Memory files as the nodes use them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class MemoryEntry:
    """An entry that a round adds to a memory file. Entries with the same `key` are the same entry."""

    key: str
    task_id: str
    round: int
    branch: str
    text: str
    created_at: float
    """Unix seconds."""


class Memory(Protocol):
    """Files of what was done; a name is a relative path such as `logs.md`."""

    async def append(self, name: str, entry: MemoryEntry) -> None:
        """Add the entry to the file; one whose key is there already changes nothing.

        Raises:
            MemoryUnavailable: with the reason, which the controller sees.
        """
        ...

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        """The newest entries and those relevant to the goal, as Markdown of at most so many tokens.

        A file that does not exist is empty.

        Raises:
            MemoryUnavailable.
        """
        ...
