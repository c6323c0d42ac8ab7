"""The audit log of an app: what was decided, whether the database is as the log says, and the log's head elsewhere."""

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..checkpoints.damage import verify
from ..checkpoints.storage import Storage
from ..core.audit import AuditEntry, AuditHead, AuditReport, AuditSettings
from ..core.errors import ConfigurationError, SegueError

logger = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds between two heads that are written elsewhere."""


class AuditLog:
    """The audit log of an app, as records."""

    def __init__(self, storage: Storage, settings: AuditSettings | bool | None = None) -> None:
        self._storage = storage
        self._settings = settings if isinstance(settings, AuditSettings) else AuditSettings(enabled=bool(settings))
        self._written: AuditHead | None = None
        self._regular: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin the log, where the settings say so, and write its head elsewhere now and then.

        Raises:
            ConfigurationError: the file for the head cannot be written.
        """
        if self._settings.enabled:
            if self._settings.anchor:
                await asyncio.to_thread(_check, Path(self._settings.anchor))
            await self.begin()
            self._written = await self._last_written()
            self._regular = asyncio.create_task(self._regularly(), name="audit head")

    @property
    def anchor(self) -> str:
        """The file that the head is written to; empty where there is none."""
        return self._settings.anchor

    async def begin(self) -> None:
        """Begin the log where the database has none, and seal what is stored already."""
        await self._storage.audit.begin()

    async def close(self) -> None:
        """Write the head for the last time."""
        if self._regular is not None:
            if self._regular.get_loop() is asyncio.get_running_loop():
                self._regular.cancel()
                await asyncio.gather(self._regular, return_exceptions=True)
            with suppress(SegueError):  # the database is gone
                await self._anchor()

    async def list(
        self,
        *,
        session_id: str = "",
        user_id: str = "",
        actor: str = "",
        action: str = "",
        session_prefix: str = "",
        before: int = 2**62,
        limit: int = 50,
    ) -> Sequence[AuditEntry]:
        """The entries, newest first, before a position: of the tasks of a user, or what somebody did."""
        about = {"thread_id": session_id, "user_id": user_id, "actor": actor, "action": action}
        return await self._storage.audit.list(**about, prefix=session_prefix, before=before, limit=limit)

    async def head(self) -> AuditHead | None:
        """The newest entry; None where the database has no audit log."""
        return await self._storage.audit.head()

    async def verify(self, heads: Sequence[AuditHead] = (), anchor: str | Path = "") -> AuditReport:
        """Compare the database with its log, and the log with heads that were kept elsewhere, also in a file.

        Raises:
            ConfigurationError: the file cannot be read.
        """
        known = [*heads, *(await asyncio.to_thread(read_anchor, Path(anchor)) if anchor else ())]
        return await self._storage.database.read(lambda connection: verify(connection, known))

    async def _regularly(self) -> None:
        while True:
            try:
                await self._anchor()
            except SegueError as error:
                logger.warning("The head of the audit log could not be read: %s", error)
            await asyncio.sleep(EVERY)

    async def _last_written(self) -> AuditHead | None:
        """The newest head in the anchor; without one the head is written once it changes."""
        if not self._settings.anchor:
            return await self.head()
        written = await asyncio.to_thread(read_anchor, Path(self._settings.anchor))
        return written[-1] if written else None

    async def _anchor(self) -> None:
        head = await self.head()
        if head is None or head == self._written:
            return
        logger.info("The head of the audit log is %s.", head)
        if self._settings.anchor:
            try:
                await asyncio.to_thread(_append, Path(self._settings.anchor), head)
            except OSError as error:
                logger.error("The head of the audit log cannot be written to %s: %s", self._settings.anchor, error)
                return
        self._written = head


def _check(file: Path) -> None:
    try:
        file.open("a", encoding="utf-8").close()
    except OSError as error:
        raise ConfigurationError(
            "The anchor of the audit log {file} cannot be written ({reason}): name a file in [audit].",
            file=file,
            reason=error.strerror or error,
        ) from error


def _append(file: Path, head: AuditHead) -> None:
    with file.open("a+b") as opened:
        opened.seek(max(0, opened.tell() - 1))
        begins = b"" if opened.read() in (b"", b"\n") else b"\n"  # a process was killed while it wrote the last line
        opened.write(begins + json.dumps({**vars(head), "moment": time.time()}).encode() + b"\n")


def read_anchor(file: Path) -> list[AuditHead]:
    """The heads that were written to a file; a line that a process was killed over is left out.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        whole = [line for line in lines if line.endswith("}") or not line.startswith("{")]
        return [AuditHead.parse("{position}:{digest}".format(**json.loads(line))) for line in whole]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(
            "The anchor of the audit log {file} cannot be read ({reason}): name the file of [audit].",
            file=file,
            reason=error,
        ) from error
