"""Copies of sessions from one database to another."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..checkpoints.storage import Storage
from ..core.errors import DamagedSession, FileUnavailable, TaskError
from .bot_sessions import bot_session_of


@dataclass(frozen=True)
class Progress:
    """A session that was looked at, the `place`th of `n`; `error` says why it was not copied."""

    session_id: str
    place: int
    n: int
    copied: bool = False
    error: TaskError | DamagedSession | FileUnavailable | None = None


@dataclass
class Copies:
    """The sessions that were copied, those that were there already, and why others were not copied."""

    copied: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def json(self) -> Mapping[str, object]:
        """The public form."""
        return {"copied": self.copied, "present": self.present, "refused": self.refused}


async def copy_sessions(
    source: Storage,
    target: Storage,
    session_ids: Iterable[str] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Copies:
    """Copy sessions, or all of them, with the sessions of conversations' bots.

    Raises:
        DatabaseUnavailable: sessions that were copied before stay.
    """
    names = [*session_ids] or await source.sessions.threads()
    bots = [await bot_session_of(source.tasks, name) for name in names]
    names = [*dict.fromkeys(filter(None, (*names, *bots)))]
    found = Copies()
    for place, name in enumerate(names, 1):
        try:
            copied = await _copy(source, target, name)
        except (TaskError, DamagedSession, FileUnavailable) as error:
            found.refused[name] = str(error)
            on_progress(Progress(name, place, len(names), error=error))
            continue
        (found.copied if copied else found.present).append(name)
        on_progress(Progress(name, place, len(names), copied))
    return found


async def _copy(source: Storage, target: Storage, name: str) -> bool:
    """Copy a session after the contents of its files; False where it is there already."""
    whole = await source.sessions.read_whole(name)
    uploads = [
        await target.files.put(attachment, await source.files.get(attachment.digest))
        for attachment in await source.files.of_thread(name)
    ]
    try:
        return await target.sessions.store_whole(whole)
    finally:
        for upload_id in uploads:
            await target.files.discard(upload_id)
