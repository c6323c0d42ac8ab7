"""One of two processes that race for threads: it lives for all races.

It reads lines of JSON from the pipe `letterbox`.in and answers each in `letterbox`.out: {"session", "message", "at",
"wait"} gives {"end": done | the error's name}, {"histories": [session, …]} gives {"histories"}.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import segue
from segue import App
from segue.core.errors import SegueError

from . import controls
from .child import AGENT, agent_over
from .races import race_turn
from .traps import Traps


class Races:
    """What the agent is asked in a race."""

    turn_of = staticmethod(race_turn)


def race(orders: Mapping[str, Any]) -> None:
    """Race until the letterbox is closed; `orders` are {"folder", "letterbox", "without"}."""
    controls.apply(orders["without"], (), None)
    way_in, way_out = (Path(f"{orders['letterbox']}.{way}") for way in ("in", "out"))
    with way_in.open(encoding="utf-8") as heard, way_out.open("w", encoding="utf-8", buffering=1) as said:
        asyncio.run(_talk(Path(orders["folder"]), heard, said))


async def _talk(folder: Path, heard: TextIO, said: TextIO) -> None:
    loop = asyncio.get_running_loop()
    async with segue.open(folder / "segue.db", agents=[agent_over(folder, Traps({}), Races)]) as app:
        while line := await loop.run_in_executor(None, heard.readline):
            request = json.loads(line)
            reply: dict[str, Any]
            if "histories" in request:
                reply = {"histories": {session: await app.history(session) for session in request["histories"]}}
            else:
                reply = {"end": await _race(app, request)}
            said.write(json.dumps(reply) + "\n")


async def _race(app: App, request: dict[str, Any]) -> str:
    options = {"wait": request["wait"]} if request["wait"] else {}
    while time.time() < request["at"]:
        pass  # to begin at the same instant is worth a busy wait
    try:
        result = await app.ask(request["message"], session_id=request["session"], agent=AGENT, **options)
    except SegueError as error:
        return type(error).__name__
    return str(result["status"])
