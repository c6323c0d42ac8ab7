"""One conversation as a task of an app."""

from collections.abc import Awaitable, Callable, Iterable

from ..app import App
from ..core.context import Ids, RunContext
from ..core.conversation import MODE, Conversation, ConversationConfig, Role, Utterance, bot_session
from ..core.errors import ConfigurationError, ThreadExists, UnknownThread
from ..core.events import Event, Uttered
from ..core.origin import MessageOrigin
from ..core.participants import RunsTools
from ..core.question import WAIT
from ..core.records import Json, RequestKey, Task
from ..core.spend import SPEND
from ..core.task_status import ENDED, TaskStatus
from ..nodes.conversation.init import read_config, with_language
from ..nodes.conversation.roles import api_of, check_participants
from ..nodes.shared.context import NodeContext
from ..prompts.language import language_of
from ..registry import services_of
from ..runtime.control import Started
from ..runtime.sessions import check_session
from ..runtime.start import Request
from .log import ending_of
from .segue_bot import attach
from .workflows import with_workflow

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
    user_id: str = "default",
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
            await _check_new(app, name)
    except ThreadExists:
        if not (known := await app.tasks.known(key)):
            raise
        return app.tasks.started(known.task_id) or (await app.tasks.get(known.task_id), None)
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


async def _check_new(app: App, session_id: str) -> None:
    """Make sure that there can be a session of that name, and is none yet.

    Raises:
        InvalidMessage, ThreadExists.
    """
    check_session(session_id)
    if await app.tasks.newest(session_id):
        raise ThreadExists(session_id)


async def _answered(app: App, task_id: str, person: Person | None) -> Started | None:
    """Ask the person, if the task waits for one, and continue; None if it does not, or if nobody answers."""
    if person is None or (await app.tasks.get(task_id)).status != TaskStatus.WAITING:
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
        conversation_id=task.thread_id,
        config=config,
        utterances=utterances,
        state=ended.get("state", {}),
        ending=ending_of(ended) if ended else None,
        language=config.language or (language_of(first) if first else task.reply_language),
        task_id=task.task_id,
    )
