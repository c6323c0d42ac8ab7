"""The scripted model: an OpenAI-compatible endpoint that does what the user's message says.

- `Do: [["post"], ["pay", "notify"]]` makes these calls, those of an inner list in one reply, then answers.
  `{"clerk": [["pay"]]}` calls the tool `clerk` with the message `Do: [["pay"]]`.
- `Say: TEXT` answers with the text.
- `Loop: NAME` makes the same call in every reply, `Vary: NAME` one with other arguments, up to `CAP` of them.
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.loopback import Call, LoopbackServer, Request, Text, ToolCalls
from tests.loopback_script import Item
from tests.loopback_wire import Wire

Json = dict[str, Any]
CAP = 60
"""The calls after which a stuck model gives up, so that whoever asks it ends."""
ORDERS = ("Do: ", "Say: ", "Loop: ", "Vary: ")
DONE = "All of it is done."
DELEGATE = "delegate_task_to_member"
"""The tool by which a team of agno calls its members."""


class Model(LoopbackServer):
    """Answers each request by the conversation that it brings, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self._counting = threading.Lock()
        self._number = self._begun = self._answered = 0

    def begin(self) -> None:
        """Count requests from here on."""
        self._begun = self._number

    @property
    def asked(self) -> int:
        """The requests since then."""
        return self._number - self._begun

    @property
    def owed(self) -> int:
        """The requests that are not answered."""
        return self._number - self._answered

    @property
    def last(self) -> list[Json]:
        """The messages of the last request."""
        return list(self.requests[-1].body["messages"])

    def answer_to(self, request: Request) -> "_Counted":
        with self._counting:
            self.requests = [request]
            self._number += 1
            number = self._number
        try:
            return _Counted(self._answer(request, number), self._count)
        except Exception:
            self._count()
            raise

    def _count(self) -> None:
        with self._counting:
            self._answered += 1

    def _answer(self, request: Request, number: int) -> Item:
        messages = request.body["messages"]
        last = max(
            (
                place
                for place, each in enumerate(messages)
                if each["role"] == "user" and text_of(each).startswith(ORDERS)
            ),
            default=-1,
        )
        if last < 0:
            return Text("There is nothing to do.")
        made = sum(each["role"] == "assistant" and bool(each.get("tool_calls")) for each in messages[last:])
        kind, _, rest = text_of(messages[last]).partition(": ")
        if kind == "Say":
            return Text(rest)
        if kind in ("Loop", "Vary"):
            if self.asked > CAP:
                return Text("I give up.")
            return ToolCalls([Call(f"call_{number}", rest, json.dumps({"order": 17 if kind == "Loop" else number}))])
        batches: list[list[Any]] = json.loads(rest)
        if made >= len(batches):
            return Text(DONE)
        return ToolCalls(
            [_call(f"call_{number}_{place}", each, request.body) for place, each in enumerate(batches[made])]
        )


@dataclass(frozen=True)
class _Counted:
    """An answer that is counted when it was given."""

    item: Item
    given: Callable[[], None]

    def play(self, wire: Wire) -> None:
        try:
            self.item.play(wire)
        finally:
            self.given()


def _call(call_id: str, what: Any, body: Json) -> Call:
    """A call by a name, or of an agent that is a tool, whose first parameter gets the message."""
    if isinstance(what, str):
        return Call(call_id, what, '{"order": 17}')
    ((name, inner),) = what.items()
    schemas = {each["function"]["name"]: each["function"]["parameters"] for each in body["tools"]}
    if DELEGATE in schemas:
        return Call(call_id, DELEGATE, json.dumps({"member_id": name, "task": do(*inner)}))
    return Call(call_id, name, json.dumps({next(iter(schemas[name]["properties"])): do(*inner)}))


def do(*batches: Sequence[Any]) -> str:
    """The message that has these calls made."""
    return f"Do: {json.dumps(batches)}"


def text_of(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
