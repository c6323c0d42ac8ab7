"""Events that are sent to tasks, by name, whether a task waits for them already or not."""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

from .decision import check_storable
from .errors import InvalidAnswer
from .records import Json, Moment, Name, Record
from .row_validators import STORED_AS_JSON

MOST_BYTES = 256 * 1024
_NAME = re.compile(r"[\w.:-]{1,100}")


@dataclass(frozen=True, kw_only=True)
class SentEvent(Record):
    """An event that was sent to a task; `data` is {"data": …}, whatever its sender gave."""

    row_name = "event sent to task {task_id}"
    is_recoverable = False

    position: int
    task_id: Name
    thread_id: Name
    name: Name
    data: Annotated[Json, STORED_AS_JSON]
    sent_at: Moment


def check_event(name: object, data: Any = None) -> None:
    """Make sure that an event can be sent.

    Raises:
        InvalidAnswer: its name or its data cannot be used.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAnswer("An event name must have 1 to 100 letters, digits, . : - or _.")
    try:
        check_storable(data)
        size = len(json.dumps(data, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidAnswer("The data of the event cannot be stored: {error}.", error=error) from error
    if size > MOST_BYTES:
        raise InvalidAnswer("The data of the event has {size} bytes; the limit is {most}.", size=size, most=MOST_BYTES)
