"""A service whose agent's model says what a test wants it to, over the protocol of a real endpoint."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.loopback import Gate, Item, Json, LoopbackServer, Text
from tests.loopback_wire import Wire

from .serving import Service

AGENTS = """
[[agent]]
agent_id = "scripted"
model = "openai:scripted"
base_url = "{base_url}"
api_key = "unused"
mode = "direct"
"""
LONG = "".join(f"第{n}天：从北京出发，𠮷野家旁的茶馆🍵很好。\n" for n in range(200)).strip()
FIRST, REST = "这是开头，", "这是后来的。"
CALLS = 100
"""Calls of a model that one service can make."""


@dataclass
class Model:
    """Says the long text in pieces of the size that the message names, or waits after its first words."""

    go: threading.Event = field(default_factory=threading.Event)

    def reply(self, request: Json) -> Item:
        message = str(request["messages"][-1]["content"])
        if size := re.fullmatch(r"in pieces of (\d+)", message):
            return InPieces(LONG, int(size[1]))
        return Gate(FIRST, REST, self.go) if message.startswith("wait") else Text(message)


@dataclass(frozen=True)
class InPieces:
    """A reply that an endpoint sends in pieces of this many characters."""

    text: str
    size: int

    def play(self, wire: Wire) -> None:
        wire.begin()
        for start in range(0, len(self.text), self.size):
            wire.delta({"content": self.text[start : start + self.size]})
        wire.finish("stop")


@contextmanager
def scripted(folder: Path, model: Model) -> Iterator[Service]:
    """A service whose default agent has this model."""
    with LoopbackServer([model.reply] * CALLS) as endpoint:
        try:
            with Service(folder, AGENTS.format(base_url=endpoint.base_url)) as service:
                yield service
        finally:
            model.go.set()
