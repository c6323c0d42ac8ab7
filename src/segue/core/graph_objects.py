"""Records of what LangGraph's server API stores."""

from dataclasses import dataclass
from typing import Annotated

from .records import STORED_AS_JSON, Count, Json, Moment, Name, Record


@dataclass(frozen=True, kw_only=True)
class GraphObject(Record):
    """An assistant, a thread, a run, a cron or an item of the store; `body` is what its kind has besides."""

    row_name = "{kind} {object_id} of LangGraph's API"

    kind: Name
    object_id: Name
    owner: str
    """The prefix of the tenant whose it is; empty without keys."""
    thread_id: str = ""
    status: str = ""
    created_at: Moment
    updated_at: Moment
    body: Annotated[Json, STORED_AS_JSON]


@dataclass(frozen=True, kw_only=True)
class GraphEvent(Record):
    """An event of a thread's runs, numbered from 1 without a gap."""

    row_name = "event {seq} of thread {thread_id}"

    thread_id: Name
    seq: Count
    run_id: Name
    event: Annotated[Json, STORED_AS_JSON]
