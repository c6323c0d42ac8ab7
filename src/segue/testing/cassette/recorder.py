"""The recorder: reads a stored session, redacts it, and replays it once."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

from ...app import App
from ...core.calls import CallResult, CallStatus
from ...core.conversation import MODE
from ...core.errors import ConfigurationError, TaskError, UnknownThread
from ...core.events import Event, ModelCalled, NotesTaken, QuestionAnswered, Resumed
from ...core.records import Call, Json, TaskTrace
from ...core.task import OPEN, TaskStatus
from ...core.timeline import UNDO_SCOPE
from ...prompts.catalogue import Language
from ...registry import Registry
from ...runtime.reply import HumanAnswer, project
from .cassette import Answer, Cassette, Level, ModelCall, Reply, ServedTool, TakenNotes, ToolCall, Turn, asked_of
from .replay import replay


async def read_session(app: App, session_id: str) -> Cassette:
    """The session as it is stored; the requests' texts are not, only their digests."""
    tasks = await app.tasks.list(session_id=session_id, limit=-1)
    if not tasks:
        raise UnknownThread(session_id)
    traces = [await app.tasks.trace(task.task_id) for task in reversed(tasks)]
    for trace in traces:
        _check(trace)
    agents = {task.agent_id for task in tasks}
    return Cassette(
        session=session_id,
        served={name: served for name in sorted(agents) if (served := await _served(app, name))},
        turns=tuple(
            turn_of(trace, named=(app.agents.agent(trace.task.agent_id).model is not None)) for trace in traces
        ),
        messages=tuple(await app.history(session_id)),
    )


def _check(trace: TaskTrace) -> None:
    """Refuse what cannot be replayed."""
    task, session = trace.task, trace.task.session_id
    if task.mode == MODE or task.origin == "conversation":
        raise TaskError(
            "Session {session} belongs to a conversation: the log of `segue simulate` replays it.", session=session
        )
    if task.status == TaskStatus.WAITING:
        raise TaskError(
            "Session {session} cannot be recorded: task {task_id} waits for an answer. Give it with segue answer "
            "{task_id}, or cancel the task.",
            session=session,
            task_id=task.task_id,
        )
    if task.status in OPEN:
        raise TaskError(
            "Session {session} cannot be recorded: task {task_id} is {status}. Resume or cancel it first.",
            session=session,
            task_id=task.task_id,
            status=task.status,
        )
    known = project(trace.events)
    if known.recovered:
        raise TaskError(
            "Session {session} cannot be recorded: it was damaged and went back to an earlier state.", session=session
        )
    if task.attachments:
        raise TaskError(
            "Session {session} cannot be recorded: the message of task {task_id} has files, which a cassette does not "
            "hold.",
            session=session,
            task_id=task.task_id,
        )
    if any(not call.reply for call in known.model_calls):
        raise TaskError(
            "Session {session} cannot be recorded: an earlier version of Segue ran task {task_id} and kept no replies.",
            session=session,
            task_id=task.task_id,
        )


async def _served(app: App, agent_id: str) -> tuple[ServedTool, ...]:
    """The tools of the agent's MCP servers, which are asked for them now."""
    agent = app.agents.agent(agent_id)
    if not (agent.mcp or agent.a2a):
        return ()
    names = await app.agents.served_tools(agent)
    tools = app.agents.tools_for(agent)
    return tuple(ServedTool.of(tools[name]) for name in names)


