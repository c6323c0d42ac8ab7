"""What the resources of LangGraph's server API share: requests, answers, errors, and whose an object is."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from ...core.agents import first_fault
from ...core.errors import ConfigurationError, DatabaseUnavailable, InvalidMessage, SegueError, ThreadBusy
from ...core.graph_objects import GraphObject
from ...core.records import Json
from ...prompts.catalogue import render_over_http
from ...runtime.graph_runs import GraphRuns
from ...runtime.graph_store import matches
from ..errors import Problem, language_of
from ..service import Service
from ..tenants import Tenant
from .graphs import GraphCatalogue

Body = TypeVar("Body", bound="Given")
NAMESPACE = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""Of the ids of the assistants that each graph has by itself: those that other servers of this API give them."""
MOST_FOUND = 1000
"""Objects that a search returns at most."""


class Refusal(Exception):
    """An answer of this API that says what is wrong with a request."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def unsupported(what: str) -> Refusal:
    return Refusal(501, f"{what} is not supported by Segue.")


class Given(BaseModel):
    """A request's body; fields that it does not have are left out, as other servers of this API do."""

    model_config = ConfigDict(extra="ignore")


def _checked_config(given: Json) -> Json:
    for name in ("configurable", "metadata"):
        if not isinstance(given.get(name) or {}, dict):
            raise ValueError(f"{name} is no object")
    return given


Config = Annotated[Json, AfterValidator(_checked_config)]
"""The configuration of a run."""


@dataclass(eq=False)
class Reader:
    """A stream that is open, and how far it has come."""

    thread_id: str
    seq: int


class Readers:
    """The streams of a process that read more than how runs end."""

    def __init__(self) -> None:
        self._open: set[Reader] = set()
        self._moved = asyncio.Event()

    def add(self, reader: Reader) -> None:
        self._open.add(reader)

    def move(self, reader: Reader, seq: int) -> None:
        """Note that everything up to a number was sent."""
        reader.seq = seq
        self._moved.set()

    def remove(self, reader: Reader) -> None:
        self._open.discard(reader)
        self._moved.set()

    async def until_sent(self, thread_id: str, seq: int, seconds: float) -> None:
        """Wait until a thread has streams, and all of them have sent the events up to a number."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._have_sent(thread_id, seq):
                    self._moved.clear()
                    await self._moved.wait()

    def _have_sent(self, thread_id: str, seq: int) -> bool:
        sent = [each.seq for each in self._open if each.thread_id == thread_id]
        return bool(sent) and min(sent) >= seq


@dataclass(frozen=True)
class Served:
    """What a service has for this API."""

    runs: GraphRuns
    graphs: GraphCatalogue
    readers: Readers


@dataclass(frozen=True)
class Call:
    """A request, and what it may use."""

    service: Service
    runs: GraphRuns
    graphs: GraphCatalogue
    readers: Readers
    request: Request
    tenant: Tenant

    @classmethod
    def of(cls, request: Request) -> Self:
        """A request to a service that has graphs."""
        service: Service = request.app.state.service
        served: Served = request.app.state.langgraph
        return cls(service, served.runs, served.graphs, served.readers, request, request.scope["segue_tenant"])

    @property
    def owner(self) -> str:
        return self.tenant.prefix

    def id(self, name: str) -> str:
        """The id in the path, which is a UUID."""
        return checked_id(str(self.request.path_params[f"{name}_id"]), name)

    async def body(self, kind: type[Body]) -> Body:
        return read_as(kind, await self.json())

    async def json(self) -> Any:
        raw = await self.request.body()
        if not raw.strip():
            return {}
        try:
            return json.loads(raw)
        except ValueError:
            raise Refusal(422, "Invalid JSON in request body") from None

    async def find(self, kind: str, object_id: str) -> GraphObject | None:
        """An object, whichever tenant has it."""
        return await self.runs.tables.read(lambda rows: rows.get(kind, object_id))

    async def get(self, kind: str, object_id: str, missing: str = "Not Found") -> GraphObject:
        """An object of the tenant's."""
        found = await self.find(kind, object_id)
        if found is None or found.owner != self.owner:
            raise Refusal(404, missing)
        return found

    async def thread(self, thread_id: str) -> GraphObject:
        return await self.get("thread", thread_id, f"Thread with ID {thread_id} not found")

    async def of_owner(self, kind: str) -> list[GraphObject]:
        """The tenant's objects, the newest first."""
        return [*await self.runs.tables.read(lambda rows: rows.of_owner(kind, self.owner))]

    def new(self, kind: str, object_id: str, **fields: Any) -> GraphObject:
        now = time.time()
        return GraphObject(kind=kind, object_id=object_id, owner=self.owner, created_at=now, updated_at=now, **fields)


def read_as(kind: type[Body], given: Any) -> Body:
    """A value of a request as what it should be."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        where, reason = first_fault(error)
        raise Refusal(422, f"{where}{reason}") from None


def checked_id(given: str, name: str) -> str:
    try:
        return str(uuid.UUID(given))
    except ValueError:
        raise Refusal(422, f"Invalid {name} ID: must be a UUID") from None


def new_id() -> str:
    return str(uuid.uuid4())


def iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def dated(found: GraphObject) -> Json:
    return {"created_at": iso(found.created_at), "updated_at": iso(found.updated_at)}


class ObjectSearch(Given):
    """Which objects are searched, and which page of them is given; `sort_by` may have fewer values in a subclass."""

    metadata: Json | None = None
    limit: int = Field(default=10, ge=1, le=MOST_FOUND)
    offset: int = Field(default=0, ge=0)
    sort_by: str | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None

    def page(self, found: Iterable[Json]) -> Response:
        """The objects that were found, a page of them, with how many there are."""
        listed = [*found]
        if by := self.sort_by:
            listed.sort(key=lambda each: str(each.get(by) or ""), reverse=self.sort_order != "asc")
        end = self.offset + self.limit
        headers = {"X-Pagination-Total": str(len(listed))}
        if end < len(listed):
            headers["X-Pagination-Next"] = str(end)
        shown = listed[self.offset : end]
        chosen = [{name: each.get(name) for name in self.select} if self.select else each for each in shown]
        return JSONResponse(chosen, headers=headers)


def has_metadata(found: GraphObject, wanted: Mapping[str, Any] | None) -> bool:
    return matches(found.body.get("metadata") or {}, wanted or {})


def explain(error: Refusal | Problem | SegueError, scope: Scope) -> tuple[int, str]:
    """The status and the sentence that this API answers an error with."""
    match error:
        case Refusal():
            return error.status, error.detail
        case Problem():
            return error.status, error.message(language_of(scope))
        case ThreadBusy():
            return 409, "Thread is already running a task."
        case ConfigurationError() | InvalidMessage():
            return 400, str(error)
        case DatabaseUnavailable():
            return 503, render_over_http(error, language_of(scope))
    return 409, str(error)


Handler = Callable[[Call], Awaitable[Response | Any]]


def route(method: str, path: str, handler: Handler) -> Route:
    """A route whose handler gives a response or its JSON; its errors have the form of this API."""

    async def respond(request: Request) -> Response:
        call = Call.of(request)
        try:
            call.service.refuse_while_draining()
            answer = await handler(call)
        except DatabaseUnavailable:
            raise
        except (Refusal, SegueError) as error:
            status, detail = explain(error, request.scope)
            return JSONResponse({"detail": detail}, status_code=status)
        if isinstance(answer, Response):
            return answer
        return Response(status_code=204) if answer is None else JSONResponse(answer)

    return Route(path, respond, methods=[method])
