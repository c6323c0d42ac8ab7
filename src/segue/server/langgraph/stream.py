"""The streaming protocol with channels: commands, and the events of a thread over SSE or a WebSocket.

Events are replayed from the one after `since`, or from the first that is kept, and then follow as they are stored.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pydantic import AliasChoices, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from ...core.graph_objects import GraphEvent
from ...core.records import Json
from ...runtime.graph_events import MESSAGE
from ...runtime.graph_runs import is_end, pause
from ..errors import encoded
from ..stream import EventStream
from .api import Call, Given, Reader, Readers, Refusal, checked_id, read_as, route
from .runs import NewRun, Strategy, begin

CHANNELS = {"values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"}
_OF_RUNS = {"lifecycle", "input"}
"""What a client watches beside the channels that it reads."""
SETTLE_SECONDS = 0.3
"""How long the end of a short run is kept from who only watches: its client may be about to open another stream."""
LAG_SECONDS = 0.05
"""How much later than the events before it the end of a run is sent to who only watches."""


class Subscription(Given):
    """Which events of a thread a client wants."""

    channels: list[str]
    namespaces: list[list[str]] | None = None
    depth: int | None = Field(default=None, ge=0)
    since: int | None = Field(default=None, ge=0)

    @property
    def only_watches(self) -> bool:
        return {*self.channels} <= _OF_RUNS

    def has(self, event: GraphEvent) -> bool:
        form = event.event
        method, data = form["method"], form["data"]
        if method == MESSAGE:
            return False
        channel = {"input.requested": "input"}.get(method, method)
        named = f"custom:{data.get('name')}" if method == "custom" and isinstance(data, Mapping) else channel
        if channel not in self.channels and named not in self.channels:
            return False
        return not self.namespaces or any(self._is_below(form["namespace"], each) for each in self.namespaces)

    def _is_below(self, namespace: Sequence[str], prefix: Sequence[str]) -> bool:
        if len(prefix) > len(namespace):
            return False
        if self.depth is not None and len(namespace) - len(prefix) > self.depth:
            return False
        pairs = zip(namespace, prefix, strict=False)
        return all(wanted in (own, own.partition(":")[0]) for own, wanted in pairs)


def subscribed(given: Any) -> Subscription:
    """The subscription of a request.

    Raises:
        Refusal
    """
    wanted = read_as(Subscription, given)
    unknown = [each for each in wanted.channels if each not in CHANNELS and not each.startswith("custom:")]
    if unknown or not wanted.channels:
        raise Refusal(422, f"channels has the unknown {unknown[0]!r}." if unknown else "channels is empty.")
    return wanted


def shown(event: GraphEvent) -> Json:
    form = event.event
    params = {name: form[name] for name in ("namespace", "timestamp", "data")}
    event_id = f"{event.run_id}:{event.seq}"
    return {"type": "event", "event_id": event_id, "seq": event.seq, "method": form["method"], "params": params}


async def events_of(call: Call, thread_id: str, wanted: Subscription) -> AsyncGenerator[GraphEvent, None]:
    """The events of a thread of the tenant's, which may be created later."""
    if not await _is_own(call, thread_id):
        return
    readers = call.readers
    reader = Reader(thread_id, wanted.since or 0)
    if not wanted.only_watches:
        readers.add(reader)
    try:
        async with aclosing(call.runs.follow(thread_id, wanted.since or 0)) as events:
            async for event in events:
                if wanted.has(event):
                    if wanted.only_watches and _stops(event):
                        await _settle(readers, event)
                    yield event
                readers.move(reader, event.seq)
    finally:
        readers.remove(reader)


def _stops(event: GraphEvent) -> bool:
    return event.event["method"] == "input.requested" or is_end(event)


async def _settle(readers: Readers, event: GraphEvent) -> None:
    """Let the other streams of the thread come first: SDKs stop reading them once they hear that a run stopped."""
    left = SETTLE_SECONDS - (time.time() - event.event["timestamp"] / 1000)
    if left > 0:
        await readers.until_sent(event.thread_id, event.seq - 1, left)
        await asyncio.sleep(LAG_SECONDS)


async def _is_own(call: Call, thread_id: str) -> bool:
    """Wait until the thread is there; False where it is another tenant's, or the service stops."""
    with call.runs.watching(thread_id) as changed:
        while not call.runs.draining:
            thread = await call.runs.tables.read(lambda rows: rows.get("thread", thread_id))
            if thread is not None:
                return thread.owner == call.owner
            await pause(changed)
    return False


async def stream_events(call: Call) -> Response:
    thread_id, wanted = call.id("thread"), subscribed(await call.json())

    async def frames() -> AsyncGenerator[bytes, None]:
        async with aclosing(events_of(call, thread_id, wanted)) as events:
            async for event in events:
                form = shown(event)
                yield f"event: {form['method']}\ndata: {encoded(form)}\nid: {event.seq}\n\n".encode()

    call.service.open_stream(call.tenant)
    return EventStream(call.service, call.tenant, frames(), {})


# Commands.


class Command(Given):
    id: int | None = None
    method: str
    params: Json = Field(default_factory=dict)


class _Failed(Exception):
    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class RunStart(Given):
    assistant_id: str
    input: Any = None
    config: Json | None = None
    metadata: Json | None = None
    multitask_strategy: Strategy | None = Field(
        default=None, validation_alias=AliasChoices("multitask_strategy", "multitaskStrategy")
    )


