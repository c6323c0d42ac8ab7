"""Pages of lists, whose `next` is the place of a page's last item in the list's order."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..core.records import Json
from .errors import Problem

Place = list[Any]
"""What the items of a list are sorted by, texts and numbers: no two have the same."""

MOST_ITEMS = 500
"""Items of a page, also where no number is asked for."""


@dataclass(frozen=True)
class Asked:
    """The page that is asked for, of a list that is there as a whole."""

    limit: int
    before: str | None

    def cut(
        self, items: Iterable[Json], place_of: Callable[[Json], Place] | None = None, *, reverse: bool = False
    ) -> Json:
        """The page; without `place_of`, in the order in which the list only grows."""
        limit = self.limit
        placed = [([number] if place_of is None else place_of(item), item) for number, item in enumerate(items)]
        placed.sort(key=lambda each: each[0], reverse=reverse)
        if self.before is not None and placed:
            after = read_place(self.before, placed[0][0])
            placed = [each for each in placed if (each[0] < after if reverse else each[0] > after)]
        return page([item for _, item in placed[:limit]], placed[limit - 1][0] if len(placed) > limit else None)


def page(items: list[Json], place: Place | None) -> Json:
    """A page that ends at a place, or with the list."""
    return {"items": items, "next": None if place is None else json.dumps(place, separators=(",", ":"))}


def read_place(before: str, like: Place) -> Place:
    """The place that a page ended with; `like` is another one of the list."""
    try:
        place = json.loads(before, parse_int=float, parse_constant=float)
        if [type(value) for value in place] == [str if isinstance(value, str) else float for value in like]:
            before_text = "".join(value for value in place if isinstance(value, str))
            before_text.encode()
            if "\0" not in before_text:
                return list(place)
    except (ValueError, TypeError, RecursionError):
        pass
    raise Problem(422, "NoSuchPage")
