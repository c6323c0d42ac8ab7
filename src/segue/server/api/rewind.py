"""Going back in a session: its timeline, differences, edits, undoing, and documents of whole sessions."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Self

from fastapi import Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, model_validator

from ...core.errors import ThreadBusy
from ...core.json import Outline
from ...core.records import Json
from ...core.task import ANYBODY, LONGEST_NAME, NAME
from ...core.timeline import SnapshotDifference, SnapshotState, TimelineEntry
from ...testing.cassette import record
from ...testing.cassette.cassette import dump
from ..dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, SessionId, TaskId, TenantDep, Unset, routes
from ..errors import JsonResponse, LongJsonResponse, Problem, language_of, parts
from ..middleware import RequestBody
from ..service import Service
from ..settings import IMPORT, ServerSettings
from ..tenants import Tenant
from ..views import Origin, TaskView, fields_of, origin_view, task_view

router = routes("rewind")
SNAPSHOT = Field(min_length=6, max_length=64, description="A snapshot's id, or its last six characters or more.")
SnapshotQuery = Annotated[
    str, Query(min_length=6, max_length=64, description="A snapshot's id, or its last six characters or more.")
]
SnapshotPath = Annotated[
    str, Path(min_length=6, max_length=64, description="A snapshot's id, or its last six characters or more.")
]
AROUND = 1000
"""Bytes of a request to import around its document."""
AnySize = Annotated[bool, Query(description="Also a document that is too long for this service to import.")]
Newest = Annotated[int, Query(ge=1, le=100_000, description="How many snapshots: the newest.")]
OtherSession = Annotated[str | Unset, Query(max_length=LONGEST_NAME, pattern=NAME, description="The session of `b`.")]


Redact = Annotated[
    list[str] | Unset, Query(max_length=20, description="Replace the values of arguments and results of these names.")
]


class YamlResponse(PlainTextResponse):
    """A YAML document."""

    media_type = "application/yaml"


class EffectView(BaseModel):
    """A tool call that is not read-only."""

    task_id: str
    name: str
    arguments: dict[str, Any]
    outcome: str = Field(description="success, error, unknown or running")
    started_at: float
    undo: str = Field(description="available, done, failed, unknown, or empty if its tool declares no undo")


class UndoneView(EffectView):
    """A call whose undo was tried: `undo` is done, failed or unknown, `result` is the outcome."""

    result: dict[str, Any]


class TimelineEntryView(BaseModel):
    """A snapshot of a turn, a recursion or a step, with what happened since the one before it."""

    id: str = Field(description="the short id")
    checkpoint_id: str
    created_at: float
    task_id: str | None
    turn: int
    recursion: int
    steps: list[str]
    inside: str
    next: list[str]
    happened: list[dict[str, Any]]
    happened_since: list[dict[str, Any]] = Field(description="what the newest snapshot has not seen; else empty")
    effects: list[EffectView]
    effects_since: int
    forked_from: Origin | None


class TimelineView(BaseModel):
    """A session's newest snapshots, oldest first."""

    items: list[TimelineEntryView]
    more: bool = Field(description="whether there are older ones: a larger limit gives them")


class SnapshotRequest(RequestBody):
    """A snapshot."""

    checkpoint_id: str = SNAPSHOT


class EditRequest(SnapshotRequest):
    """Another message for the snapshot's turn, or changes to the state's fields, and the branch's session."""

    message: str | None = None
    state: dict[str, Any] | None = None
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if bool(self.message) == bool(self.state):
            raise ValueError("give exactly one of message and state")
        return self


class PruneRequest(RequestBody):
    """Which snapshots to keep; the older ones are merged into the oldest of them."""

    retention: str = Field(max_length=20, description="An age, a number of snapshots, or both: 30d, 100, 30d,100.")
    dry_run: bool = Field(default=False, description="Only say how many would be removed.")


class PruneView(BaseModel):
    """How many snapshots were removed, or would be."""

    snapshots: int


class UndoneList(BaseModel):
    """The calls whose undo was tried, newest first, and the effects that stay."""

    undone: list[UndoneView]
    effects: list[EffectView]


class ImportRequest(RequestBody):
    """An exported session, and the name of the new one."""

    document: dict[str, Any]
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)

    @model_validator(mode="before")
    @classmethod
    def _may_be_the_document(cls, given: Any) -> Any:
        is_document = isinstance(given, dict) and "document" not in given and "thread" in given
        return {"document": given} if is_document else given


