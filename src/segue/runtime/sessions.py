"""Sessions: messages, snapshots, copies, exports and recovery, the sessions of bots, and users' preferences."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import convert_to_openai_messages, messages_to_dict
from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from ..checkpoints.storage import Storage
from ..checkpoints.tasks import Tasks
from ..core.context import Ids
from ..core.conversation import bot_session
from ..core.errors import (
    DamagedSession,
    FileUnavailable,
    InvalidExport,
    InvalidMessage,
    SegueError,
    TaskError,
    ThreadBusy,
    UnknownThread,
)
from ..core.json import DEEPEST, is_too_deep
from ..core.message import ATTACHMENTS, ReplyOptions, naming
from ..core.records import (
    Hit,
    Json,
    Permission,
    Recovery,
    RequestKey,
    Session,
    SessionChanges,
    SessionFilter,
    Task,
    Thread,
)
from ..core.task import check_session
from ..core.timeline import Branch, Pruned, Retention, Snapshot
from ..prompts.catalogue import Language
from ..tools.adapters.client import client_tool_specs
from .history import Pruning
from .message_files import exported_files, imported_files
from .run import state_at, thread_config
from .runner import Runner

logger = logging.getLogger(__name__)

EVERY = SessionFilter()


def _one_line(title: str) -> str:
    return " ".join(title.split())


class Sessions:
    """The sessions of an app, as records: `get` one, `list` them, copy, export, prune or delete one."""

    def __init__(self, storage: Storage, runner: Runner, ids: Ids, pruning: Pruning) -> None:
        self._storage = storage
        self._runner = runner
        self._ids = ids
        self._pruning = pruning
        self.shares = storage.shares

    def new_id(self) -> str:
        """A name for a new session."""
        return self._ids.thread()

    async def history(self, session_id: str) -> Sequence[Json]:
        """The session's messages in OpenAI's format; `attachments` describes the files of one.

        Raises:
            UnknownThread: it has no message.
        """
        state = await state_at(self._runner.graph, thread_config(session_id))
        messages = state.values.get("messages")
        if not messages:
            raise UnknownThread(session_id)
        return [
            {**convert_to_openai_messages(message), **naming(message.additional_kwargs.get(ATTACHMENTS, ()))}
            for message in messages
        ]

    async def list(
        self,
        limit: int = -1,
        which: SessionFilter = EVERY,
        *,
        pinned_first: bool = False,
        after: tuple[bool, float, str] | None = None,
    ) -> Sequence[Thread]:
        """The sessions, the last used first.

        `after` has `pinned`, `updated_at` and `thread_id` of the last one of the page before.
        The session of a conversation's bot is part of the conversation, and is listed with `bots` only.
        """
        return await self._storage.threads.list(which, limit, pinned_first=pinned_first, after=after)

    async def search(
        self, text: str, *, prefix: str = "", session_id: str = "", limit: int = 20, before: str = ""
    ) -> Sequence[Hit]:
        """The tasks with every word of `text` in their message or answer, newest first, one hit for each.

        They are of sessions whose names begin with `prefix`, or of one; `before` is the task that the last page ended
        with. Words are found by their beginnings, Chinese by any part.
        """
        about = {"prefix": prefix, "thread_id": session_id, "before": before}
        return await self._storage.search.find(text, limit=limit, **about)

    async def unindexed(self) -> Sequence[str]:
        """The sessions that a search may not find, since its index is damaged."""
        return await self._storage.search.differing()

    async def index(self) -> None:
        """Make the search's index again, from the messages and answers."""
        await self._storage.search.rebuild()

    async def count(self, which: SessionFilter = EVERY) -> int:
        """How many sessions there are, as `list` lists them."""
        return await self._storage.threads.count(which)

    async def get(self, session_id: str) -> Thread:
        """One session, as `list` shows it.

        Raises:
            UnknownThread.
        """
        return await self._storage.threads.get(session_id)

    async def settings(self, session_id: str) -> Session | None:
        """What was chosen for a session; None where nothing was."""
        return await self._storage.sessions.get(session_id)

    async def permissions(self, session_id: str | None = None, prefix: str = "") -> Sequence[Permission]:
        """The permissions of a session, or of those whose names begin with `prefix`, oldest first.

        Raises:
            UnknownThread.
        """
        found = await self._storage.permissions.list(session_id, prefix)
        if session_id is not None and not found and await self._runner.tasks.latest_of(session_id) is None:
            raise UnknownThread(session_id)
        return found

    async def snapshots(self, session_id: str, limit: int = 50, before: str | None = None) -> Sequence[Snapshot]:
        """A page of the session's snapshots, the latest first.

        Raises:
            UnknownThread.
        """
        return await self._storage.sessions.snapshots(session_id, limit, before)

    async def create(self, session: Session, key: RequestKey | None = None, title: str = "") -> None:
        """Store a session without a message, with its title.

        Raises:
            InvalidMessage, ThreadExists, ThreadBusy, KeyUsed: nothing was stored.
        """
        check_session(session.session_id)
        await self._storage.sessions.create(session, title=_one_line(title), key=key)

    async def save_settings(self, session: Session) -> None:
        """Store what a session's messages use that name no agent or model.

        Raises:
            UnknownThread.
        """
        await self._storage.sessions.put(session)

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session a title; an empty one takes it back. Raises UnknownThread."""
        await self.change(session_id, SessionChanges(title=title))

    async def make_title(self, session_id: str) -> str:
        """Have the model of a session's agent name it, once; a name that it has, and what a person gives, stays.

        Returns the title. Without a language model that is the first message, shortened.

        Raises:
            UnknownThread.
            TaskError: none of its tasks has a result yet.
        """
        thread = await self.get(session_id)
        if await self._storage.threads.is_titled(session_id):
            return thread.title
        tasks = await self._storage.tasks.list(thread_id=session_id, limit=-1)
        answered = next((task for task in reversed(tasks) if task.result), None)
        if answered is None:
            raise TaskError(
                "Session {session_id} has no answer yet: wait for it, then ask for a title.", session_id=session_id
            )
        if title := await self._runner.afterwards.title(answered):
            await self.change(session_id, SessionChanges(title=title, is_made=True))
        return (await self.get(session_id)).title

    async def change(self, session_id: str, changes: SessionChanges) -> None:
        """Change a session: all that is named, or nothing.

        Raises:
            UnknownThread.
        """
        if changes.title is not None:
            changes = replace(changes, title=_one_line(changes.title))
        await self._storage.sessions.change(session_id, changes, self._runner.clock())

    async def fork(
        self,
        from_session: str,
        checkpoint_id: str,
        session_id: str,
        *,
        blocked: bool = False,
        key: RequestKey | None = None,
        branch: Branch | None = None,
    ) -> Task | None:
        """Copy a session as it was at a snapshot into a new one; returns the copy's newest task, if it has one.

        That of a conversation's bot is copied with it. A `blocked` task cannot be resumed until that is taken back.
        A `branch` is what the copy becomes in its conversation.

        Raises:
            InvalidMessage, UnknownThread, UnknownSnapshot, ThreadExists, ThreadBusy, KeyUsed, DamagedSession.
        """
        check_session(session_id)
        bot = await self._storage.tasks.bot_of(from_session)
        beside = [(bot, bot_session(session_id))] if bot else []
        storage = self._storage.sessions
        task_id = await storage.fork(
            from_session, checkpoint_id, session_id, beside, blocked=blocked, key=key, branch=branch
        )
        return await self._task(task_id)

    async def export(self, session_id: str) -> Json:
        """A session as a JSON document that `import_` takes, here or elsewhere.

        Raises:
            UnknownThread, DamagedSession.
        """
        document = await self._storage.sessions.export(session_id)
        place = {"thread_id": session_id, "checkpoint_id": document["thread"]["checkpoint_id"]}
        state = await state_at(self._runner.graph, {"configurable": place}) if place["checkpoint_id"] else None
        messages = state.values.get("messages", []) if state else []
        openai, full = convert_to_openai_messages(messages), messages_to_dict(messages)
        files = await exported_files(self._storage.files, document["tasks"])
        return {**document, "messages": openai, "messages_full": full, "files": files}

    async def import_(
        self, document: Any, session_id: str, user_id: str | None = None, key: RequestKey | None = None
    ) -> Task | None:
        """Store an exported session as a new one; returns its newest task, if it has one.

        Raises:
            InvalidMessage, InvalidExport, ThreadExists, ThreadBusy.
        """
        check_session(session_id)
        if is_too_deep(document):
            raise InvalidExport(f"it is nested more than {DEEPEST} levels deep")
        await asyncio.to_thread(_check_requests, document)
        async with imported_files(self._storage.files, document) as uploads:
            task_id = await self._storage.sessions.import_(document, session_id, user_id, key=key, uploads=uploads)
            return await self._task(task_id)

    async def _task(self, task_id: str | None) -> Task | None:
        """A graph that ran without the app has none."""
        return None if task_id is None else await self._storage.tasks.get(task_id)

    async def recover(self, session_id: str, language: Language = "en") -> Recovery:
        """Repair a damaged session and go back to its newest readable state; first the database is copied.

        What ran since is not run again. `repaired` has a sentence in `language` for each record that was damaged. Where
        only the records could be repaired, `readable` is False and the last sentence says why.

        Raises:
            UnknownThread, ThreadBusy, NothingReadable, DatabaseUnavailable.
        """

        async def readable(config: RunnableConfig) -> None:
            await state_at(self._runner.graph, config)

        async with self._runner.leased(session_id):
            return await self._storage.sessions.recover(self._runner.saver, readable, session_id, language)

    async def prune(
        self,
        retention: Retention | str | int,
        session_id: str | None = None,
        *,
        dry_run: bool = False,
        compact: bool = True,
    ) -> Pruned:
        """Merge the snapshots of one session, or of all, that are older than `retention`.

        `retention` is an age such as "30d", the number of snapshots that each session keeps, or both: "30d,100".
        History, traces and unfinished tasks stay. A `dry_run` only says what would be removed. The file is
        rewritten without them, which others wait for, unless `compact` is False.

        Raises:
            ConfigurationError: the retention is not valid.
            UnknownThread, DamagedSession: only of the session that is named.
        """
        return await self._pruning.prune(Retention.of(retention), session_id, dry_run=dry_run, compact=compact)

    def prune_hourly(self, retention: Retention) -> None:
        """Prune all sessions now and then every hour, in the background."""
        self._pruning.start(retention)

    async def branches(self, session_id: str) -> Sequence[Branch]:
        """The branches of the session's conversation, the first one at the beginning; empty where it has none."""
        branches, tasks = await self._storage.sessions.branches(session_id), self._storage.tasks
        return [each for each in branches if await tasks.latest_of(each.session_id) is not None]

    async def _conversation(self, session_id: str) -> Sequence[str]:
        """The session and the other branches of its conversation that exist."""
        branches = await self.branches(session_id)
        return [*(each.session_id for each in branches if each.session_id != session_id), session_id]

    async def delete(self, session_id: str, keep_memory: bool = False) -> None:
        """Delete a session and its branches: tasks, messages, snapshots, events and calls; forks and exports stay.

        So do memory files, but without the entries that its tasks wrote, unless `keep_memory` keeps them. The session
        of a conversation's bot is deleted with it, and those of called agents. The database's file is rewritten without
        them. A copy that `recover` made beside it is not changed.

        Raises:
            UnknownThread, ThreadBusy, DatabaseUnavailable, MemoryUnavailable.
        """
        for each in await self._conversation(session_id):
            async with self._runner.leased(each):
                await self._delete_leased(each, keep_memory)
        await self._storage.compact()

    async def discard(self, session_id: str, only: Callable[[Task], Awaitable[bool]] | None = None) -> None:
        """Delete a session that was just made, or `only` one whose newest task is like that.

        The rest of its conversation stays, and what is remembered.

        Raises:
            UnknownThread, ThreadBusy, DatabaseUnavailable.
        """
        async with self._runner.leased(session_id):
            task = await self._storage.tasks.latest_of(session_id) if only else None
            if only and not (task and await only(task)):
                return
            await self.discard_leased(session_id)

    async def discard_leased(self, session_id: str) -> None:
        """As `discard`, under the session's lease."""
        await self._delete_leased(session_id, keep_memory=True)
        await self._storage.compact()

    async def drop(self, session_id: str, wait: float) -> None:
        """Delete a session of one request, within `wait` seconds of its task's end; its room in the file is left free.

        Raises:
            UnknownThread, ThreadBusy, DatabaseUnavailable.
        """
        async with self._runner.leased(session_id, wait):
            await self._delete_leased(session_id, keep_memory=True)

    async def delete_unstored(self, seconds: float, open_seconds: float = 86_400.0) -> int:
        """Delete the sessions that nobody asked to store, `seconds` after their last task ended; returns how many.

        A task that does not end, as it waits or is paused, is deleted `open_seconds` after its last change. A session
        that cannot be deleted is logged, and left.

        Raises:
            DatabaseUnavailable.
        """
        deleted, now = 0, self._runner.clock()
        before, open_before = now - seconds, now - open_seconds
        for session_id in await self._storage.requests.unstored(before, open_before):
            try:
                deleted += await self._delete_unstored(session_id, before, open_before)
            except (ThreadBusy, UnknownThread):  # it continues, or another process deleted it
                continue
            except SegueError as error:
                logger.warning("Session %s could not be deleted: %s", session_id, error)
        if deleted:
            await self._storage.compact()
        return deleted

    async def _delete_unstored(self, session_id: str, before: float, open_before: float) -> bool:
        async with self._runner.leased(session_id):
            if not await self._storage.requests.unstored(before, open_before, session_id):  # it continued meanwhile
                return False
            await self._delete_leased(session_id, keep_memory=False)
            return True

    async def _delete_leased(self, session_id: str, keep_memory: bool) -> None:
        """Delete a session that is leased, the session of its bot, and those of the agents that it called."""
        for below in await self._storage.tasks.below(session_id):
            async with self._runner.leased(below):
                await self._delete_leased(below, keep_memory)
        if bot := await self._storage.tasks.bot_of(session_id):
            async with self._runner.leased(bot):
                with suppress(UnknownThread):  # it was never asked anything
                    await self._delete(bot, keep_memory)
        await self._delete(session_id, keep_memory)

    async def revoke(self, session_id: str, tool: str = "", agent_id: str = "") -> int:
        """Delete the session's permissions, of one tool or agent where it is named; returns how many there were.

        Raises:
            UnknownThread.
        """
        if await self._storage.tasks.latest_of(session_id) is None:
            raise UnknownThread(session_id)
        return await self._storage.permissions.revoke(session_id, tool, agent_id)

    async def _delete(self, session_id: str, keep_memory: bool) -> None:
        if not keep_memory:
            await self._forget(session_id)
        await self._storage.files.expire(session_id)
        await self._storage.sessions.delete(session_id, self._runner.saver.fence(session_id))
        await self._storage.files.delete_expired()

    async def _forget(self, session_id: str) -> None:
        """Delete the entries of memory files that the session's tasks wrote."""
        written: dict[str, set[str]] = {}
        for task in await self._storage.tasks.list(thread_id=session_id, limit=-1):
            written.setdefault(task.user_id, set()).add(task.task_id)
        for user_id, task_ids in written.items():
            await self._runner.memory.forget_tasks(task_ids, user_id=user_id)

    async def rate(self, task_id: str, rating: int) -> None:
        """Rate a task's answer from 1 to 5.

        Raises:
            UnknownTask, InvalidAnswer.
        """
        await self._storage.preferences.rate(task_id, rating)


def _check_requests(document: Any) -> None:
    """Refuse a document with a task that no message could have begun; what else it holds is checked with its rows."""
    tasks = document.get("tasks") if isinstance(document, Mapping) else None
    for place, task in enumerate(tasks if isinstance(tasks, list) else ()):
        try:
            ReplyOptions.of(task.get("reply_options") or {})
            functions = [spec["function"] for spec in task.get("client_tools") or ()]
            if [spec["function"] for spec in client_tool_specs(functions, ())] != functions:
                raise InvalidExport(f"its tasks.{place}.client_tools are not as Segue stores them")
        except (ValidationError, InvalidMessage, LookupError, TypeError, AttributeError) as error:
            raise InvalidExport(f"its tasks.{place} has wrong reply_options or client_tools") from error


async def unfinished_conversation(tasks: Tasks, session_id: str) -> Task | None:
    """The task of the conversation whose bot has this session, if it goes on or can be resumed."""
    conversation = await tasks.conversation_of(session_id)
    return conversation if conversation and not conversation.is_over else None


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
    bots = [await source.tasks.bot_of(name) for name in names]
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
