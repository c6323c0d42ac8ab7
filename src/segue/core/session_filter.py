"""Which sessions are listed."""

from dataclasses import dataclass
from typing import Literal

Sender = Literal["people", "programs"]


@dataclass(frozen=True, kw_only=True)
class SessionFilter:
    """The sessions whose names begin with `prefix`, with `search` in the title or in the first message.

    `bots`: also those of conversations' bots. `archived`: only the archived ones, or only the others. `sender`: only
    those that people began, or that programs did.
    """

    prefix: str = ""
    search: str = ""
    bots: bool = False
    archived: bool | None = None
    sender: Sender | None = None