def turn_of(trace: TaskTrace, *, named: bool = False) -> Turn:
    """A task that ended as a turn; `named`: its model was asked for by name."""
    task, known = trace.task, project(trace.events)
    calls = [call for call in trace.calls if not call.scope.startswith(UNDO_SCOPE)]
    worked = _worked(task.created_at, trace.events)
    ended = {(event.scope, event.index): event.seq for event in known.results}
    ran = [ended[key] for key in map(_key, calls) if key in ended]
    result = task.result or {}
    return Turn(
        message=task.message,
        task_id=task.task_id,
        agent=task.agent_id,
        mode=task.mode,
        model=task.model if named else "",
        language=task.language or "",
        user=task.user_id,
        created_at=task.created_at,
        trace_ids=tuple(each.trace_id for each in known.rounds.values() if each.opened),
        notes=tuple(note.message for note in known.steered),
        taken_notes=tuple(_taken(event, known.model_calls, ran) for event in known.notes_taken),
        answers=tuple(_answers(known.answers, task.answer or {})),
        permitted=tuple(known.permitted),
        model_calls=tuple(_model_call(event, worked) for event in known.model_calls),
        tool_calls=tuple(_tool_call(row, _key(row) in ended, worked) for row in calls),
        status=cast(Any, str(task.status)),
        answer=result.get("answer") or "",
        error=result.get("error") or "",
        failure="" if result else task.error or "",
        partial=known.partial,
    )


def _worked(created_at: float, events: Sequence[Event]) -> Callable[[float], float]:
    """Seconds of work from a task's beginning to a moment: without those that it was paused, or had no process."""
    stops = [(before.timestamp, event.timestamp) for before, event in pairwise(events) if isinstance(event, Resumed)]

    def worked(moment: float) -> float:
        idle = sum(end - start for start, end in stops if end <= moment)
        return round(max(moment - created_at - idle, 0.0), 3)

    return worked


def _key(call: Call) -> tuple[str, int]:
    """What the events of a task name the call by."""
    return call.scope, call.idx


def _taken(event: NotesTaken, model_calls: Sequence[ModelCalled], results: Iterable[int]) -> TakenNotes:
    """How many calls there had been when the agent took the notes."""
    asked = sum(call.seq < event.seq for call in model_calls)
    return TakenNotes(count=event.count, model_calls=asked, tool_calls=sum(seq < event.seq for seq in results))


def _answers(answered: Sequence[HumanAnswer], last: Json) -> Iterator[Answer]:
    """What a person answered; `last` is the last answer as the task has it, which may finish a flow."""
    for place, each in enumerate(answered, start=1):
        if isinstance(each.given, QuestionAnswered):
            answer = Answer(asked=each.given.question, value={"answer": each.given.answer})
        else:
            asked = asked_of({"calls": each.calls}) if each.calls else ""
            verdicts = [{**verdict} for verdict in each.given.verdicts]
            for verdict in verdicts:
                verdict.pop("original", None)
                verdict.pop("by", None)
            answer = Answer(asked=asked, value={"verdicts": verdicts})
        value = last.get("value")
        if place == len(answered) and isinstance(value, dict) and value.get("manual_finish"):
            answer = answer.model_copy(update={"value": value})
        yield answer


def _model_call(event: ModelCalled, worked: Callable[[float], float]) -> ModelCall:
    about = {name: getattr(event, name) for name in ("purpose", "model", "input", "output")}
    return ModelCall(**about, at=worked(event.timestamp), digest=event.request, reply=Reply.model_validate(event.reply))


def _tool_call(row: Call, has_result: bool, worked: Callable[[float], float]) -> ToolCall:
    """A call of the ledger; one that ran when the task was cancelled has no outcome of its own."""
    interrupted = not has_result and CallResult.of(row.outcome or {}).status is CallStatus.LEFT_OPEN
    return ToolCall(
        name=row.name,
        arguments=row.arguments,
        at=worked(row.finished_at or 0.0),
        outcome=None if interrupted else row.outcome,
    )


async def record(
    app: App,
    session_id: str,
    *,
    redact: Sequence[str] = (),
    level: Level = "requests",
    language: Language = "en",
) -> Cassette:
    """The session as a cassette; its replay with the app's agents shows that it is complete, and gives the requests.

    The values of the fields `redact`, of arguments and results, are replaced wherever they occur. Of a fork the
    requests are those of the replay: its own were sent under other ids. `level` is that of the cassette.
    """
    stored, compare = await read_session(app, session_id), not await _forked(app, session_id)
    cassette = await _replayed(app, stored, language, compare=compare)
    made = await _replayed(app, redacted(cassette, redact), language, compare=False) if redact else cassette
    return made.model_copy(update={"level": level})


