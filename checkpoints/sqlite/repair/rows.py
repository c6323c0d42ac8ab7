"""Mend the damaged rows of a session: from the log of its events, as far as that tells what they held."""

import json
import sqlite3
from itertools import count as numbers
from typing import Any

from segue.core.events import ErrorRaised, StateChanged, to_dict
from segue.core.ids import Ids
from segue.core.records import Json, Task, to_row
from segue.core.task_status import OPEN, TaskStatus

from ..event_log import event_row, insert_event
from ..integrity import ReadRow, rows_of
from ..tasks import EMPTY
from .calls import mended_call

Log = list[Json]
_S = TaskStatus
_IDS = {"trace_id": str, "step_id": str, "iteration": int}
_UNREADABLE = "What stood here was damaged and could not be read: the session was recovered."
_NO_PLACE = "Events dropped, since nothing tells where they belong"
_TAKEN = "Events dropped, since another one stands in their place by now"

_DROP_EVENT = "DELETE FROM events WHERE task_id = ? AND seq = ?"
_DROP_NAMELESS = """
    DELETE FROM events WHERE CAST(task_id AS BLOB) IS CAST(? AS BLOB) AND CAST(seq AS BLOB) IS CAST(? AS BLOB)
"""
_PUT_EVENT = """
    INSERT OR IGNORE INTO events (task_id, seq, thread_id, source, ordinal, event)
    VALUES (:task_id, :seq, :thread_id, :source, :ordinal, :event)
"""
_NUMBERS = "SELECT seq FROM events WHERE task_id = ? AND typeof(seq) = 'integer'"


def mend(connection: sqlite3.Connection, thread_id: str, now: float) -> list[str]:
    """Mend what is damaged, in the caller's transaction; returns what was done, a sentence each.

    An event that cannot be read keeps its number. A call that had ended stays one that is not made again.
    """
    said = _mend_events(connection, thread_id, now)
    log: dict[str, Log] = {}
    for row in rows_of(connection, "events", thread_id):
        log.setdefault(row.task_id, []).append({**row.values["event"], "source": row.values["source"]})
    said += _mend_tasks(connection, thread_id, log, now)
    tasks = [row.values for row in rows_of(connection, "tasks", thread_id)]
    for call in [row for row in rows_of(connection, "calls", thread_id) if row.faults]:
        new, sentence = mended_call(call, thread_id, tasks, log)
        try:
            _update(connection, "calls", call, new)
        except sqlite3.IntegrityError:  # it was made again while it could not be found
            _update(connection, "calls", call, {**new, "scope": f"damaged#{call.stored['position']}", "orphaned": 1})
        said.append(sentence)
    return said


def _update(connection: sqlite3.Connection, table: str, row: ReadRow, new: Json) -> None:
    columns = ", ".join(f"{column} = :{column}" for column in new)
    values = {**new, "position": row.stored["position"]}
    connection.execute(f"UPDATE {table} SET {columns} WHERE position = :position", values)


def _mend_events(connection: sqlite3.Connection, thread_id: str, now: float) -> list[str]:
    rows = [*rows_of(connection, "events", thread_id)]
    moments = {row.task_id: row.values["event"]["timestamp"] for row in reversed(rows) if "event" in row.values}
    said: dict[str, list[str]] = {}
    dropped = dict.fromkeys((_NO_PLACE, _TAKEN), 0)
    for row in rows:
        form = row.values.get("event")
        if form:
            moments[row.task_id] = form["timestamp"]
        if not row.faults:
            continue
        drop = _DROP_NAMELESS if row.faults.keys() & {"task_id", "seq"} else _DROP_EVENT
        connection.execute(drop, (row.stored["task_id"], row.stored["seq"]))
        task_id = row.task_id or (form or {}).get("task_id", "")
        new = _event(connection, row, thread_id, task_id, moments.get(task_id, now))
        if not task_id:
            dropped[_NO_PLACE] += 1
        elif connection.execute(_PUT_EVENT, new).rowcount != 1:
            dropped[_TAKEN] += 1
        else:
            what = "were put right" if form else "could not be read, and say so now"
            said.setdefault(f"Events of task «{task_id}» that {what}", []).append(str(new["seq"]))
    lines = [f"{what}: {', '.join(found)}." for what, found in said.items()]
    return [*lines, *(f"{why}: {times}." for why, times in dropped.items() if times)]


