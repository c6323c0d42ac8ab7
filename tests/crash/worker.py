"""One of two processes that race for threads: it lives for all races.

It reads lines of JSON from the pipe `letterbox`.in and answers each in `letterbox`.out: {"session", "message", "at",
"wait"} gives {"end": done | the error's name}, {"histories": [session, …]} gives {"histories"}. {"asked": {label:
session}, "readers"} gives {"ends", "reads", "failed"} of tasks beside readers, {"until": path, "sessions", "readers"}
gives {"reads", "failed"} of readers that read until the path exists.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Mapping
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
            elif "asked" in request:
                reply = await _load(app, request)
            elif "until" in request:
                reply = await _read(app, request["sessions"], request["readers"], Path(request["until"]).exists)
            else:
                reply = {"end": await _race(app, request)}
            said.write(json.dumps(reply) + "\n")


async def _race(app: App, request: dict[str, Any]) -> str:
    options = {"wait": request["wait"]} if request["wait"] else {}
    while time.time() < request["at"]:
        pass  # to begin at the same instant is worth a busy wait
    return await _end_of(app, request["message"], request["session"], **options)


async def _end_of(app: App, message: str, session: str, **options: Any) -> str:
    try:
        result = await app.ask(message, session_id=session, agent=AGENT, **options)
    except SegueError as error:
        return type(error).__name__
    return str(result["status"])


async def _load(app: App, request: dict[str, Any]) -> dict[str, Any]:
    """Run the tasks at once, and read their sessions until the last one is done."""
    asked, done = request["asked"], asyncio.Event()
    reading = asyncio.create_task(_read(app, [*asked.values()], request["readers"], done.is_set))
    ends = await asyncio.gather(*(_end_of(app, f"pay {label}", session) for label, session in asked.items()))
    done.set()
    return {"ends": dict(zip(asked, ends, strict=True)), **await reading}


async def _read(app: App, sessions: list[str], readers: int, done: Callable[[], bool]) -> dict[str, Any]:
    """Read all there is of the sessions, again and again; a read that fails is not the last one."""
    reads, failed = 0, []

    async def read() -> None:
        nonlocal reads
        for session in itertools.cycle(sessions):
            if done():
                return
            try:
                await app.history(session)
                await app.tasks.list(session_id=session)
                await app.sessions.snapshots(session)
                reads += 3
            except SegueError as error:
                failed.append(f"a reader of {session}: {type(error).__name__}: {error}")

    await asyncio.gather(*(read() for _ in range(readers)))
    return {"reads": reads, "failed": failed}
