"""One conversation as a task of an app, its configuration file and its log."""

import errno
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from ...app import App
from ...core.calls import WAIT
from ...core.context import Ids, RunContext
from ...core.conversation import (
    MODE,
    Conversation,
    ConversationConfig,
    Ending,
    EndReason,
    Role,
    RunsTools,
    Utterance,
    bot_session,
    config_of,
)
from ...core.errors import ConfigurationError, ThreadExists, UnknownThread
from ...core.events import Event, Uttered
from ...core.records import Json, RequestKey, Task
from ...core.spend import SPEND
from ...core.task import ANYBODY, ENDED, MessageOrigin, TaskStatus, check_session
from ...nodes.context import NodeContext
from ...nodes.conversation import read_config, with_language
from ...nodes.participants import api_of, check_participants
from ...prompts.catalogue import language_of
from ...registry import services_of
from ...runtime.control import Started
from ...runtime.start import Request
from .participants import with_workflow
from .segue_bot import attach

# Text files that are replaced as a whole.


def replace_text(file: Path, text: str) -> Path:
    """Write a file beside it and put it in its place, so that a crash leaves the old one or the new one.

    Raises:
        ConfigurationError: it cannot be written.
    """
    beside = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, file)
    except OSError as error:
        raise _unwritable(file, error) from error
    return file


def check_writable(file: Path) -> None:
    """Refuse a file that could not be written later; nothing is created.

    Raises:
        ConfigurationError: its folder is a file or cannot be written, or it is a folder itself.
    """
    try:
        present = next(parent for parent in file.absolute().parents if parent.exists())
        problems = {
            errno.EISDIR: file.is_dir(),
            errno.ENOTDIR: not present.is_dir(),
            errno.EACCES: not os.access(present, os.W_OK),
        }
        for number in (number for number, found in problems.items() if found):
            raise OSError(number, os.strerror(number))
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(file: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        "The file {file} cannot be written: {reason}.", file=file, reason=error.strerror or str(error)
    )


# The log of a conversation: JSON lines, first what it is about, then each utterance, last how it ended.

VERSION = 1
"""The version of the format."""


def write_log(conversation: Conversation, path: str | Path, *, time: str = "") -> None:
    """Write the log, in place of an earlier one; a conversation that has not ended has no last line."""
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(conversation, time))
    replace_text(Path(path), "".join(lines))


def _lines(conversation: Conversation, time: str) -> Iterator[Json]:
    config = conversation.config
    yield {
        "type": "meta",
        "version": VERSION,
        "segue": version("segue"),
        "conversation_id": conversation.conversation_id,
        "task_id": conversation.task_id,
        "language": conversation.language,
        "seed": config.seed,
        "workflow": config.workflow,
        "config": config.model_dump(mode="json", exclude_defaults=True),
        "time": time,
    }
    for utterance in conversation.utterances:
        yield {"type": "utterance", **utterance.json()}
    if conversation.ending:
        yield {"type": "end", **asdict(conversation.ending), "state": dict(conversation.state)}


def read_log(path: str | Path) -> Conversation:
    """Read a conversation's log.

    Raises:
        ConfigurationError: the file cannot be read, or is not a log of this version.
    """
    file = Path(path)
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        return _conversation(lines)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError("The log {file} cannot be read: {error}.", file=file, error=error) from error


def _conversation(lines: list[Json]) -> Conversation:
    meta = lines[0]
    if meta.get("type") != "meta" or meta.get("version") != VERSION:
        raise ValueError(f"its first line is not the meta line of version {VERSION}")
    end = lines[-1] if lines[-1]["type"] == "end" else {}
    return Conversation(
        conversation_id=meta["conversation_id"],
        config=config_of(meta["config"]),
        utterances=tuple(Utterance.of(line) for line in lines if line["type"] == "utterance"),
        state=end.get("state", {}),
        ending=ending_of(end) if end else None,
        language=meta["language"],
        task_id=meta["task_id"],
    )


def ending_of(form: Json) -> Ending:
    """The ending in a line or a result."""
    return Ending(
        reason=EndReason(form.get("reason") or form["end_reason"]),
        turns=form["turns"],
        usage=form.get("usage", {}),
        seconds=form.get("seconds", 0.0),
    )


# One conversation as a task of an app.

Person = Callable[[Json], Awaitable[str | Json | None]]
"""Asks a person what they say, or their verdicts on calls; None if they leave."""


async def converse(
    app: App,
    config: ConversationConfig,
    *,
    conversation_id: str = "",
    on_utterance: Callable[[Utterance], None] = lambda utterance: None,
    person: Person | None = None,
) -> Conversation:
    """Run a conversation to its end, and return it.

    The conversation is the session of that id: one that was interrupted continues where it stopped, and one that ended
    is only read. `on_utterance` is called with every utterance, also with those before an interruption. `person`
    answers for `input_user` and `input_bot`; without it, or if it gives None, the conversation is returned as far as
    it got. A workflow fills in what the configuration leaves open.

    Raises:
        ConfigurationError: it names what is not there.
        ModelError: a participant's model failed; calling this again continues.
        ThreadExists: the session is no conversation.
        ThreadBusy, and what `App.start` raises.
    """
    session_id, seen = conversation_id or Ids().thread(), 0
    task, run = await _begun(app, with_workflow(config), session_id, asks=person is not None)
    while True:
        async for event in app.follow(task.task_id, seen):
            seen = max(seen, event.seq)
            if isinstance(event, Uttered):
                on_utterance(Utterance.of(event.utterance))
        if run:
            await app.tasks.result(task, run)
        answered = await _answered(app, task.task_id, person)
        if answered is None:
            break
        task, run = answered
    await attach(app).close()
    return await load_conversation(app, session_id)