def _event(connection: sqlite3.Connection, row: ReadRow, thread_id: str, task_id: str, moment: float) -> Json:
    """The row of an event; in place of one that cannot be read, one that says so."""
    taken = {number for (number,) in connection.execute(_NUMBERS, (task_id,))} if "seq" in row.faults else ()
    seq = row.values["seq"] if "seq" in row.values else next(number for number in numbers(1) if number not in taken)
    placed = not row.faults.keys() & {"source", "ordinal"}
    source, ordinal = (row.values["source"], row.values["ordinal"]) if placed else (None, 0)
    form = row.values.get("event")
    if not form:
        ids = _salvaged(row.stored["event"])
        form = to_dict(ErrorRaised(task_id=task_id, message=_UNREADABLE, timestamp=moment, **ids))
    return {**event_row(thread_id, source, ordinal, {**form, "task_id": task_id}), "seq": seq}


def _salvaged(stored: Any) -> Json:
    try:
        form = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return {}
    known = form if isinstance(form, dict) else {}
    return {field: known[field] for field, kind in _IDS.items() if isinstance(known.get(field), kind)}


def _mend_tasks(connection: sqlite3.Connection, thread_id: str, log: dict[str, Log], now: float) -> list[str]:
    rows = [*rows_of(connection, "tasks", thread_id)]
    known = {row.task_id for row in rows}
    nameless = sorted((found[0]["timestamp"], task_id) for task_id, found in log.items() if task_id not in known)
    beside = {column: row.values[column] for row in rows for column in row.values.keys() & {"agent_id", "user_id"}}
    said = []
    for row in [row for row in rows if row.faults]:
        task_id = row.task_id or (nameless.pop(0)[1] if nameless else Ids().task())
        events = log.get(task_id, [])
        told = {**_task_by_events(events), "thread_id": thread_id, **({"task_id": task_id} if events else {})}
        guessed = {"task_id": task_id, "user_id": "default", "status": _S.PENDING.value, **beside}
        whole = {**EMPTY, "created_at": now, "updated_at": now, **guessed, **told}
        new = {column: whole[column] for column in row.faults}
        status = {**row.values, **new}["status"]
        passed = row is not rows[-1] and not new.keys().isdisjoint({"status", "thread_id"})
        if given_up := status in OPEN and (passed or _cannot_begin(new, events)):
            new["status"] = _S.CANCELLED.value
        _update(connection, "tasks", row, to_row(Task, new))
        if given_up:
            insert_event(connection, thread_id, StateChanged(task_id=task_id, old=status, new=_S.CANCELLED))
        said.append(_sentence(task_id, {column: new[column] for column in row.faults}, told, given_up))
    return said


def _cannot_begin(new: Json, events: Log) -> bool:
    """Whether the message is lost of a task that no step was made of yet."""
    return new.get("message") == "" and not any(event["source"] for event in events)


def _task_by_events(events: Log) -> Json:
    """What a task's events tell of its row."""
    last = {event["type"]: event["data"] for event in events}
    told: Json = {"notes": [event["data"]["message"] for event in events if event["type"] == "steered"]}
    if started := last.get("task_started"):
        # A chat model object goes by a name that nothing can be asked for by.
        known = started["model"] == "offline" or started["model"].startswith(("openai:", "local:"))
        told |= {"agent_id": started["agent_id"], "message": started["message"]}
        told |= {"model": started["model"]} if known else {}
    if chosen := last.get("mode_selected"):
        told["mode"] = chosen["mode"]
    ended = last.get("task_complete", {})
    told |= {"result": ended["result"]} if ended else {}
    status = last["state_changed"]["new"] if "state_changed" in last else ended.get("status")
    if status in [*_S]:
        told["status"] = status
    failed = [event["data"]["message"] for event in events if event["type"] == "error" and event["data"].get("final")]
    error = failed[-1] if failed else ended.get("result", {}).get("error")
    if error and status == _S.ERROR:
        told["error"] = str(error)
    return told | ({"created_at": events[0]["timestamp"], "updated_at": events[-1]["timestamp"]} if events else {})


def _sentence(task_id: str, new: Json, told: Json, given_up: bool) -> str:
    lost = [column for column in new if new[column] == EMPTY[column]]
    guessed = [column for column in new if column not in lost and column not in told]
    rebuilt = [column for column in new if column not in lost and column in told]
    kinds = {"rebuilt": rebuilt, "guessed": guessed, "lost, and empty now": lost}
    said = [f"{kind}: {', '.join(columns)}" for kind, columns in kinds.items() if columns]
    if given_up:
        said.append("cancelled" + (", since its message is lost: send it again" if "message" in lost else ""))
    return f"Task «{task_id}»: {'; '.join(said)}."
