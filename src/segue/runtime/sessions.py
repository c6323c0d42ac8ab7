"""What outlives a task: snapshots, forks, exports, recovery, and what a user prefers."""

import re
from typing import Any

from ..checkpoints.sqlite.database import Database
from ..checkpoints.sqlite.preferences import Preferences
from ..checkpoints.sqlite.sessions.snapshots import snapshots
from ..core.errors import InvalidMessage
from ..registry import Registry
from . import forks
from .control import Control
from .recovery import recover_session
from .run import Row
from .runner import Runner

_SESSION = re.compile(r"^[\w.:@-]{1,128}$")


def check_session(name: str) -> None:
    """Refuse a session's name that could not be written in a command or an address.

    Raises:
        InvalidMessage.
    """
    if not _SESSION.fullmatch(name):
        raise InvalidMessage(
            f"The session name {name[:40]!r} cannot be used: write up to 128 letters, digits or . _ : @ -"
        )


class Archive(Control):
    """The part of the app that looks back, and takes a thread elsewhere."""

    def __init__(self, database: Database, registry: Registry, runner: Runner) -> None:
        super().__init__(database, registry, runner)
        self._preferences = Preferences(database)

    async def snapshots(self, session_id: str, *, limit: int = 50, before: str | None = None) -> list[Row]:
        """A thread's snapshots, the latest first; `before` is the checkpoint_id that the last page ended with.

        Raises:
            UnknownThread.
        """
        return await snapshots(self._database, session_id, limit, before)

    async def fork(self, from_session: str, checkpoint_id: str, *, session_id: str) -> Row:
        """Copy a thread as it stands at a snapshot into a new one; returns the row of the copy's newest task.

        A task that had not ended there can be resumed in the copy: what had run is not run again.

        Raises:
            InvalidMessage, UnknownThread, UnknownSnapshot, ThreadExists, ThreadBusy, DamagedSession.
        """
        check_session(session_id)
        return await forks.fork(self._database, from_session, checkpoint_id, session_id)

    async def export(self, session_id: str) -> Row:
        """A thread as a JSON document that `import_` takes, here or elsewhere.

        Raises:
            UnknownThread, DamagedSession.
        """
        return await forks.export(self._database, self._runner.graph, session_id)

    async def import_(self, document: Any, *, session_id: str, user_id: str | None = None) -> Row:
        """Store an exported thread as a new one; returns the row of its newest task.

        Raises:
            InvalidMessage, InvalidExport, ThreadExists, ThreadBusy: nothing was stored.
        """
        check_session(session_id)
        return await forks.import_(self._database, document, session_id, user_id)

    async def recover(self, session_id: str) -> Row:
        """Mend a damaged thread's rows and go back to its newest state that can be read; first the database is copied.

        Returns {checkpoint_id, created_at, dropped, copy, mended}; `dropped` is 0 and `mended`, the sentences on its
        rows, is empty where nothing was damaged. What ran since is not run again. Where only the rows could be mended,
        `checkpoint_id` is None and the last sentence says why.

        Raises:
            UnknownThread, ThreadBusy, NothingReadable, DatabaseUnavailable: nothing was changed.
        """
        return await recover_session(self._database, self._runner, session_id)

    async def preferences(self, user_id: str) -> Row:
        """{"default_mode", "mode_history": [{"query", "mode", "rating"}]}, the latest first."""
        return await self._preferences.get(user_id)

    async def rate(self, task_id: str, rating: int) -> None:
        """Rate a task's answer from 1 to 5.

        Raises:
            UnknownTask, InvalidAnswer.
        """
        await self._preferences.rate(task_id, rating)
