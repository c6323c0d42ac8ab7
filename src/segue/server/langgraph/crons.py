"""Crons: runs that begin by a schedule, in a thread or each in one of its own."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from starlette.responses import Response

from ...core.graph_objects import GraphObject
from ...core.records import Json
from ...core.schedules import following
from .api import Call, Config, ObjectSearch, Refusal, dated, has_metadata, iso, new_id, route
from .assistants import find_assistant
from .runs import OfRun, Strategy

_OF_RUN = (
    *("input", "metadata", "config", "context", "interrupt_before", "interrupt_after"),
    *("multitask_strategy", "stream_mode", "stream_subgraphs", "durability"),
)
FIELDS = 5


class CronFields(OfRun):
    input: Any = None
    metadata: Json | None = None
    config: Config | None = None
    context: Any = None
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    multitask_strategy: Strategy | None = None
    on_run_completed: Literal["delete", "keep"] | None = None
    end_time: datetime | None = None
    timezone: str | None = None
    enabled: bool | None = None
    stream_subgraphs: bool | None = None
    durability: Literal["sync", "async", "exit"] | None = None


class NewCron(CronFields):
    assistant_id: str
    schedule: str


class CronChange(CronFields):
    schedule: str | None = None


class CronSearch(ObjectSearch):
    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: bool | None = None


def show_cron(found: GraphObject) -> Json:
    body = found.body
    return {
        "cron_id": found.object_id,
        "assistant_id": body["assistant_id"],
        "thread_id": found.thread_id or None,
        "user_id": "",
        "end_time": iso(body["end_time"]),
        "schedule": body["schedule"],
        "timezone": body["timezone"],
        "payload": body["payload"],
        "next_run_date": iso(body["due"]),
        "metadata": body["metadata"],
        "on_run_completed": body["on_run_completed"],
        "enabled": found.status == "enabled",
        **dated(found),
    }


def next_due(body: Mapping[str, Any], after: float) -> float | None:
    """When a cron is due after a moment; None where it is over."""
    schedule, end = body["schedule"], body["end_time"]
    try:
        due = following(schedule, body["timezone"] or "UTC", after) if len(schedule.split()) == FIELDS else None
    except Exception as error:  # noqa: BLE001
        raise Refusal(422, f"Invalid cron schedule: {schedule!r}. Reason: {error}") from None
    if due is None:
        raise Refusal(422, f"Invalid cron schedule: {schedule!r}. Use minute hour day_of_month month day_of_week.")
    return None if end is not None and due > end else due


async def create(call: Call) -> Any:
    given = await call.body(NewCron)
    given.check_supported("crons")
    thread_id = (await call.thread(call.id("thread"))).object_id if "thread_id" in call.request.path_params else ""
    assistant = await find_assistant(call, given.assistant_id)
    payload = {
        name: value for name, value in given.model_dump(mode="json", exclude_none=True).items() if name in _OF_RUN
    }
    body: Json = {
        "assistant_id": assistant.body["assistant_id"],
        "schedule": given.schedule,
        "timezone": given.timezone,
        "end_time": given.end_time.timestamp() if given.end_time else None,
        "payload": {**payload, "assistant_id": assistant.body["assistant_id"]},
        "metadata": given.metadata or {},
        "on_run_completed": None if thread_id else given.on_run_completed or "delete",
    }
    body["due"] = next_due(body, time.time())
    status = "disabled" if given.enabled is False else "enabled"
    made = call.new("cron", new_id(), thread_id=thread_id, status=status, body=body)
    await call.runs.tables.write(lambda rows: rows.add(made))
    return show_cron(made)


async def get(call: Call) -> Any:
    return show_cron(await call.get("cron", call.id("cron")))


async def update(call: Call) -> Any:
    given, found = await call.body(CronChange), await call.get("cron", call.id("cron"))
    given.check_supported("crons")
    changes = given.model_dump(mode="json", exclude_unset=True)
    body = {**found.body}
    for name in ("schedule", "timezone", "on_run_completed"):
        body[name] = changes.get(name, body[name])
    if "end_time" in changes:
        body["end_time"] = given.end_time.timestamp() if given.end_time else None
    body["metadata"] = {**body["metadata"], **(given.metadata or {})}
    payload = {**body["payload"], **{name: value for name, value in changes.items() if name in _OF_RUN}}
    body["payload"] = {name: value for name, value in payload.items() if value is not None}
    body["due"] = next_due(body, time.time())
    status = found.status if given.enabled is None else "enabled" if given.enabled else "disabled"
    changed = replace(found, status=status, updated_at=time.time(), body=body)
    await call.runs.tables.write(lambda rows: rows.put(changed))
    return show_cron(changed)


async def delete(call: Call) -> None:
    found = await call.get("cron", call.id("cron"))
    await call.runs.tables.write(lambda rows: rows.delete("cron", found.object_id))


async def search(call: Call) -> Response:
    given = await call.body(CronSearch)
    found = [show_cron(each) for each in await call.of_owner("cron") if _fits(each, given)]
    return given.page(found)


async def count(call: Call) -> Any:
    given = await call.body(CronSearch)
    return sum(_fits(each, given) for each in await call.of_owner("cron"))


def _fits(found: GraphObject, given: CronSearch) -> bool:
    return (
        has_metadata(found, given.metadata)
        and given.assistant_id in (None, found.body["assistant_id"])
        and given.thread_id in (None, found.thread_id)
        and (given.enabled is None or given.enabled == (found.status == "enabled"))
    )


ROUTES = [
    route("POST", "/runs/crons", create),
    route("POST", "/runs/crons/search", search),
    route("POST", "/runs/crons/count", count),
    route("GET", "/runs/crons/{cron_id}", get),
    route("PATCH", "/runs/crons/{cron_id}", update),
    route("DELETE", "/runs/crons/{cron_id}", delete),
    route("POST", "/threads/{thread_id}/runs/crons", create),
]
