"""A turn of a long session beside one of a short one: `python -m costs.turns URL FOLDER TURNS` prints JSON."""

import asyncio
import json
import sys
import time
from pathlib import Path
from statistics import median

from .peers import segue

LATE = 5
"""So many turns are measured of each kind: the last of the long session, the fifth of as many short ones."""
SHORT = 5
MESSAGE = "y" * 1_000


async def main(url: str, folder: Path, turns: int) -> None:
    """Print the milliseconds of CPU that a turn takes."""
    async with segue("native", read_only=True)(url, folder) as ask:

        async def turn(session: str, number: int) -> float:
            start = time.process_time()
            async for _ in ask(f"{MESSAGE} [bench native 0 {session}-{number}]", session):
                pass
            return (time.process_time() - start) * 1000

        early = [[await turn(f"short-{n}", number) for number in range(SHORT)][-1] for n in range(LATE + 1)]
        late = [await turn("long", number) for number in range(turns)][-LATE:]
    print(json.dumps({str(SHORT): median(early[1:]), str(turns): median(late)}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