async def _begun(app: App, config: ConversationConfig, session_id: str, *, asks: bool) -> Started:
    """The conversation's task, and its run unless it ended or waits; where nobody `asks`, a limit may have room now."""
    attach(app)
    task = await app.tasks.newest(session_id)
    if task is None:
        return await start_conversation(app, config, session_id)
    if task.mode != MODE:
        raise ThreadExists(session_id)
    stored = read_config(task.message)
    given = config if config.language else config.model_copy(update={"language": stored.language})
    if config != ConversationConfig() and given != stored:
        raise ConfigurationError(
            "The conversation {session_id} has another configuration: leave the options out to continue it, or "
            "choose another name.",
            session_id=session_id,
        )
    await app.tasks.end_wait(task.task_id)
    if running := app.tasks.started(task.task_id):
        return running
    over = task.result or task.status in ENDED
    if not over and task.status == TaskStatus.WAITING:
        over = asks or (await app.question(task.task_id))["kind"] != SPEND
    return (task, None) if over else await app.tasks.resume(task.task_id)


async def start_conversation(
    app: App,
    config: ConversationConfig,
    session_id: str,
    *,
    user_id: str = ANYBODY,
    key: RequestKey | None = None,
    origin: MessageOrigin = "python",
) -> Started:
    """Start a conversation as the task of a new session, which runs in the background.

    The same request with the same key gives the conversation that it started. A workflow fills in what the
    configuration leaves open.

    Raises:
        ConfigurationError: it names what is not there, or what the app's restrictions do not allow.
        ThreadExists: there is a session of that id, or of the id that its bot has.
        KeyUsed: the key was used for another request.
    """
    app.agents.participants.restrictions.check(config)
    config = with_workflow(config)
    check_config(app, config)
    config = with_language(config, app.agents.agent(config.bot_agent))
    try:
        for name in (session_id, bot_session(session_id))[: 1 + config.has_agent]:
            check_session(name)
            if await app.tasks.newest(name):
                raise ThreadExists(name)
    except ThreadExists:
        if not (known := await app.tasks.known(key)):
            raise
        return app.tasks.started(known.task_id) or (await app.task(known.task_id), None)
    request = Request(
        config.model_dump_json(exclude_defaults=True),
        session_id=session_id,
        agent=config.bot_agent,
        user_id=user_id,
        language=config.language,
        key=key,
        origin=origin,
    )
    return await app.tasks.start(request, unlisted=MODE)


def check_config(app: App, config: ConversationConfig) -> None:
    """Build every participant once, before anything is stored, and refuse what is not there or does not fit.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    attach(app)
    check_participants(*_new(app, config))


def asked_tools(app: App, config: ConversationConfig) -> list[str]:
    """The tools of a conversation's API that a person may have to approve calls of.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    api = api_of(*_new(app, config))
    if not isinstance(api, RunsTools) or config.approvals != "ask":
        return []
    return [name for name, tool in api.tools.items() if tool.needs_approval]


def _new(app: App, config: ConversationConfig) -> tuple[Conversation, NodeContext]:
    """A conversation that has not begun, and what its participants are built with."""
    agent = app.agents.agent(config.bot_agent)
    work = NodeContext(services_of(app.agents, lambda _: None), RunContext(), agent)
    return Conversation(conversation_id="", config=config, language=config.language or "en"), work


async def _answered(app: App, task_id: str, person: Person | None) -> Started | None:
    """Ask the person, if the task waits for one, and continue; None if it does not, or if nobody answers."""
    if person is None or (await app.task(task_id)).status != TaskStatus.WAITING:
        return None
    question = await app.question(task_id)
    if question["kind"] == WAIT:
        return None
    reply = await person(question)
    if reply is None:
        return None
    return await app.tasks.resume_with(task_id, {"interrupt_id": question["interrupt_id"], "value": reply})


async def load_conversation(app: App, conversation_id: str) -> Conversation:
    """A conversation as far as it got, from its stored events.

    Raises:
        UnknownThread: there is none of that id.
    """
    task = await app.tasks.newest(conversation_id)
    if task is None or task.mode != MODE:
        raise UnknownThread(conversation_id)
    return conversation_in(task, await app.tasks.events(task.task_id))


def conversation_in(task: Task, events: Iterable[Event]) -> Conversation:
    """The conversation of a task, as far as its events show it."""
    utterances = tuple(Utterance.of(event.utterance) for event in events if isinstance(event, Uttered))
    ended: Json = (task.result or {}).get("conversation", {})
    config = read_config(task.message)
    first = next((u.text for u in utterances if u.role is Role.USER and u.text), "")
    return Conversation(
        conversation_id=task.session_id,
        config=config,
        utterances=utterances,
        state=ended.get("state", {}),
        ending=ending_of(ended) if ended else None,
        language=config.language or (language_of(first) if first else task.reply_language),
        task_id=task.task_id,
    )
