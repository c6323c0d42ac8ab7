"""Turns of a long session beside those of short ones: `python -m costs.turns PEER URL FOLDER TURN …` prints JSON."""

import asyncio
import json
import sys
import time
from itertools import count
from pathlib import Path
from statistics import median

from .peers import PEERS, page_tool
from .processes import TOOL

LATE = 5
"""So many turns of the long session are measured, each beside the fifth of a new one."""
SHORT = 5
MESSAGE = "y" * 1_000


async def main(peer: str, url: str, folder: Path, marks: list[int]) -> None:
    """Print the milliseconds of CPU of a fifth turn and of those about each mark, and the ratio of the pairs."""
    async with PEERS[peer](url, folder, page_tool(TOOL)) as ask:

        async def turn(session: str, number: int) -> float:
            start = time.process_time()
            async for _ in ask(f"{MESSAGE} [bench native 0 {session}-{number}]", session):
                pass
            return (time.process_time() - start) * 1000

        async def early() -> float:
            session = f"short-{next(new)}"
            return [await turn(session, number) for number in range(SHORT)][-1]

        new, done = count(), 0
        await early()  # only warms up
        found = {}
        for mark in marks:
            for number in range(done, mark - LATE):
                await turn("long", number)
            pairs = [(await early(), await turn("long", number)) for number in range(mark - LATE, mark)]
            done = mark
            found[str(SHORT)] = {"cpu": median(short for short, _ in pairs), "ratio": 1.0}
            found[str(mark)] = {"cpu": median(late for _, late in pairs), "ratio": median(b / a for a, b in pairs)}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), [int(turn) for turn in sys.argv[4:]]))
