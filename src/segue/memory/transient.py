"""Memory files that end with their process."""

from collections.abc import Sequence

from ..core.memory import MemoryEntry
from ..core.prompt_size import tokens as count


class TransientMemory:
    """A `Memory` for graphs that run without the app: nothing reaches the disk."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, MemoryEntry]] = {}

    async def append(self, name: str, entry: MemoryEntry) -> None:
        self._files.setdefault(name, {}).setdefault(entry.key, entry)

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        """The newest entries that fit, oldest first."""
        entries = [entry for name in names for entry in self._files.get(name, {}).values()]
        kept = ""
        for entry in sorted(entries, key=lambda entry: entry.created_at, reverse=True):
            text = f"## Round {entry.round}: {entry.branch}\n\n{entry.text}\n\n{kept}".strip()
            if count(text) > tokens:
                break
            kept = text
        return kept
