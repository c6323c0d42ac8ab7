"""Runs: begun, waited for, streamed, joined, cancelled and deleted, in a thread or without one."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from ...core.graph_objects import GraphEvent, GraphObject
from ...core.records import Json
from ...runtime.graph_events import MESSAGE
from ...runtime.graph_runs import ENDED, Action, NoSuchThread, Rows, RunConflict, is_end
from ..errors import encoded
from ..stream import EventStream
from .api import MOST_FOUND, Call, Config, Given, Refusal, checked_id, dated, new_id, read_as, route, unsupported
from .assistants import find_assistant
from .threads import add_thread, checkpoint_config, new_thread

Mode = Literal[
    "values",
    "messages",
    "messages-tuple",
    "updates",
    "events",
    "debug",
    "tasks",
    "checkpoints",
    "custom",
    "tools",
]
Strategy = Literal["reject", "interrupt", "rollback", "enqueue"]


class OfRun(Given):
    """What a run has, and what begins runs by a schedule."""

    webhook: str | None = None
    stream_mode: Mode | list[Mode] | None = None

    def check_supported(self, of: str) -> None:
        if self.webhook:
            raise unsupported(f"webhook of {of}")
        if "events" in (self.stream_mode or ()):
            raise unsupported("stream_mode 'events'")


class NewRun(OfRun):
    assistant_id: str
    input: Any = None
    command: Json | None = None
    metadata: Json | None = None
    config: Config | None = None
    context: Any = None
    checkpoint: Json | None = None
    checkpoint_id: str | None = None
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    multitask_strategy: Strategy | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    after_seconds: float | None = Field(default=None, ge=0)
    durability: Literal["sync", "async", "exit"] | None = None

    @property
    def modes(self) -> list[str]:
        given = self.stream_mode or "values"
        return [given] if isinstance(given, str) else [*given]


class BatchRun(NewRun):
    thread_id: str | None = None


class Cancelled(Given):
    thread_id: str | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


def show_run(run: GraphObject) -> Json:
    body = run.body
    return {
        "run_id": run.object_id,
        "thread_id": run.thread_id,
        "assistant_id": body["assistant_id"],
        "metadata": body["metadata"],
        "status": run.status,
        "kwargs": body["kwargs"],
        "multitask_strategy": body["multitask_strategy"],
        **dated(run),
    }


def _place(run: GraphObject, *end: str) -> str:
    return "/".join(("/threads", run.thread_id, "runs", run.object_id, *end))


# Beginning a run.


async def begin(
    call: Call, thread_id: str | None, given: NewRun, modes: Sequence[str] | None, *, run_id: str = ""
) -> tuple[GraphObject, int]:
    """Store a run, which begins once its turn comes; returns it and the number of the thread's last event before it.

    Without `modes` its events are those of the protocol with channels.
    """
    given.check_supported("runs")
    call.request.scope["segue_count_chat"]()
    assistant = await find_assistant(call, given.assistant_id)
    temporary = thread_id is None and given.on_completion != "keep"
    thread = new_thread(call, thread_id or run_id or new_id())
    if thread_id is None or given.if_not_exists == "create":
        await add_thread(call, thread)
    known = await call.get("thread", thread.object_id, "Thread or assistant not found.")
    kwargs: Json = {
        "input": given.input,
        "command": given.command,
        "config": _config(known, assistant, given),
        "context": _merged(assistant.body["context"], given.context),
        "stream_mode": modes and [*modes],
        "interrupt_before": given.interrupt_before,
        "interrupt_after": given.interrupt_after,
        "subgraphs": given.stream_subgraphs,
        "temporary": temporary,
        "durability": "sync",
    }
    about = {"graph_id": assistant.body["graph_id"], "assistant_id": assistant.body["assistant_id"]}
    body: Json = {
        **about,
        "metadata": {"created_by": "system", **known.body["metadata"], **about, **(given.metadata or {})},
        "kwargs": kwargs,
        "multitask_strategy": given.multitask_strategy or "enqueue",
        "due": time.time() + (given.after_seconds or 0.0),
        "tenant": call.tenant.json(),
    }
    run = call.new("run", run_id or new_id(), thread_id=thread.object_id, status="pending", body=body)
    try:
        last = await call.runs.submit(run, body["multitask_strategy"])
    except RunConflict:
        raise Refusal(
            409,
            "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
        ) from None
    except NoSuchThread:
        raise Refusal(404, "Thread or assistant not found.") from None
    return run, last


def _config(thread: GraphObject, assistant: GraphObject, given: NewRun) -> Json:
    own, config = assistant.body["config"] or {}, given.config or {}
    place = checkpoint_config(thread.object_id, given.checkpoint, given.checkpoint_id)["configurable"]
    configurable = {**(own.get("configurable") or {}), **(config.get("configurable") or {}), **place}
    metadata = {**(own.get("metadata") or {}), **(config.get("metadata") or {})}
    kept = {name: value for name, value in {**own, **config}.items() if name in ("tags", "recursion_limit", "run_name")}
    return {**kept, "configurable": configurable, "metadata": metadata}


def _merged(own: Any, given: Any) -> Any:
    return {**own, **given} if isinstance(own, dict) and isinstance(given, dict) else given or own


async def _begin(call: Call) -> tuple[NewRun, GraphObject, int]:
    """As `begin`, the run that a request describes, in the thread of its path."""
    thread_id = call.id("thread") if "thread_id" in call.request.path_params else None
    given = await call.body(NewRun)
    return given, *await begin(call, thread_id, given, given.modes)


async def create(call: Call) -> Response:
    _, run, _ = await _begin(call)
    return _json_response(show_run(run), {"Content-Location": _place(run)})


async def batch(call: Call) -> Any:
    listed = await call.json()
    if not isinstance(listed, list):
        raise Refusal(422, "The body is not a list of runs.")
    made = []
    for each in listed:
        given = read_as(BatchRun, each)
        thread_id = checked_id(given.thread_id, "thread") if given.thread_id else None
        made.append((await begin(call, thread_id, given, given.modes))[0])
    return [show_run(run) for run in made]


def _json_response(value: Any, headers: Mapping[str, str]) -> Response:
    return Response(encoded(value), media_type="application/json", headers=headers)


# Waiting for its end.


async def _result(call: Call, run: GraphObject) -> Json | None:
    """The values that a run ended with, and the questions that it waits with; or its error."""
    ended = await call.runs.wait(run.thread_id, run.object_id)
    if ended is not None and ended.body.get("error"):
        return {"__error__": ended.body["error"]}
    thread = await call.find("thread", run.thread_id)
    if thread is None:
        return None
    values, interrupts = thread.body.get("values") or {}, thread.body.get("interrupts") or {}
    asked = [each for listed in interrupts.values() for each in listed]
    return {**values, "__interrupt__": asked} if asked else values


def _waiting(call: Call, run: GraphObject, *, cancels: bool) -> Response:
    """The result, with a line break now and then before it: whoever waits long is not taken for gone."""

    async def lines() -> AsyncIterator[bytes]:
        reading = asyncio.ensure_future(_result(call, run))
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=call.service.settings.heartbeat_seconds)
                if not reading.done():
                    yield b"\n"
            yield encoded(reading.result()).encode()
        finally:
            if not reading.done():
                reading.cancel()
                if cancels:
                    await call.runs.cancel(run.thread_id, run.object_id)

    headers = {"Location": _place(run, "join"), "Content-Location": _place(run)}
    return StreamingResponse(lines(), media_type="application/json", headers=headers)


async def wait(call: Call) -> Response:
    given, run, _ = await _begin(call)
    return _waiting(call, run, cancels=given.on_disconnect == "cancel")


async def _run(call: Call) -> GraphObject:
    run = await call.get("run", call.id("run"))
    if "thread_id" in call.request.path_params and run.thread_id != call.id("thread"):
        raise Refusal(404, "Not Found")
    return run


async def join(call: Call) -> Response:
    return _waiting(call, await _run(call), cancels=_is_set(call, "cancel_on_disconnect"))


# Streaming.


def _sse(event: str, data: Any, seq: int | None = None) -> bytes:
    named = "" if seq is None else f"id: {seq}\n"
    return f"event: {event}\ndata: {encoded(data)}\n{named}\n".encode()


_Frame = tuple[str, Any]
"""The name of an event in a stream, and its data."""


class _Messages:
    """The messages of a stream, put together from their pieces: `messages/partial` has all that came of one."""

    def __init__(self) -> None:
        self._pieces: dict[str, Json] = {}

    def clear(self) -> None:
        """Forget the pieces of an attempt whose process died: the next one begins its messages anew."""
        self._pieces.clear()

    def add(self, data: Sequence[Any]) -> list[_Frame]:
        message, metadata = data
        message_id = str(message.get("id"))
        known = self._pieces.get(message_id)
        frames: list[_Frame] = [] if known else [("messages/metadata", {message_id: {"metadata": metadata}})]
        if not str(message.get("type")).endswith("Chunk"):
            self._pieces[message_id] = message
            return [*frames, ("messages/complete", [message])]
        whole = {**message, "type": "ai"}
        if known:
            whole = {**known, **{name: value for name, value in whole.items() if value}}
            whole["content"] = _joined(known.get("content"), message.get("content"))
        self._pieces[message_id] = whole
        return [*frames, ("messages/partial", [whole])]


def _joined(before: Any, after: Any) -> Any:
    return before + after if type(before) is type(after) and isinstance(before, str | list) else after or before


def _frames_of(event: GraphEvent, modes: Sequence[str], subgraphs: bool, messages: _Messages) -> list[_Frame]:
    """An event as the streams of runs have it."""
    form = event.event
    method, namespace, data = form["method"], form["namespace"], form["data"]
    if namespace and not subgraphs and method != MESSAGE:
        return []
    name = "|".join((method, *namespace)) if namespace and subgraphs else method
    if method == "lifecycle" and not namespace and data["event"] == "running":
        messages.clear()
    if method == MESSAGE:
        whole = messages.add(data) if "messages" in modes else []
        suffix = "".join(f"|{part}" for part in namespace) if subgraphs else ""
        return [*whole, *([(f"messages{suffix}", data)] if "messages-tuple" in modes else [])]
    if method not in modes:
        return []
    if method == "values" and form.get("interrupts"):
        data = {**data, "__interrupt__": form["interrupts"]}
    return [(name, data)]


async def run_frames(
    call: Call, run: GraphObject, after: int, modes: Sequence[str], *, joins: bool = False
) -> AsyncGenerator[bytes, None]:
    """What a client of a run's stream is sent: its events after a number, until it ends.

    Of several frames of an event only the last has its number, so that a client gets all of them again or none. One
    that `joins` has some of a message's pieces, and gets the whole message with the next one.
    """
    subgraphs, messages = bool(run.body["kwargs"].get("subgraphs")), _Messages()
    yield _sse("metadata", {"run_id": run.object_id, "attempt": 1})
    begin = 0 if joins and "messages" in modes else after
    async with aclosing(_of_run(call, run, begin)) as events:
        async for event in events:
            frames = _frames_of(event, modes, subgraphs, messages)
            if event.seq <= after:
                continue
            for place, (name, data) in enumerate(frames, 1):
                yield _sse(name, data, event.seq if place == len(frames) else None)
    ended = await call.find("run", run.object_id)
    if ended is not None and ended.body.get("error"):
        yield _sse("error", ended.body["error"])


async def _of_run(call: Call, run: GraphObject, after: int) -> AsyncGenerator[GraphEvent, None]:
    """The events of one run of a thread after a number, until the one that says how it ended."""
    stored = await call.find("run", run.object_id)
    last = await call.runs.tables.read(lambda rows: rows.last_event(run.thread_id))
    has_ended = stored is None or stored.status in ENDED
    if has_ended and after >= last:
        return
    async with aclosing(call.runs.follow(run.thread_id, after)) as events:
        async for event in events:
            if event.run_id == run.object_id:
                yield event
            if (event.run_id == run.object_id and is_end(event)) or (has_ended and event.seq >= last):
                return


def _streaming(
    call: Call, run: GraphObject, after: int, modes: Sequence[str], *, cancels: bool, joins: bool = False
) -> Response:
    async def frames() -> AsyncGenerator[bytes, None]:
        is_whole = False
        try:
            async with aclosing(run_frames(call, run, after, modes, joins=joins)) as made:
                async for frame in made:
                    yield frame
            is_whole = True
        finally:
            if cancels and not is_whole:
                await call.runs.cancel(run.thread_id, run.object_id)

    call.service.open_stream(call.tenant)
    headers = {"Location": _place(run, "stream"), "Content-Location": _place(run)}
    return EventStream(call.service, call.tenant, frames(), headers)


async def stream(call: Call) -> Response:
    given, run, last = await _begin(call)
    return _streaming(call, run, last, given.modes, cancels=given.on_disconnect == "cancel")


async def join_stream(call: Call) -> Response:
    run, query = await _run(call), call.request.query_params
    after = call.request.headers.get("last-event-id", "")
    modes = query.getlist("stream_mode") or run.body["kwargs"].get("stream_mode") or ["values"]
    cancels = _is_set(call, "cancel_on_disconnect")
    return _streaming(call, run, int(after) if after.isdecimal() else 0, modes, cancels=cancels, joins=True)


# Records, and their end.


async def get(call: Call) -> Any:
    return show_run(await _run(call))


async def list_runs(call: Call) -> Any:
    thread, query = await call.thread(call.id("thread")), call.request.query_params
    status, limit, offset = query.get("status"), _number(query, "limit", 10), _number(query, "offset", 0)
    runs = await call.runs.tables.read(lambda rows: rows.of_thread("run", thread.object_id))
    listed = [show_run(run) for run in reversed(runs) if status in (None, run.status)]
    select = query.getlist("select")
    page = listed[offset : offset + min(limit, MOST_FOUND)]
    return [{name: each.get(name) for name in select} for each in page] if select else page


def _number(query: Any, name: str, default: int) -> int:
    given = query.get(name, str(default))
    if not given.isdecimal():
        raise Refusal(422, f"{name} is no number.")
    return int(given)


def _action(call: Call) -> Action:
    match call.request.query_params.get("action", "interrupt"):
        case "interrupt":
            return "interrupt"
        case "rollback":
            return "rollback"
    raise Refusal(422, "action is neither interrupt nor rollback.")


def _is_set(call: Call, name: str) -> bool:
    return call.request.query_params.get(name, "").lower() in ("1", "true")


async def cancel(call: Call) -> Response:
    run = await _run(call)
    if not await call.runs.cancel(run.thread_id, run.object_id, _action(call)):
        raise Refusal(
            404,
            "No matching runs to cancel. Please verify the thread ID and run IDs are correct, "
            "and the runs haven't been deleted or completed.",
        )
    if not _is_set(call, "wait"):
        return JSONResponse({}, 202)
    await call.runs.wait(run.thread_id, run.object_id)
    return Response(status_code=204)


async def cancel_many(call: Call) -> None:
    given = await call.body(Cancelled)
    chosen = [
        run
        for run in await call.of_owner("run")
        if run.status not in ENDED
        and (given.run_ids is None or run.object_id in given.run_ids)
        and given.thread_id in (None, run.thread_id)
        and given.status in (None, "all", run.status)
    ]
    for run in chosen:
        await call.runs.cancel(run.thread_id, run.object_id, _action(call))


async def delete(call: Call) -> None:
    run = await _run(call)
    if run.status not in ENDED:
        raise Refusal(409, "The run has not ended: cancel it first.")

    def work(rows: Rows) -> None:
        rows.drop_events(run.thread_id, run.object_id)
        rows.delete("run", run.object_id)

    await call.runs.tables.write(work)


ROUTES = [
    route("POST", "/runs", create),
    route("POST", "/runs/wait", wait),
    route("POST", "/runs/stream", stream),
    route("POST", "/runs/batch", batch),
    route("POST", "/runs/cancel", cancel_many),
    route("GET", "/threads/{thread_id}/runs", list_runs),
    route("POST", "/threads/{thread_id}/runs", create),
    route("POST", "/threads/{thread_id}/runs/wait", wait),
    route("POST", "/threads/{thread_id}/runs/stream", stream),
    route("GET", "/threads/{thread_id}/runs/{run_id}", get),
    route("DELETE", "/threads/{thread_id}/runs/{run_id}", delete),
    route("GET", "/threads/{thread_id}/runs/{run_id}/join", join),
    route("GET", "/threads/{thread_id}/runs/{run_id}/stream", join_stream),
    route("POST", "/threads/{thread_id}/runs/{run_id}/cancel", cancel),
]
