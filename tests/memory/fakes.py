"""Entries and embeddings that do not depend on the day."""

from langchain_core.embeddings import Embeddings

from segue.core.context import MemoryEntry

NOON = 1_763_812_800.0
"""2025-11-22 12:00:00 UTC."""


def entry(
    number: int = 1, text: str = "Wrote main.py.", *, task_id: str = "task-1", branch: str = "write"
) -> MemoryEntry:
    """The entry of a round; rounds are a minute apart."""
    return MemoryEntry(
        key=f"{task_id}:{number}",
        task_id=task_id,
        round=number,
        branch=branch,
        text=text,
        created_at=NOON + 60 * number,
    )


class LetterEmbeddings(Embeddings):
    """A text's vector says which of the known words are in it; synonyms share a place."""

    def __init__(self, *words: tuple[str, ...]) -> None:
        self._words = words
        self.embedded: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        return [float(any(word in text for word in words)) for words in self._words]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded += texts
        return [self.embed_query(text) for text in texts]
