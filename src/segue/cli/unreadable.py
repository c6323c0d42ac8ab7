"""Sessions whose state cannot be read, and whether an older state of theirs can."""

from dataclasses import dataclass
from pathlib import Path

from langchain_core.runnables import RunnableConfig

from ..app import open as open_app
from ..checkpoints.sqlite.database import open_database
from ..checkpoints.sqlite.repair.survey import Survey
from ..checkpoints.sqlite.state_reading import state_at
from ..core.errors import DamagedSession, NothingReadable, UnknownThread
from ..graphs.chat import MODES
from ..registry import Registry
from ..runtime.runner import Runner


@dataclass(frozen=True)
class Unreadable:
    """What is wrong with a session's newest checkpoint; `lost` says what that means where no older one can be read."""

    reason: str
    lost: str = ""


async def unreadable_sessions(file: Path, most: int) -> dict[str, Unreadable]:
    """List the sessions and read those that were used last, at most that many; returns the damaged ones.

    Raises:
        SegueError: nothing can be read.
    """
    reasons: dict[str, str] = {}
    async with open_app(file) as app:
        for session in [row["thread_id"] for row in await app.threads()][:most]:
            try:
                await app.history(session)
            except UnknownThread:  # nothing was stored of what was said last
                pass
            except DamagedSession as error:
                reasons[session] = error.reason
    return {session: Unreadable(reason, await _lost(file, session)) for session, reason in reasons.items()}


async def _lost(file: Path, session: str) -> str:
    """Why nobody can go back to an older state of a session; empty where that can be done."""
    database = await open_database(str(file))
    runner = Runner(database, Registry(), MODES)

    async def readable(config: RunnableConfig) -> None:
        await state_at(runner.graph, config)

    try:
        await Survey(database, runner.saver, readable, session).damage()
    except (NothingReadable, UnknownThread) as error:
        return str(error) if isinstance(error, NothingReadable) else ""
    finally:
        await runner.close()
        await database.close()
    return ""
