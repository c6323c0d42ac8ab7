"""Relevance of memory to a goal: by words and, with embeddings, by meaning."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from math import sqrt
from operator import mul
from typing import TYPE_CHECKING

from ..passages.index import PassageIndex
from ..passages.markdown import Passage
from .excerpt import Piece, newest_first

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

logger = logging.getLogger(__name__)

MOST_FOUND = 64
"""Pieces that either way finds."""
MOST_EMBEDDED = 512
"""Pieces that are compared by their meaning, the newest."""
MOST_KEPT = 4 * MOST_EMBEDDED
_RANK = 60
"""How little the first ranks stand out when both ways are put together."""

Vector = Sequence[float]


class Relevance:
    """Ranks pieces. Vectors are kept for the next time."""

    def __init__(self, embeddings: "Embeddings | None" = None) -> None:
        self._embeddings = embeddings
        self._vectors: dict[str, Vector] = {}

    async def ranked(self, pieces: Sequence[Piece], goal: str) -> list[Piece]:
        """The pieces that are relevant to the goal, the most relevant first."""
        by_words = await asyncio.to_thread(_by_words, pieces, goal)
        if self._embeddings is None:
            return by_words
        return _fused(by_words, await self._by_meaning(self._embeddings, pieces, goal))

    async def _by_meaning(self, embeddings: "Embeddings", pieces: Sequence[Piece], goal: str) -> list[Piece]:
        recent = newest_first(pieces)[:MOST_EMBEDDED]
        try:
            goal_vector = await embeddings.aembed_query(goal)
            vectors = await self._embedded(embeddings, [piece.text for piece in recent])
        except Exception as error:  # noqa: BLE001 - embeddings are anybody's code: without them the words decide
            logger.warning("The embeddings failed, memory files are searched by words alone: %s", error)
            return []
        closeness = await asyncio.to_thread(_closeness, goal_vector, vectors)
        order = sorted(range(len(recent)), key=lambda index: -closeness[index])
        return [recent[index] for index in order[:MOST_FOUND]]

    async def _embedded(self, embeddings: "Embeddings", texts: Sequence[str]) -> list[Vector]:
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            found = await embeddings.aembed_documents(new)
            self._vectors.update(zip(new, found, strict=True))
        vectors = [self._vectors[text] for text in texts]
        for text in list(self._vectors)[:-MOST_KEPT]:
            del self._vectors[text]
        return vectors


def _by_words(pieces: Sequence[Piece], goal: str) -> list[Piece]:
    index = PassageIndex()
    index.add("", (Passage(piece.branch, piece.text) for piece in pieces), len(pieces))
    return [pieces[place] for place in index.places("", goal, MOST_FOUND)]


def _closeness(goal: Vector, vectors: Sequence[Vector]) -> list[float]:
    return [sum(map(mul, goal, vector)) / (_length(goal) * _length(vector) or 1.0) for vector in vectors]


def _length(vector: Vector) -> float:
    return sqrt(sum(map(mul, vector, vector)))


def _fused(*rankings: Sequence[Piece]) -> list[Piece]:
    """Reciprocal rank fusion: what several rankings have near their beginning comes first."""
    scores: dict[int, float] = defaultdict(float)
    found: dict[int, Piece] = {}
    for ranking in rankings:
        for rank, piece in enumerate(ranking):
            scores[piece.place] += 1 / (_RANK + rank)
            found[piece.place] = piece
    return [found[place] for place in sorted(scores, key=lambda place: -scores[place])]
