"""One conversation as a task of an app."""

from collections.abc import Callable

from ..app import App
from ..core.conversation import Conversation, ConversationConfig, Utterance
from ..core.errors import UnknownThread
from ..core.ids import Ids
from ..core.records import Json
from ..nodes.conversation.init import read_config
from ..runtime.request import Request
from .log import ending_of
from .segue_bot import attach

MODE = "conversation"


async def converse(
    app: App,
    config: ConversationConfig,
    *,
    conversation_id: str = "",
    heard: Callable[[Utterance], None] = lambda utterance: None,
) -> Conversation:
    """Run a conversation to its end, and return it; `heard` is called with every utterance as it happens.

    The conversation is the session of that id. One that was interrupted goes on where it stopped, and one that ended
    is only read.

    Raises:
        ConfigurationError: it names what is not there.
        ModelError: a participant's model failed; calling this again goes on.
        ThreadBusy, and what `App.start` raises.
    """
    attach(app)
    session_id = conversation_id or Ids().thread()
    known = await app.tasks(session_id=session_id, limit=1)
    if known and known[0]["result"]:
        return await load_conversation(app, session_id)
    if known:
        task_id = known[0]["task_id"]
        row, run = await app.control.resume(task_id)
    else:
        message = config.model_dump_json(exclude_defaults=True)
        request = Request(message, session_id=session_id, agent=config.bot_agent, language=config.language)
        row, run = await app.control.start(request, unlisted=MODE)
    async for event in app.follow(row.task_id):
        if event.type == "utterance":
            heard(Utterance.of(event.utterance))
    await app.control.result(row, run)
    return await load_conversation(app, session_id)


async def load_conversation(app: App, conversation_id: str) -> Conversation:
    """A conversation as far as it got, from its stored events.

    Raises:
        UnknownThread: there is none of that id.
    """
    tasks = await app.tasks(session_id=conversation_id, limit=1)
    if not tasks or tasks[0]["mode"] != MODE:
        raise UnknownThread(conversation_id)
    task = tasks[0]
    forms = [form for form in await app.events(task["task_id"]) if form["type"] == "utterance"]
    ended: Json = (task["result"] or {}).get("conversation", {})
    config = read_config(task["message"])
    return Conversation(
        conversation_id=conversation_id,
        config=config,
        utterances=tuple(Utterance.of(form["data"]["utterance"]) for form in forms),
        state=ended.get("state", {}),
        ending=ending_of(ended) if ended else None,
        language=ended.get("language", config.language or "en"),
        task_id=task["task_id"],
    )
