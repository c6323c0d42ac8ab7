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

from ...core.errors import SegueError
from ...core.graph_objects import GraphEvent
from ...core.records import Json
from ...runtime.graph_events import MESSAGE
from ...runtime.graph_runs import is_end, pause
from ..errors import Problem, encoded
from ..stream import EventStream
from .api import Call, Config, Given, Reader, Readers, Refusal, checked_id, explain, read_as, route
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
    """The subscription of a request."""
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
            thread = await call.find("thread", thread_id)
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
    config: Config | None = None
    metadata: Json | None = None
    multitask_strategy: Strategy | None = Field(
        default=None, validation_alias=AliasChoices("multitask_strategy", "multitaskStrategy")
    )


class Answer(Given):
    interrupt_id: str
    response: Any = None


class InputRespond(Given):
    """The answers to several questions; without `responses` the parameters are the answer to one."""

    responses: list[Answer] | None = None
    update: Any = None
    goto: Any = None
    config: Config | None = None
    metadata: Json | None = None


class Unsubscription(Given):
    subscription_id: str


async def _start(call: Call, thread_id: str, params: Json) -> tuple[Json, int]:
    """Begin a run; what is sent to a thread that waits with a question is the answer to it."""
    if not params.get("assistant_id"):
        raise _Failed("invalid_argument", "run.start requires an assistant_id.")
    given = read_as(RunStart, params)
    thread = await call.find("thread", thread_id)
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
    given = read_as(InputRespond, params)
    answers = {each.interrupt_id: each.response for each in given.responses or [read_as(Answer, params)]}
    thread = await call.find("thread", thread_id)
    own = thread is not None and thread.owner == call.owner
    interrupts = (thread.body.get("interrupts") or {}) if own and thread else {}
    known = {each["id"] for listed in interrupts.values() for each in listed}
    for interrupt_id in answers:
        if thread is None or thread.status != "interrupted" or interrupt_id not in known:
            raise _Failed("no_such_interrupt", f"Unknown or already-consumed interrupt: {interrupt_id}")
    assert thread is not None
    command = {"resume": answers, "update": given.update, "goto": given.goto}
    new = NewRun(
        assistant_id=thread.body["metadata"]["assistant_id"],
        command={name: value for name, value in command.items() if value is not None},
        config=given.config,
        metadata=given.metadata,
    )
    run, last = await begin(call, thread_id, new, None)
    return {"run_id": run.object_id}, last


_UNSUPPORTED = ("agent.getTree", "input.inject", "state.get", "state.listCheckpoints", "state.fork")


def _error(command_id: Any, error: str, message: str) -> Json:
    return {"type": "error", "id": command_id, "error": error, "message": message}


async def carry_out(call: Call, thread_id: str, given: Any) -> Json:
    """The answer to a command."""
    try:
        command = read_as(Command, given)
    except Refusal as refused:
        return _error(None, "invalid_argument", refused.detail)
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
        return _error(command.id, failed.error, str(failed))
    except Refusal as refused:
        return _error(command.id, "unknown_error", refused.detail)
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
    subscriptions = _Subscriptions(call, websocket, thread_id)
    try:
        while not call.runs.draining:
            answer = await _answer(call, thread_id, await websocket.receive_text(), subscriptions)
            await websocket.send_text(encoded(answer))
    except WebSocketDisconnect:
        pass
    finally:
        await subscriptions.close()


class _Subscriptions:
    """What a WebSocket is sent, each subscription by a task of its own; it counts as a stream of the tenant's."""

    def __init__(self, call: Call, websocket: WebSocket, thread_id: str) -> None:
        self._call = call
        self._websocket = websocket
        self._thread_id = thread_id
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._count = 0

    def add(self, wanted: Subscription) -> Json:
        self._call.service.open_stream(self._call.tenant)
        self._count += 1
        name = str(self._count)
        task = self._sending[name] = asyncio.create_task(self._send_events(wanted), name="websocket events")
        task.add_done_callback(lambda _: self._call.service.close_stream(self._call.tenant))
        return {"subscription_id": name}

    async def remove(self, name: str) -> Json:
        task = self._sending.pop(name, None)
        if task is None:
            raise _Failed("no_such_subscription", "There is no such subscription.")
        task.cancel()
        await asyncio.wait([task])
        return {}

    async def close(self) -> None:
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)

    async def _send_events(self, wanted: Subscription) -> None:
        async with aclosing(events_of(self._call, self._thread_id, wanted)) as events:
            async for event in events:
                await self._websocket.send_text(encoded(shown(event)))
        if self._call.runs.draining:
            await self._websocket.close(1012)


async def _answer(call: Call, thread_id: str, text: str, subscriptions: _Subscriptions) -> Json:
    """The answer to what a client sent."""
    try:
        given = json.loads(text)
    except ValueError:
        return _error(None, "invalid_argument", "The frame is no JSON.")
    form = given if isinstance(given, dict) else {}
    params = form.get("params")
    try:
        call.service.refuse_while_draining()
        match form.get("method"):
            case "subscription.subscribe":
                result = subscriptions.add(subscribed(params))
            case "subscription.unsubscribe":
                result = await subscriptions.remove(read_as(Unsubscription, params).subscription_id)
            case _:
                return await carry_out(call, thread_id, given)
    except _Failed as failed:
        return _error(form.get("id"), failed.error, str(failed))
    except Refusal as refused:
        return _error(form.get("id"), "invalid_argument", refused.detail)
    except (Problem, SegueError) as error:
        return _error(form.get("id"), "unknown_error", explain(error, call.request.scope)[1])
    return {"type": "success", "id": form.get("id"), "result": result}


ROUTES = [
    route("POST", "/threads/{thread_id}/commands", commands),
    route("POST", "/threads/{thread_id}/stream/events", stream_events),
]