class ImportView(BaseModel):
    """The new session, and its newest task."""

    session_id: str
    task_id: str | None
    status: str | None


@router.get("/api/sessions/{session_id}/timeline", response_model=TimelineView, responses=CONFLICT)
async def timeline(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, limit: Newest = 500
) -> LongJsonResponse:
    """One snapshot for each turn, recursion and step, with what happened and the external effects."""
    entries = await service.app.rewind.timeline(await service.own_session(tenant, session_id), limit + 1)
    items = await asyncio.to_thread(lambda: [_timeline_entry(entry, tenant) for entry in entries[-limit:]])
    return LongJsonResponse({"items": items, "more": len(entries) > limit})


def _timeline_entry(entry: TimelineEntry, tenant: Tenant) -> Json:
    effects = [fields_of(EffectView, effect) for effect in entry.effects]
    origin = origin_view(entry.forked_from, tenant)
    return fields_of(TimelineEntryView, entry, id=entry.short_id, effects=effects, forked_from=origin)


@router.get("/api/sessions/{session_id}/snapshots/{checkpoint_id}", response_model=SnapshotState, responses=CONFLICT)
async def state(
    session_id: SessionId, checkpoint_id: SnapshotPath, service: ServiceDep, tenant: TenantDep
) -> LongJsonResponse:
    """What a snapshot holds: messages, plan, results and the other fields of the state, and the next prompt."""
    thread_id = await service.own_session(tenant, session_id)
    found = await service.app.rewind.state(thread_id, checkpoint_id)
    place = {**found.place, "session_id": tenant.shown(thread_id)}
    return LongJsonResponse(replace(found, place=place).json())


@router.get("/api/sessions/{session_id}/diff", response_model=SnapshotDifference, responses=CONFLICT)
async def diff(
    session_id: SessionId,
    a: SnapshotQuery,
    b: SnapshotQuery,
    service: ServiceDep,
    tenant: TenantDep,
    other_session: OtherSession = None,
) -> JsonResponse:
    """Compare two snapshots, of one session or of two."""
    thread_id = await service.own_session(tenant, session_id)
    other = await service.own_session(tenant, other_session) if other_session else thread_id
    found = await service.app.rewind.diff(thread_id, a, b, other)
    sides = [{**side, "session_id": tenant.shown(side["session_id"])} for side in (found.a, found.b)]
    return JsonResponse(replace(found, a=sides[0], b=sides[1]).json())


@router.post("/api/sessions/{session_id}/undo", response_model=UndoneList, responses=CONFLICT)
async def undo(session_id: SessionId, body: SnapshotRequest, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Undo the calls that were made after a snapshot, newest first, where their tools declare how."""
    service.refuse_while_draining()
    thread_id = await service.own_session(tenant, session_id)
    undone = await service.app.rewind.undo(thread_id, body.checkpoint_id)
    tried = [fields_of(UndoneView, effect) for effect in undone]
    return JsonResponse({"undone": tried, "effects": await remaining_effects(service, thread_id, body.checkpoint_id)})


async def remaining_effects(service: Service, thread_id: str, checkpoint_id: str) -> list[Json]:
    """The effects of the calls after a snapshot that were not undone, as `EffectView`s."""
    effects = await service.app.rewind.effects(thread_id, checkpoint_id)
    return [fields_of(EffectView, effect) for effect in effects if effect.undo != "done"]


@router.post(
    "/api/sessions/{session_id}/edit", status_code=202, response_model=TaskView, responses={**CONFLICT, **MODEL_DOWN}
)
async def edit(
    session_id: SessionId, body: EditRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Continue from a snapshot in a new branch of the conversation, with another message or state.

    Follow the new task's stream for the answer. `fork` starts a session of its own instead.
    """
    service.refuse_while_draining()
    thread_id = await service.own_session(tenant, session_id)
    new, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        with service.starting_task(tenant, new):
            editing = service.app.rewind.edit(
                thread_id, body.checkpoint_id, new, message=body.message or "", state=body.state, key=key
            )
            await service.once(key, editing)
    (row,) = await service.app.tasks.list(session_id=new, limit=1)
    return JsonResponse(task_view(row, tenant), 202)


class BranchRequest(RequestBody):
    """The message of the turn in the new branch, and the name of the branch's session."""

    message: str | None = Field(default=None, description="By default the same: the answer is made again.")
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)


class BranchPreview(BaseModel):
    """The snapshot that a branch from a turn begins at, and the calls since then that stay in effect."""

    session_id: str
    checkpoint_id: str
    effects: list[EffectView]