async def _start(call: Call, thread_id: str, params: Json) -> tuple[Json, int]:
    """Begin a run; what is sent to a thread that waits with a question is the answer to it."""
    if not params.get("assistant_id"):
        raise _Failed("invalid_argument", "run.start requires an assistant_id.")
    given = read_as(RunStart, params)
    thread = await call.runs.tables.read(lambda rows: rows.get("thread", thread_id))
    forks = bool(((given.config or {}).get("configurable") or {}).get("checkpoint_id"))
    waits = thread is not None and thread.status == "interrupted" and thread.body.get("interrupts") and not forks
    new = NewRun(
        assistant_id=given.assistant_id,
        input=None if waits else given.input,
        command={"resume": given.input} if waits else None,
        config=given.config,
        metadata=given.metadata,
        multitask_strategy=given.multitask_strategy,
        if_not_exists="create",
    )
    run, last = await begin(call, thread_id, new, None)
    return {"run_id": run.object_id}, last


async def _respond(call: Call, thread_id: str, params: Json) -> tuple[Json, int]:
    """Answer the questions that a thread waits with."""
    thread = await call.runs.tables.read(lambda rows: rows.get("thread", thread_id))
    own = thread is not None and thread.owner == call.owner
    interrupts = (thread.body.get("interrupts") or {}) if own and thread else {}
    known = {each["id"] for listed in interrupts.values() for each in listed}
    listed = params.get("responses") if isinstance(params.get("responses"), list) else [params]
    answers = {str(each.get("interrupt_id")): each.get("response") for each in listed or ()}
    for interrupt_id in answers:
        if thread is None or thread.status != "interrupted" or interrupt_id not in known:
            raise _Failed("no_such_interrupt", f"Unknown or already-consumed interrupt: {interrupt_id}")
    assert thread is not None
    command = {"resume": answers, "update": params.get("update"), "goto": params.get("goto")}
    new = NewRun(
        assistant_id=thread.body["metadata"]["assistant_id"],
        command={name: value for name, value in command.items() if value is not None},
        config=params.get("config"),
        metadata=params.get("metadata"),
    )
    run, last = await begin(call, thread_id, new, None)
    return {"run_id": run.object_id}, last


_UNSUPPORTED = ("agent.getTree", "input.inject", "state.get", "state.listCheckpoints", "state.fork")


async def carry_out(call: Call, thread_id: str, given: Any) -> Json:
    """The answer to a command."""
    try:
        command = read_as(Command, given)
    except Refusal as refused:
        return {"type": "error", "id": None, "error": "invalid_argument", "message": refused.detail}
    try:
        if command.method == "run.start":
            result, last = await _start(call, thread_id, command.params)
        elif command.method == "input.respond":
            result, last = await _respond(call, thread_id, command.params)
        elif command.method in _UNSUPPORTED:
            raise _Failed("not_supported", f"{command.method} is not supported by Segue.")
        else:
            raise _Failed("unknown_command", f"Unknown protocol command: {command.method}")
    except _Failed as failed:
        return {"type": "error", "id": command.id, "error": failed.error, "message": str(failed)}
    except Refusal as refused:
        return {"type": "error", "id": command.id, "error": "unknown_error", "message": refused.detail}
    return {"type": "success", "id": command.id, "result": result, "meta": {"applied_through_seq": last}}


async def commands(call: Call) -> Response:
    return JSONResponse(await carry_out(call, call.id("thread"), await call.json()))


# The WebSocket, which takes commands and subscriptions.


async def serve_socket(websocket: WebSocket) -> None:
    """Answer the commands of a client, and send it the events that it subscribes to."""
    call = Call.of(Request({**websocket.scope, "type": "http", "method": "POST"}))
    try:
        thread_id = checked_id(str(websocket.path_params["thread_id"]), "thread")
    except Refusal:
        return await websocket.close(1008)
    await websocket.accept()
    sending: dict[str, asyncio.Task[None]] = {}
    try:
        while not call.runs.draining:
            answer = await _answer(call, websocket, thread_id, await websocket.receive_text(), sending)
            await websocket.send_text(encoded(answer))
    except WebSocketDisconnect:
        pass
    finally:
        for task in sending.values():
            task.cancel()
        await asyncio.gather(*sending.values(), return_exceptions=True)


async def _answer(
    call: Call, websocket: WebSocket, thread_id: str, text: str, sending: "dict[str, asyncio.Task[None]]"
) -> Json:
    try:
        given = json.loads(text)
    except ValueError:
        return {"type": "error", "id": None, "error": "invalid_argument", "message": "The frame is no JSON."}
    method = given.get("method") if isinstance(given, dict) else None
    params = given.get("params") if isinstance(given, dict) else None
    if method == "subscription.subscribe":
        try:
            wanted = subscribed(params)
        except Refusal as refused:
            return {"type": "error", "id": given.get("id"), "error": "invalid_argument", "message": refused.detail}
        name = str(len(sending) + 1)
        sending[name] = asyncio.create_task(_send_events(call, websocket, thread_id, wanted), name="websocket events")
        return {"type": "success", "id": given.get("id"), "result": {"subscription_id": name}}
    if method == "subscription.unsubscribe":
        task = sending.pop(str((params or {}).get("subscription_id")), None)
        if task is None:
            message = "There is no such subscription."
            return {"type": "error", "id": given.get("id"), "error": "no_such_subscription", "message": message}
        task.cancel()
        return {"type": "success", "id": given.get("id"), "result": {}}
    return await carry_out(call, thread_id, given)


async def _send_events(call: Call, websocket: WebSocket, thread_id: str, wanted: Subscription) -> None:
    async with aclosing(events_of(call, thread_id, wanted)) as events:
        async for event in events:
            await websocket.send_text(encoded(shown(event)))
    if call.runs.draining:
        await websocket.close(1012)


ROUTES = [
    route("POST", "/threads/{thread_id}/commands", commands),
    route("POST", "/threads/{thread_id}/stream/events", stream_events),
]
