"""The recorder: a stored session becomes a cassette that was replayed once."""

from collections.abc import Sequence

from ...app import App
from ...core.errors import TaskError
from ...prompts.language import Language
from ...registry import Registry
from .cassette import Cassette
from .redaction import redacted
from .replay import replay
from .stored_session import read_session


async def record(app: App, session_id: str, *, redact: Sequence[str] = (), language: Language = "en") -> Cassette:
    """The session as a cassette; its replay with the app's agents shows that it is complete, and gives the requests.

    The values of the fields `redact`, of arguments and results, are replaced wherever they occur. Of a fork the
    requests are those of the replay: its own were sent under other ids.

    Raises:
        UnknownThread, UnknownAgent, DamagedSession.
        ConfigurationError: a field cannot be redacted.
        TaskError: the session cannot be recorded, with the reason in `language`.
    """
    stored, compare = await read_session(app, session_id), not await _forked(app, session_id)
    cassette = await _replayed(app, stored, language, compare=compare)
    return await _replayed(app, redacted(cassette, redact), language, compare=False) if redact else cassette


async def _replayed(app: App, cassette: Cassette, language: Language, *, compare: bool) -> Cassette:
    examples = Registry()
    own = [agent for agent in app.agents.values() if agent != examples.get(agent.agent_id)]
    made = await replay(cassette, agents=own, modes=app.own_modes, compare=compare)
    if made.difference:
        raise TaskError(
            "Session {session} cannot be recorded, since its replay differs: give the agents file that it ran with. If "
            "a prompt, a tool, the model or a memory file has changed since, run the session again.\n{difference}",
            session=cassette.session,
            difference=made.difference.describe(language),
        )
    return made.cassette


async def _forked(app: App, session_id: str) -> bool:
    """Whether the session began as a copy of another one, or of a document."""
    if any(task.copy_of for task in await app.tasks.list(session_id=session_id, limit=-1)):
        return True
    return any(snapshot.forked_from is not None for snapshot in await app.sessions.snapshots(session_id, -1))
