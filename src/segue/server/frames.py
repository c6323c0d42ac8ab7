"""Events as the frames of a `text/event-stream`: one line of ASCII JSON each, small enough for one read of a client."""

import dataclasses
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.events import AttemptRestarted, ErrorRaised, Event, Phase, Thinking, Token, Waiting
from ..prompts.catalogue import word
from .errors import encoded, fit, split, truncate
from .tenants import Tenant

MOST = 4096
"""Bytes of a frame: the prescribed client keeps nothing between two reads."""
HEARTBEAT = b": heartbeat\n\n"
PADDING = b":" + b" " * 4094 + b"\n"
"""A comment at the beginning for browsers: Chromium's first read ends after 4096 bytes, whatever has arrived."""
_IDS = ("task_id", "trace_id", "step_id")
_ID_BYTES = 256
_NAMEABLE = re.compile(r"[\w.-]{1,128}", re.ASCII)


def flatten(form: Mapping[str, Any]) -> dict[str, Any]:
    """An event's dict form with its ids and its own fields side by side."""
    return {**{name: value for name, value in form.items() if name != "data"}, **form["data"]}


def frames(event: Event) -> Iterator[bytes]:
    """The event as one frame; a long delta as several, of anything else what fits, with "truncated": true."""
    if isinstance(event, Thinking | Phase | Token):
        yield from _delta(event)
        return
    form = flatten(event.json())
    name = f"{event.task_id}:{event.seq}" if event.seq and _NAMEABLE.fullmatch(event.task_id) else ""
    whole = _frame(form, name)
    yield whole if len(whole) <= MOST else _truncated(form, name)


def _truncated(form: dict[str, Any], name: str) -> bytes:
    kind, ids = form.pop("type"), {name: truncate(form.pop(name), _ID_BYTES) for name in _IDS}
    head = {"type": kind, **ids}
    return _frame({**head, **fit(form, _room(head, name))}, name)


def done_frame(task_id: str, result: Mapping[str, Any]) -> bytes:
    """The last frame of a stream; of a long result the answer comes first."""
    head = {"type": "done", "task_id": truncate(task_id, _ID_BYTES)}
    return _frame({**head, "result": fit(result, _room({**head, "result": None}), first="answer")})


def _delta(event: Thinking | Phase | Token) -> Iterator[bytes]:
    named = {name: truncate(value, _ID_BYTES) for name in _IDS if (value := getattr(event, name))}
    phase = {"phase": True, **({"call": True} if event.call else {})} if isinstance(event, Phase) else {}
    form = {"type": event.type, "content": event.content, **named, "attempt": event.attempt, **phase}
    if len(whole := _frame(form)) <= MOST:
        yield whole
        return
    form["content"] = ""
    for piece in split(event.content, _room(form)):
        yield _frame({**form, "content": piece})


def _room(form: Mapping[str, Any], name: str = "") -> int:
    """What a frame of this form leaves for one more value, or for fields that are merged into it."""
    return MOST - len(_frame(form, name))


def _frame(form: Mapping[str, Any], name: str = "") -> bytes:
    named = f"id: {name}\n" if name else ""
    return f"{named}data: {encoded(form)}\n\n".encode("ascii")


def position(last_event_id: str, task_id: str) -> int:
    """The number of the task's event that an id of a frame names; 0, the beginning, where it names none of it."""
    named, _, seq = last_event_id.strip().rpartition(":")
    return int(seq) if named == task_id and seq.isascii() and seq.isdigit() and len(seq) < 16 else 0


class FrameCache:
    """The frames of the latest events, made once for all who watch the same task."""

    def __init__(self, kept: int = 2048) -> None:
        self._kept = kept
        self._made: OrderedDict[object, tuple[Event, tuple[bytes, ...]]] = OrderedDict()

    def frames(self, event: Event, tenant: Tenant, language: str) -> tuple[bytes, ...]:
        """The event's frames: an error's names as the tenant knows them, why a task waits in the task's language."""
        key = (event.task_id, event.seq) if event.seq else id(event)
        if made := self._made.get(key):
            return made[1]
        shown = event
        if isinstance(event, ErrorRaised) and tenant.name:
            shown = dataclasses.replace(event, message=tenant.without_prefix(event.message))
        if isinstance(event, AttemptRestarted | Waiting):
            shown = dataclasses.replace(event, reason=word(event.reason, language))
        made = self._made[key] = (event, tuple(frames(shown)))  # an event that is kept keeps its id
        if len(self._made) > self._kept:
            self._made.popitem(last=False)
        return made[1]
