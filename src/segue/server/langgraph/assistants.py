"""Assistants: graphs with a configuration, one of each graph by itself, and those that clients make."""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from langgraph.pregel import Pregel
from pydantic import Field
from starlette.responses import Response

from ...core.graph_objects import GraphObject
from ...core.records import Json
from ...runtime.graph_runs import Rows
from .api import (
    MOST_FOUND,
    NAMESPACE,
    Call,
    Config,
    Given,
    ObjectSearch,
    Refusal,
    checked_id,
    dated,
    has_metadata,
    iso,
    new_id,
    route,
    unsupported,
)


class NewAssistant(Given):
    graph_id: str
    assistant_id: str | None = None
    config: Config | None = None
    context: Json | None = None
    metadata: Json | None = None
    name: str | None = None
    description: str | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class AssistantChange(Given):
    graph_id: str | None = None
    config: Config | None = None
    context: Json | None = None
    metadata: Json | None = None
    name: str | None = None
    description: str | None = None


class AssistantSearch(ObjectSearch):
    graph_id: str | None = None
    name: str | None = None
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None


class Latest(Given):
    version: int


class Page(Given):
    metadata: Json | None = None
    limit: int = Field(default=10, ge=1, le=MOST_FOUND)
    offset: int = Field(default=0, ge=0)


_VERSIONED = ("graph_id", "config", "context", "metadata", "name", "description")


def _shown(found: GraphObject) -> Json:
    body = found.body
    own = {name: body[name] for name in _VERSIONED}
    return {"assistant_id": body["assistant_id"], **own, **dated(found), "version": body["version"]}


def _own_assistant(call: Call, graph_id: str) -> GraphObject:
    """The assistant that a graph has by itself, which is stored once it is changed."""
    assistant_id = str(uuid.uuid5(NAMESPACE, graph_id))
    about: Json = {"graph_id": graph_id, "name": graph_id, "description": call.graphs.description_of(graph_id)}
    version = {**about, "config": {}, "context": {}, "metadata": {"created_by": "system"}}
    made = GraphObject(
        kind="assistant",
        object_id=call.owner + assistant_id,
        owner=call.owner,
        created_at=call.graphs.loaded_at,
        updated_at=call.graphs.loaded_at,
        body={},
    )
    return replace(made, body={"assistant_id": assistant_id, **version, "version": 1, "versions": []})


async def _all(call: Call) -> list[GraphObject]:
    stored = await call.of_owner("assistant")
    ids = {each.body["assistant_id"] for each in stored}
    own = [_own_assistant(call, graph_id) for graph_id in call.graphs.ids]
    return [*stored, *(each for each in own if each.body["assistant_id"] not in ids)]


async def find_assistant(call: Call, given: str) -> GraphObject:
    """The assistant of an id, or the one that the graph of that name has by itself."""
    if given in call.graphs.ids:
        given = str(uuid.uuid5(NAMESPACE, given))
    try:
        assistant_id = checked_id(given, "assistant")
    except Refusal:
        known = ", ".join(call.graphs.ids)
        raise Refusal(
            422,
            f"Invalid assistant: '{given}'. Must be either:\n- A valid assistant UUID, or\n"
            f"- One of the registered graphs: {known}",
        ) from None
    return await _of_id(call, assistant_id, "Thread or assistant not found.")


async def _of_id(call: Call, assistant_id: str, missing: str = "Not Found") -> GraphObject:
    found = await call.find("assistant", call.owner + assistant_id) or _own_of_id(call, assistant_id)
    if found is None:
        raise Refusal(404, missing)
    return found


def _own_of_id(call: Call, assistant_id: str) -> GraphObject | None:
    """The assistant of this id that a graph has by itself."""
    for graph_id in call.graphs.ids:
        if str(uuid.uuid5(NAMESPACE, graph_id)) == assistant_id:
            return _own_assistant(call, graph_id)
    return None