@router.get("/api/tasks/{task_id}/branch-preview", response_model=BranchPreview, responses=CONFLICT)
async def branch_preview(task_id: TaskId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The calls that stay in effect if this turn is run again; `undo` takes back what can be."""
    task = await service.own_task(tenant, task_id)
    place = await service.app.rewind.before_turn(task_id)
    stay = await remaining_effects(service, task.session_id, place.checkpoint_id)
    names = {"session_id": tenant.shown(task.session_id), "checkpoint_id": place.checkpoint_id}
    return JsonResponse({**names, "effects": stay})


@router.post(
    "/api/tasks/{task_id}/branch", status_code=202, response_model=TaskView, responses={**CONFLICT, **MODEL_DOWN}
)
async def branch(
    task_id: TaskId, body: BranchRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Run the task's turn again in a new branch of its conversation; follow the new task's stream for the answer.

    Lists show a conversation once, by the branch that was used last.
    """
    service.refuse_while_draining()
    await service.own_task(tenant, task_id)
    new, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        with service.starting_task(tenant, new):
            await service.once(key, service.app.rewind.branch(task_id, new, body.message or "", key))
    (row,) = await service.app.tasks.list(session_id=new, limit=1)
    return JsonResponse(task_view(row, tenant), 202)


@router.post("/api/sessions/{session_id}/prune", response_model=PruneView, responses=CONFLICT)
async def prune(session_id: SessionId, body: PruneRequest, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Merge the session's older snapshots; its history and traces stay."""
    service.refuse_while_draining()
    thread_id = await service.own_session(tenant, session_id)
    pruned = await service.app.sessions.prune(body.retention, thread_id, dry_run=body.dry_run, compact=False)
    if pruned.busy:
        raise ThreadBusy(thread_id)
    return JsonResponse({"snapshots": pruned.snapshots})


@router.get("/api/sessions/{session_id}/export", response_model=dict[str, Any], responses=CONFLICT)
async def export(session_id: SessionId, service: ServiceDep, tenant: TenantDep, any_size: AnySize = False) -> Response:
    """The session as a document that `POST /api/sessions/import` takes, here or elsewhere.

    One that this service would not take is refused.
    """
    document = await service.app.sessions.export(await service.own_session(tenant, session_id))
    return Response(
        await asyncio.to_thread(_written, document, tenant, None if any_size else service.settings),
        media_type="application/json",
    )


def _written(document: Json, tenant: Tenant, settings: ServerSettings | None) -> bytes:
    """The document as it is sent."""
    rows = {name: [_shown(row, tenant) for row in document[name]] for name in ("tasks", "events", "calls")}
    body = b"".join(parts({**document, **rows, "thread": _shown(document["thread"], tenant)}))
    if settings and (
        len(body) + AROUND > settings.import_bytes
        or Outline.of(body, settings.import_values).values + AROUND > settings.import_values
    ):
        raise Problem(413, "ExportTooLong", size=len(body), most=settings.import_bytes, setting=IMPORT)
    return body


@router.get(
    "/api/sessions/{session_id}/cassette",
    responses={**CONFLICT, 200: {"content": {"application/yaml": {"schema": {"type": "object"}}}}},
)
async def cassette(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, request: Request, redact: Redact = None
) -> YamlResponse:
    """The session as a regression test: a file that `segue replay` and pytest run again without a model or tools."""
    thread_id = await service.own_session(tenant, session_id)
    recorded = await record(service.app, thread_id, redact=redact or (), language=language_of(request.scope))
    turns = tuple(turn.model_copy(update={"user": tenant.shown(turn.user)}) for turn in recorded.turns)
    shown = recorded.model_copy(update={"session": tenant.shown(thread_id), "turns": turns})
    return YamlResponse(await asyncio.to_thread(dump, shown))


@router.post("/api/sessions/import", status_code=201, response_model=ImportView, responses=CONFLICT)
async def import_session(body: ImportRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> JsonResponse:
    """Store an exported session as a new one."""
    new, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        user = tenant.stored(ANYBODY) if tenant.name else None
        await service.once(key, service.app.sessions.import_(body.document, new, user, key))
    return JsonResponse({"session_id": tenant.shown(new), **await service.newest(new)}, 201)


def _shown(row: Json, tenant: Tenant) -> Json:
    """A row with its names as the tenant knows them."""
    return {**row, **{name: tenant.shown(row[name]) for name in ("thread_id", "user_id") if name in row}}
