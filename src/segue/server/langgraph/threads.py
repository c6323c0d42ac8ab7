"""Threads: their records, states and histories."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

from langgraph.errors import InvalidUpdateError
from langgraph.types import StateSnapshot, StateUpdate
from pydantic import Field
from starlette.responses import Response

from ...core.graph_objects import GraphObject
from ...core.records import Json
from ...runtime.graph_events import as_json
from ...runtime.graph_runs import Access, Graph, Rows
from ...runtime.graph_store import matches
from .api import (
    MOST_FOUND,
    Call,
    Given,
    ObjectSearch,
    Refusal,
    checked_id,
    dated,
    has_metadata,
    iso,
    new_id,
    read_as,
    route,
    unsupported,
)


class Superstep(Given):
    updates: list[Json] = Field(default_factory=list)


class NewThread(Given):
    thread_id: str | None = None
    metadata: Json | None = None
    graph_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    supersteps: list[Superstep] | None = None
    ttl: Any = None


class ThreadChange(Given):
    metadata: Json | None = None
    ttl: Any = None


class ThreadSearch(ObjectSearch):
    values: Json | None = None
    ids: list[str] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    extract: Any = None


class StateChange(Given):
    values: Any = None
    as_node: str | None = None
    checkpoint: Json | None = None
    checkpoint_id: str | None = None


class StateAt(Given):
    checkpoint: Json
    subgraphs: bool = False


class History(Given):
    limit: int = Field(default=10, ge=1, le=MOST_FOUND)
    before: Json | str | None = None
    metadata: Json | None = None
    checkpoint: Json | None = None


class Prune(Given):
    thread_ids: list[str]
    strategy: Literal["delete", "keep_latest"] = "delete"


def show_thread(found: GraphObject) -> Json:
    body = found.body
    return {
        "thread_id": found.object_id,
        **dated(found),
        "state_updated_at": iso(found.updated_at),
        "metadata": body["metadata"],
        "status": "idle" if found.status == "over" else found.status,
        "config": {"configurable": {}},
        "values": body.get("values"),
        "interrupts": body.get("interrupts") or {},
        "error": body.get("error"),
    }


def new_thread(call: Call, thread_id: str, metadata: Json | None = None) -> GraphObject:
    body = {"metadata": metadata or {}}
    return call.new("thread", thread_id, thread_id=thread_id, status="idle", body=body)


async def add_thread(call: Call, made: GraphObject) -> bool:
    """Store a thread; False where the id is taken, also by a session of Segue."""
    return await call.runs.tables.write(lambda rows: not rows.is_session(made.object_id) and rows.add(made))


async def create(call: Call) -> Any:
    given = await call.body(NewThread)
    if given.ttl is not None:
        raise unsupported("ttl of threads")
    thread_id = checked_id(given.thread_id, "thread") if given.thread_id else new_id()
    about = {"graph_id": given.graph_id} if given.graph_id else {}
    made = new_thread(call, thread_id, {**(given.metadata or {}), **about})
    if not await add_thread(call, made):
        if given.if_exists != "do_nothing":
            raise Refusal(409, f"Thread with ID {thread_id} already exists")
        return show_thread(await call.thread(thread_id))
    if given.supersteps:
        steps = [[_update(each) for each in step.updates] for step in given.supersteps]
        try:
            async with _writable(call, made) as graph:
                await graph.abulk_update_state({"configurable": {"thread_id": thread_id}}, steps)
        except Refusal:
            await call.runs.delete_thread(thread_id)
            raise
    return show_thread(await call.thread(thread_id))


def _update(given: Mapping[str, Any]) -> StateUpdate:
    return StateUpdate(given.get("values"), given.get("as_node"))


async def get(call: Call) -> Any:
    return show_thread(await call.thread(call.id("thread")))


async def update(call: Call) -> Any:
    given = await call.body(ThreadChange)
    if given.ttl is not None:
        raise unsupported("ttl of threads")
    found = await call.thread(call.id("thread"))

    def change(rows: Rows) -> GraphObject:
        rows.lock(found.object_id)
        now = rows.get("thread", found.object_id) or found
        body = {**now.body, "metadata": {**now.body["metadata"], **(given.metadata or {})}}
        changed = replace(now, updated_at=time.time(), body=body)
        rows.put(changed)
        return changed

    return show_thread(await call.runs.tables.write(change))


async def delete(call: Call) -> None:
    found = await call.thread(call.id("thread"))
    await call.runs.delete_thread(found.object_id)


async def search(call: Call) -> Response:
    given = await call.body(ThreadSearch)
    if given.extract:
        raise unsupported("extract in searches of threads")
    found = [show_thread(each) for each in await call.of_owner("thread") if _fits(each, given)]
    return given.page(found)


async def count(call: Call) -> Any:
    given = await call.body(ThreadSearch)
    return sum(_fits(each, given) for each in await call.of_owner("thread"))


def _fits(found: GraphObject, given: ThreadSearch) -> bool:
    return (
        found.status != "over"
        and has_metadata(found, given.metadata)
        and matches(found.body.get("values") or {}, given.values or {})
        and given.status in (None, found.status)
        and (given.ids is None or found.object_id in given.ids)
    )


async def copy(call: Call) -> Any:
    found = await call.thread(call.id("thread"))
    made = call.new("thread", new_id(), status=found.status, body=found.body)
    made = replace(made, thread_id=made.object_id, status="idle" if found.status == "busy" else found.status)

    def store(rows: Rows) -> None:
        rows.add(made)
        rows.copy_state(found.object_id, made.object_id)

    await call.runs.tables.write(store)
    return show_thread(made)


async def prune(call: Call) -> Any:
    given = await call.body(Prune)
    owned = [await call.thread(checked_id(each, "thread")) for each in given.thread_ids]
    for found in owned:
        if given.strategy == "delete":
            await call.runs.delete_thread(found.object_id)
            continue
        fence = await call.runs.writing(found.object_id)
        try:
            await call.runs.saver.aprune([found.object_id])
        finally:
            await call.runs.release(found.object_id, fence)
    return {"pruned_count": len(owned)}


# The state of a thread.


@asynccontextmanager
async def _readable(call: Call, thread: GraphObject, access: Access = "threads.read") -> AsyncIterator[Graph | None]:
    """The graph of a thread; None where no graph ran in it yet, or the one that ran is not there any more."""
    graph_id = thread.body["metadata"].get("graph_id")
    if graph_id not in call.graphs.ids:
        yield None
        return
    async with call.runs.opened(call.owner, graph_id, access) as graph:
        yield graph


@asynccontextmanager
async def _writable(call: Call, thread: GraphObject) -> AsyncIterator[Graph]:
    """The graph of a thread that no run has, until the end."""
    if thread.status == "busy":
        raise Refusal(409, "Thread is already running a task.")
    async with _readable(call, thread, "threads.update") as graph:
        if graph is None:
            raise Refusal(
                400, f"Thread '{thread.object_id}' has no graph: run one in it, or create it with a graph_id."
            )
        fence = await call.runs.writing(thread.object_id)
        try:
            yield graph
        except (InvalidUpdateError, ValueError) as error:
            raise Refusal(400, str(error)) from None
        finally:
            await call.runs.release(thread.object_id, fence)
        await call.runs.refresh(thread, graph)


def show_state(state: StateSnapshot, thread_id: str) -> Json:
    """A state as this API has it."""
    tasks = [
        {
            "id": task.id,
            "name": task.name,
            "path": as_json(task.path),
            "error": None if task.error is None else str(task.error),
            "interrupts": as_json(task.interrupts),
            "checkpoint": _place(task.state, thread_id) if isinstance(task.state, Mapping) else None,
            "state": show_state(task.state, thread_id) if isinstance(task.state, StateSnapshot) else None,
            "result": as_json(task.result),
        }
        for task in state.tasks
    ]
    place, parent = _place(state.config, thread_id), _place(state.parent_config, thread_id)
    return {
        "values": as_json(state.values),
        "next": [*state.next],
        "tasks": tasks,
        "metadata": as_json(state.metadata),
        "created_at": state.created_at,
        "checkpoint": place,
        "parent_checkpoint": parent,
        "interrupts": as_json(state.interrupts),
        "checkpoint_id": place and place.get("checkpoint_id"),
        "parent_checkpoint_id": parent and parent.get("checkpoint_id"),
    }


_EMPTY: Json = {
    **{"values": {}, "next": [], "tasks": [], "metadata": None, "created_at": None, "checkpoint": None},
    **{"parent_checkpoint": None, "interrupts": [], "checkpoint_id": None, "parent_checkpoint_id": None},
}


def _place(config: Mapping[str, Any] | None, thread_id: str) -> Json | None:
    configurable = (config or {}).get("configurable") or {}
    if not configurable.get("checkpoint_id") and not configurable.get("checkpoint_ns"):
        return None
    place = {"thread_id": thread_id, "checkpoint_ns": configurable.get("checkpoint_ns", "")}
    for name in ("checkpoint_id", "checkpoint_map"):
        if configurable.get(name) is not None:
            place[name] = configurable[name]
    return place


def checkpoint_config(thread_id: str, checkpoint: Mapping[str, Any] | None, checkpoint_id: str | None = None) -> Any:
    """The configuration that names a checkpoint of a thread."""
    known = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
    place = {name: checkpoint[name] for name in known if checkpoint and checkpoint.get(name) is not None}
    if checkpoint_id:
        place.setdefault("checkpoint_id", checkpoint_id)
    return {"configurable": {"thread_id": thread_id, **place}}


async def _state_at(call: Call, config: Any, subgraphs: bool) -> Json:
    thread = await call.thread(call.id("thread"))
    async with _readable(call, thread) as graph:
        if graph is None:
            return _EMPTY
        state = await graph.aget_state(config, subgraphs=subgraphs)
        is_empty = not state.created_at and "checkpoint_id" not in config["configurable"]
        return _EMPTY if is_empty else show_state(state, thread.object_id)


async def get_state(call: Call) -> Any:
    subgraphs = call.request.query_params.get("subgraphs", "").lower() == "true"
    checkpoint_id = call.request.path_params.get("checkpoint_id")
    return await _state_at(call, checkpoint_config(call.id("thread"), None, checkpoint_id), subgraphs)


async def get_state_at(call: Call) -> Any:
    given = await call.body(StateAt)
    return await _state_at(call, checkpoint_config(call.id("thread"), given.checkpoint), given.subgraphs)


async def update_state(call: Call) -> Any:
    given, thread = await call.body(StateChange), await call.thread(call.id("thread"))
    config = checkpoint_config(thread.object_id, given.checkpoint, given.checkpoint_id)
    async with _writable(call, thread) as graph:
        stored = await graph.aupdate_state(config, given.values, given.as_node)
    place = _place(stored, thread.object_id) or {}
    return {"checkpoint": place, "configurable": place, "checkpoint_id": place.get("checkpoint_id")}


async def history(call: Call) -> Any:
    if call.request.method == "GET":
        query = call.request.query_params
        given = read_as(History, {name: query[name] for name in ("limit", "before") if name in query})
    else:
        given = await call.body(History)
    thread = await call.thread(call.id("thread"))
    before: Any = given.before
    if isinstance(before, str):
        before = checkpoint_config(thread.object_id, None, before)
    elif isinstance(before, dict) and "configurable" not in before:
        before = checkpoint_config(thread.object_id, before)
    config = checkpoint_config(thread.object_id, given.checkpoint)
    async with _readable(call, thread) as graph:
        if graph is None:
            return []
        states = graph.aget_state_history(config, filter=given.metadata, before=before, limit=given.limit)
        return [show_state(state, thread.object_id) async for state in states]


async def join_stream(call: Call) -> Any:
    raise unsupported("GET /threads/{thread_id}/stream")


async def storage(call: Call) -> Any:
    raise unsupported("GET /threads/{thread_id}/storage")


ROUTES = [
    route("POST", "/threads", create),
    route("POST", "/threads/search", search),
    route("POST", "/threads/count", count),
    route("POST", "/threads/prune", prune),
    route("GET", "/threads/{thread_id}", get),
    route("PATCH", "/threads/{thread_id}", update),
    route("DELETE", "/threads/{thread_id}", delete),
    route("POST", "/threads/{thread_id}/copy", copy),
    route("GET", "/threads/{thread_id}/state", get_state),
    route("POST", "/threads/{thread_id}/state", update_state),
    route("POST", "/threads/{thread_id}/state/checkpoint", get_state_at),
    route("GET", "/threads/{thread_id}/state/{checkpoint_id}", get_state),
    route("GET", "/threads/{thread_id}/history", history),
    route("POST", "/threads/{thread_id}/history", history),
    route("GET", "/threads/{thread_id}/stream", join_stream),
    route("GET", "/threads/{thread_id}/storage", storage),
]
