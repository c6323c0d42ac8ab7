"""The world outside of Segue: a model's endpoint that counts what it serves, and a receiver that is down for a day."""

import json
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.loopback import Item, Json, LoopbackServer, Request, Text, ToolCalls
from tests.loopback_wire import Dropped, Wire
from tests.operations.calendar import DOWN, Blow, SharedClock, day_of

INPUT, OUTPUT = 10, 100
"""US dollars for a million tokens."""
PLAIN, COSTLY = 30, 190
"""Tokens of a reply."""
FIRST = 100
"""Tokens of the first prompt; each further one has one more, so that its number tells which call it is."""


@dataclass(frozen=True)
class Served:
    """A request that the endpoint answered, and charges for."""

    day: int
    input: int
    output: int

    @property
    def nano_dollars(self) -> int:
        return (self.input * INPUT + self.output * OUTPUT) * 1000


@dataclass(frozen=True)
class _Fatal:
    """A reply during which the client's process is killed: before it, in the middle, or once it was sent."""

    reply: ToolCalls | Text
    pid: int
    phase: int

    def play(self, wire: Wire) -> None:
        if self.phase == 1:
            wire.begin()
            wire.delta({"role": "assistant", "content": ""})
        elif self.phase == 2:
            with suppress(ConnectionError):
                self.reply.play(wire)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        raise Dropped


class Endpoint(LoopbackServer):
    """Says what comes next from the messages alone, and notes what it charges for."""

    def __init__(self, clock: SharedClock) -> None:
        super().__init__()
        self._clock = clock
        self._blow: Blow | None = None
        self._left = self._pid = 0
        self.served: list[Served] = []

    def arm(self, blow: Blow | None, pid: int) -> None:
        """Kill that process as the blow says."""
        self._pid, self._blow, self._left = pid, blow, blow.number if blow else 0

    def answer_to(self, request: Request) -> Item:
        with self._lock:
            day = day_of(self._clock())
            number, blow = len(self.served), self._blow
            reply, served = self._reply(request.body, number, day)
            self.served.append(served)
            if blow is None or blow.kind != "model" or blow.day != day:
                return reply
            self._left -= 1
            return _Fatal(reply, self._pid, number % 3) if self._left == 0 else reply

    def _reply(self, body: Json, number: int, day: int) -> tuple[ToolCalls | Text, Served]:
        call = next_call(body["model"], body["messages"])
        output = COSTLY if "costly" in json.dumps(body["messages"]) else PLAIN
        served = Served(day, FIRST + number, output)
        usage = {"prompt_tokens": served.input, "completion_tokens": output, "total_tokens": served.input + output}
        if call is None:
            return Text("It is done.", usage=usage), served
        name, arguments = call
        return ToolCalls([(f"call-{number}", name, json.dumps(arguments))], usage=usage), served


_RUN, _ORDERS = re.compile(r'"run": ?"(\w+)"'), re.compile(r'"orders": ?(\d+)')


def next_call(model: str, messages: list[dict[str, Any]]) -> tuple[str, Mapping[str, Any]] | None:
    """The call that an agent makes next; None once it is done."""
    results = sum(message["role"] == "tool" for message in messages)
    if model == "cashier":
        return None if results else ("pay", {"amount": 50})
    if not results:
        return "orders", {}
    said = json.dumps(messages).replace("\\", "")
    run, count = _RUN.search(said), _ORDERS.search(said)
    assert run and count, messages
    if model == "reporter":
        return ("send_report", {"label": run[1]}) if results == 1 else None
    return ("post", {"label": f"{run[1]}-{results}", "amount": results}) if results <= int(count[1]) else None


def status_of(clock: SharedClock) -> int:
    """What the receiver of notifications answers with."""
    return 503 if day_of(clock()) == DOWN else 200
