"""What one process of a command's run does: the command, or what a person does after it was cut off."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import segue
from segue import App
from segue.core.errors import DamagedSession, SegueError, ThreadExists

from .child import AGENT, agent_over, write
from .commands import BASE, COPY
from .scenarios import SESSION, Scenario, Turn, one, send
from .traps import Traps

NEXT: Mapping[str, Turn] = {
    SESSION: Turn("write once more", "react", one(send("n"))),
    COPY: Turn("write from the copy", "react", one(send("m"))),
}
"""What each session is asked afterwards."""
_TALK = Scenario(BASE.name, BASE.protocol, (*BASE.turns, *NEXT.values()))

Errand = Callable[[App, Any], Awaitable[Any]]
"""Takes a document where it needs one; that of a transfer is the path of the database."""


def run(orders: Mapping[str, Any]) -> None:
    """Do the errand or, with `after`, what comes then; `out.json` says how it went.

    `orders` are {"errand", "folder", "database", "sessions", "after", "at"?, "pages"?}: the last two map points to kill
    and say how much the database may grow. An errand's result is left in a file of its name, the sessions' histories
    in `history.json`.
    """
    folder, traps = Path(orders["folder"]), Traps(orders.get("at", {}), orders.get("pages"))
    traps.install()
    exported = folder / "export.json"
    document = json.loads(exported.read_text(encoding="utf-8")) if exported.exists() else None
    report: dict[str, Any] = {"error": None}
    began = time.monotonic()
    try:
        result = asyncio.run(_run(orders, document, traps))
        write(folder / ("history.json" if orders["after"] else f"{orders['errand']}.json"), result)
    except SegueError as error:
        report["error"] = {"type": type(error).__name__, "message": str(error)}
    report |= {"seconds": time.monotonic() - began, "written": traps.written}
    write(folder / "out.json", report)


async def _run(orders: Mapping[str, Any], document: Any, traps: Traps) -> Any:
    errand = ERRANDS[orders["errand"]]
    agent = agent_over(Path(orders["folder"]), traps, _TALK)
    database = Path(orders["folder"], orders["database"])
    if errand is transfer:
        document = database
    async with segue.open(database, agents=[agent]) as app:
        if orders["after"]:
            return await _after(app, document, errand, orders["sessions"])
        result = await errand(app, document)
        traps.reach("done")
        return result


async def _after(app: App, document: Any, errand: Errand, sessions: Iterable[str]) -> dict[str, Any]:
    """Do again what was not done, then send each session its next message; returns their histories.

    That a session is damaged shows only when it is sent something.
    """
    if errand is not recover:
        with suppress(ThreadExists):
            await errand(app, document)
    for session in sessions:
        try:
            await _ask(app, session)
        except DamagedSession:
            await errand(app, document)
            await _ask(app, session)
    return {session: await app.history(session) for session in sessions}


async def _ask(app: App, session: str) -> None:
    turn = NEXT[session]
    await app.ask(turn.message, session_id=session, agent=AGENT, mode=turn.mode)


async def fork(app: App, _: Any) -> Any:
    newest = (await app.sessions.snapshots(SESSION, limit=1))[0]
    return await app.rewind.fork(SESSION, newest.checkpoint_id, session_id=COPY)


async def copy(app: App, _: Any) -> Any:
    return await app.sessions.import_(await app.sessions.export(SESSION), session_id=COPY)


async def export(app: App, _: Any) -> Any:
    return await app.sessions.export(SESSION)


async def import_(app: App, document: Any) -> Any:
    return await app.sessions.import_(document, session_id=COPY)


async def transfer(_: App, database: Path) -> Any:
    """Copy everything from the database beside this one."""
    return (await segue.copy(database.with_name("segue.db"), database)).json()


async def recover(app: App, _: Any) -> Any:
    return await app.sessions.recover(SESSION)


async def prune(app: App, _: Any) -> Any:
    return await app.sessions.prune(3, session_id=SESSION)


async def undo(app: App, _: Any) -> Any:
    first = (await app.rewind.timeline(SESSION))[0].short_id
    return await app.rewind.undo(SESSION, first)


ERRANDS: Mapping[str, Errand] = {
    "fork": fork,
    "copy": copy,
    "export": export,
    "import": import_,
    "transfer": transfer,
    "recover": recover,
    "prune": prune,
    "undo": undo,
}