async def _change(call: Call, change: Callable[[GraphObject], Json]) -> GraphObject:
    """Change the fields of the assistant in the path, which is stored now if it is one that a graph has by itself."""
    assistant_id = call.id("assistant")
    object_id, own = call.owner + assistant_id, _own_of_id(call, assistant_id)

    def work(rows: Rows) -> GraphObject:
        rows.lock(object_id)
        found = rows.get("assistant", object_id) or own
        if found is None:
            raise Refusal(404, "Not Found")
        changed = replace(found, updated_at=time.time(), body={**found.body, **change(found)})
        if not rows.put(changed):
            rows.add(changed)
        return changed

    return await call.runs.tables.write(work)


def _all_versions(found: GraphObject) -> list[Json]:
    """The versions of an assistant, the one in use last."""
    used = {name: found.body[name] for name in (*_VERSIONED, "version")}
    return [*found.body["versions"], {**used, "created_at": found.updated_at}]


def _check_graph(call: Call, graph_id: str) -> None:
    if graph_id not in call.graphs.ids:
        raise Refusal(404, f"Graph '{graph_id}' not found. Expected one of: {sorted(call.graphs.ids)}")


async def create(call: Call) -> Any:
    given = await call.body(NewAssistant)
    _check_graph(call, given.graph_id)
    assistant_id = checked_id(given.assistant_id, "assistant") if given.assistant_id else new_id()
    body: Json = {
        "assistant_id": assistant_id,
        "graph_id": given.graph_id,
        "config": given.config or {},
        "context": given.context or {},
        "metadata": given.metadata or {},
        "name": given.name or "Untitled",
        "description": given.description,
        "version": 1,
    }
    made = call.new("assistant", call.owner + assistant_id, body={**body, "versions": []})
    if not await call.runs.tables.write(lambda rows: rows.add(made)):
        if given.if_exists != "do_nothing":
            raise Refusal(409, f"Assistant {assistant_id} already exists")
        made = await _of_id(call, assistant_id)
    return _shown(made)


async def get(call: Call) -> Any:
    return _shown(await _of_id(call, call.id("assistant")))


async def update(call: Call) -> Any:
    """Make a new version; the metadata are merged, everything else is replaced."""
    given = await call.body(AssistantChange)
    if given.graph_id:
        _check_graph(call, given.graph_id)

    def change(found: GraphObject) -> Json:
        versions = _all_versions(found)
        metadata = {**found.body["metadata"], **(given.metadata or {})}
        version = max(each["version"] for each in versions) + 1
        return {**given.model_dump(exclude_none=True), "metadata": metadata, "version": version, "versions": versions}

    return _shown(await _change(call, change))


async def delete(call: Call) -> None:
    found = await _of_id(call, call.id("assistant"))
    if not await call.runs.tables.write(lambda rows: rows.delete("assistant", found.object_id)):
        raise Refusal(403, "The assistant of a graph stays as long as the graph does.")


async def search(call: Call) -> Response:
    given = await call.body(AssistantSearch)
    found = [_shown(each) for each in await _all(call) if _fits(each, given)]
    return given.page(found)


async def count(call: Call) -> Any:
    given = await call.body(AssistantSearch)
    return sum(_fits(each, given) for each in await _all(call))


def _fits(found: GraphObject, given: AssistantSearch) -> bool:
    return (
        has_metadata(found, given.metadata)
        and given.graph_id in (None, found.body["graph_id"])
        and (not given.name or given.name.lower() in found.body["name"].lower())
    )


async def versions(call: Call) -> Any:
    given, found = await call.body(Page), await _of_id(call, call.id("assistant"))
    newest_first = sorted(_all_versions(found), key=lambda each: -each["version"])
    about = {"assistant_id": found.body["assistant_id"]}
    shown = [{**each, **about, "created_at": iso(each["created_at"])} for each in newest_first]
    return shown[given.offset : given.offset + given.limit]