async def _replayed(app: App, cassette: Cassette, language: Language, *, compare: bool) -> Cassette:
    given = [*app.agents.values()]
    own = [] if given == [*Registry().values()] else given
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


SHORTEST = 4
"""Characters of a value that can be told from other text."""
_GIVEN = ("arguments", "command_args", "params")
"""What a reply in JSON calls the arguments of its calls."""
_TEXTS = (
    *("message", "notes", "request", "reasoning", "text", "arguments", "outcome", "asked", "reason", "content"),
    *("answer", "error", "failure", "partial"),
)
"""The fields of a cassette, and of messages in OpenAI's format, that hold words of people, models and tools."""


def redacted(cassette: Cassette, names: Sequence[str]) -> Cassette:
    """The cassette with REDACTED_NAME_1 and so on in the place of every value of these fields."""
    written = [said for turn in cassette.turns for said in _said(turn)]
    places: dict[str, str] = {}
    for name in names:
        values = list(dict.fromkeys(value for said in written for value in _values(said, name)))
        if not values:
            raise ConfigurationError("There is nothing to redact: no argument or result is called {name}.", name=name)
        for number, value in enumerate(values, 1):
            if not isinstance(value, str) or len(value) < SHORTEST:
                raise ConfigurationError(
                    "{name} cannot be redacted: redacted values need at least {least} characters, and one "
                    "of its values is {value}.",
                    name=name,
                    least=SHORTEST,
                    value=json.dumps(value),
                )
            stand_in = f"REDACTED_{name.upper()}_{number}"
            places |= dict.fromkeys(_spellings(value), stand_in)
    places = dict(sorted(places.items(), key=lambda item: -len(item[0])))
    form = cassette.model_dump(mode="json")
    return Cassette.model_validate(form | {part: _in_texts(form[part], places) for part in ("turns", "messages")})


def _said(turn: Turn) -> Iterator[Any]:
    """The arguments and outcomes of a turn's calls, also of calls that were not made, and the answers of people."""
    for call in turn.tool_calls:
        yield call.arguments
        yield from (call.outcome or {}).values()
    for reply in (call.reply for call in turn.model_calls):
        yield from (called.arguments for called in reply.tool_calls)
        yield from (given for name in _GIVEN for given in _fields(reply.text, name))
    for answer in turn.answers:
        yield from (given for name in ("arguments", "answer") for given in _fields(answer.value, name))


def _values(given: Any, name: str) -> Iterator[Any]:
    return (value for field in _fields(given, name) for value in _scalars(field))


def _fields(given: Any, name: str) -> Iterator[Any]:
    """The fields of that name, also in texts that are JSON."""
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            yield from _fields(json.loads(given), name)
        except (ValueError, RecursionError):
            return
    elif isinstance(given, list):
        for item in given:
            yield from _fields(item, name)
    elif isinstance(given, dict):
        for key, value in given.items():
            yield from (value,) if key == name else _fields(value, name)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item)
    elif value is not None and value != "":
        yield value


def _spellings(value: str) -> set[str]:
    """The value as it is, and as JSON text writes it, also within another JSON text."""
    found = {value}
    for _ in range(2):
        found |= {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in found for ascii_only in (True, False)}
    return found


def _in_texts(given: Any, places: dict[str, str]) -> Any:
    """A part of a cassette with the values replaced in its texts, and its names, ids and states as they are."""
    if isinstance(given, list):
        return [_in_texts(item, places) for item in given]
    if not isinstance(given, dict):
        return given
    return {key: (_replaced if key in _TEXTS else _in_texts)(value, places) for key, value in given.items()}


def _replaced(given: Any, places: dict[str, str]) -> Any:
    if isinstance(given, str):
        for value, stand_in in places.items():
            given = given.replace(value, stand_in)
        return given
    if isinstance(given, list):
        return [_replaced(item, places) for item in given]
    return {key: _replaced(item, places) for key, item in given.items()} if isinstance(given, dict) else given
