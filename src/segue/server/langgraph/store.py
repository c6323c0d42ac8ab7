"""Items that the threads of a tenant share: LangGraph's store over HTTP."""

from typing import Any

from langgraph.store.base import Item
from pydantic import Field
from starlette.responses import JSONResponse

from ...core.records import Json
from .api import MOST_FOUND, Call, Given, Refusal, route, unsupported


class NewItem(Given):
    namespace: list[str]
    key: str
    value: Json
    index: Any = None
    ttl: Any = None


class ItemKey(Given):
    namespace: list[str] = Field(default_factory=list)
    key: str


class Search(Given):
    namespace_prefix: list[str] = Field(default_factory=list)
    filter: Json | None = None
    limit: int = Field(default=10, ge=1, le=MOST_FOUND)
    offset: int = Field(default=0, ge=0)
    query: str | None = None


class Namespaces(Given):
    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: int | None = Field(default=None, ge=1)
    limit: int = Field(default=100, ge=1, le=MOST_FOUND)
    offset: int = Field(default=0, ge=0)


def _shown(item: Item) -> Json:
    about = {"created_at": item.created_at.isoformat(), "updated_at": item.updated_at.isoformat()}
    return {"namespace": [*item.namespace], "key": item.key, "value": item.value, **about}


def _checked(namespace: list[str]) -> tuple[str, ...]:
    for label in namespace:
        if not label or "." in label:
            raise Refusal(422, f"Namespace label {label!r} must be a non-empty string without periods")
    return tuple(namespace)


async def put(call: Call) -> None:
    given = await call.body(NewItem)
    if given.ttl is not None:
        raise unsupported("ttl of items")
    if not given.namespace:
        raise Refusal(422, "Namespace must not be empty")
    await call.runs.store(call.owner).aput(_checked(given.namespace), given.key, given.value)


async def get(call: Call) -> Any:
    query = call.request.query_params
    namespace = query.get("namespace", "")
    found = await call.runs.store(call.owner).aget(
        tuple(namespace.split(".")) if namespace else (), query.get("key", "")
    )
    return JSONResponse(None if found is None else _shown(found))


async def delete(call: Call) -> None:
    given = await call.body(ItemKey)
    await call.runs.store(call.owner).adelete(_checked(given.namespace), given.key)


async def search(call: Call) -> Any:
    given = await call.body(Search)
    if given.query:
        raise unsupported("query in searches of items")
    found = await call.runs.store(call.owner).asearch(
        _checked(given.namespace_prefix), filter=given.filter, limit=given.limit, offset=given.offset
    )
    return {"items": [{**_shown(item), "score": None} for item in found]}


async def namespaces(call: Call) -> Any:
    given = await call.body(Namespaces)
    found = await call.runs.store(call.owner).alist_namespaces(
        prefix=tuple(given.prefix) if given.prefix else None,
        suffix=tuple(given.suffix) if given.suffix else None,
        max_depth=given.max_depth,
        limit=given.limit,
        offset=given.offset,
    )
    return {"namespaces": [[*each] for each in found]}


ROUTES = [
    route("PUT", "/store/items", put),
    route("GET", "/store/items", get),
    route("DELETE", "/store/items", delete),
    route("POST", "/store/items/search", search),
    route("POST", "/store/namespaces", namespaces),
]