async def set_latest(call: Call) -> Any:
    given = await call.body(Latest)

    def change(found: GraphObject) -> Json:
        versions = {each["version"]: each for each in _all_versions(found)}
        chosen = versions.pop(given.version, None)
        if chosen is None:
            raise Refusal(404, "Not Found")
        fields = {name: chosen[name] for name in (*_VERSIONED, "version")}
        return {**fields, "versions": [*versions.values()]}

    return _shown(await _change(call, change))


# What a graph looks like.


async def _assistant_of(call: Call) -> GraphObject:
    given = str(call.request.path_params["assistant_id"])
    if given in call.graphs.ids:
        return await find_assistant(call, given)
    return await _of_id(call, checked_id(given, "assistant"))


async def graph(call: Call) -> Any:
    found = await _assistant_of(call)
    xray = _xray(call.request.query_params.get("xray"))
    async with call.runs.opened(call.owner, found.body["graph_id"], "assistants.read", found.body["config"]) as opened:
        drawn = (await opened.aget_graph(xray=xray)).to_json()
    return {name: [_without_callables(each) for each in drawn[name]] for name in ("nodes", "edges")}


def _without_callables(part: Json) -> Json:
    """A node or an edge; what a node runs is shown by its name only."""
    data = part.get("data")
    if not isinstance(data, dict):
        return part
    return {**part, "data": {"name": data.get("name") or part["id"]}}


def _xray(given: str | None) -> bool | int:
    if given is None or given.lower() in ("false", "0"):
        return False
    return int(given) if given.isdecimal() else True


async def schemas(call: Call) -> Any:
    found = await _assistant_of(call)
    async with call.runs.opened(call.owner, found.body["graph_id"], "assistants.read", found.body["config"]) as opened:
        return _schemas(found.body["graph_id"], opened)


def _schemas(graph_id: str, opened: Pregel[Any, Any, Any, Any]) -> Json:
    def attempt(make: Any) -> Any:
        try:
            return make()
        except Exception:  # noqa: BLE001  a type of the state may have no JSON schema
            return None

    output = attempt(opened.get_output_jsonschema)
    return {
        "graph_id": graph_id,
        "input_schema": attempt(opened.get_input_jsonschema),
        "output_schema": output,
        "state_schema": output,
        "config_schema": None,
        "context_schema": attempt(opened.get_context_jsonschema),
    }


async def subgraphs(call: Call) -> Any:
    found = await _assistant_of(call)
    recurse = _xray(call.request.query_params.get("recurse")) is not False
    namespace = call.request.path_params.get("namespace")
    async with call.runs.opened(call.owner, found.body["graph_id"], "assistants.read", found.body["config"]) as opened:
        listed = [each async for each in opened.aget_subgraphs(namespace=namespace, recurse=recurse)]
    return {name: _schemas(name, inner) for name, inner in listed if isinstance(inner, Pregel)}


async def components(call: Call) -> Any:
    raise unsupported("POST /ui/{graph_id}")


ROUTES = [
    route("POST", "/assistants", create),
    route("POST", "/assistants/search", search),
    route("POST", "/assistants/count", count),
    route("GET", "/assistants/{assistant_id}", get),
    route("PATCH", "/assistants/{assistant_id}", update),
    route("DELETE", "/assistants/{assistant_id}", delete),
    route("POST", "/assistants/{assistant_id}/versions", versions),
    route("POST", "/assistants/{assistant_id}/latest", set_latest),
    route("GET", "/assistants/{assistant_id}/graph", graph),
    route("GET", "/assistants/{assistant_id}/schemas", schemas),
    route("GET", "/assistants/{assistant_id}/subgraphs", subgraphs),
    route("GET", "/assistants/{assistant_id}/subgraphs/{namespace}", subgraphs),
    route("POST", "/ui/{graph_id}", components),
]
