"""A service whose agent's model says what a test wants it to, over the protocol of a real endpoint."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes import answer, call_tool, choose
from tests.loopback import Gate, Item, Json, LoopbackServer, Text, ToolCalls
from tests.loopback_wire import Wire

from .serving import Service

AGENTS = """
[[agent]]
agent_id = "scripted"
model = "openai:scripted"
base_url = "{base_url}"
api_key = "unused"
mode = "direct"

[[agent]]
agent_id = "shop"
model = "openai:scripted"
base_url = "{base_url}"
api_key = "unused"
mode = "react"
tools = ["shop_tools:refund", "shop_tools:send_letter", "shop_tools:lookup"]

[[agent]]
agent_id = "desk"
model = "openai:scripted"
base_url = "{base_url}"
api_key = "unused"
mode = "react"
protocol = "native"
tools = ["shop_tools:lookup"]
"""
TOOLS = '''
import segue


@segue.tool(needs_approval=True)
def refund(order_id: int, amount: float) -> str:
    """Pay money back."""
    return f"refunded {amount} for order {order_id}"


@segue.tool(needs_approval=True)
def send_letter(text: str, to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@segue.tool(read_only=True)
def lookup(order_id: int) -> dict[str, object]:
    """Look up an order."""
    return {"order_id": order_id, "history": ["packed", "sent"] * 1000}
'''
QUESTION = "Which colour?"
LONG = "".join(f"第{n}天：从北京出发，𠮷野家旁的茶馆🍵很好。\n" for n in range(200)).strip()
TEN_THOUSAND = "".join(f"{n}. 上午参观**博物馆**，下午走一走。\n" for n in range(1, 501))
FIRST, REST = "这是开头，", "这是后来的。"
PREAMBLE = "I look *the order* up first."
CALLS = 300
"""Calls of a model that one service can make."""


@dataclass
class Model:
    """Says the long text in pieces of the size that the message names, or waits after its first words; plays a shop."""

    go: threading.Event = field(default_factory=threading.Event)

    def reply(self, request: Json) -> Item:
        said = "\n".join(str(message["content"]) for message in request["messages"])
        if request.get("tools"):
            calls = ToolCalls([("c1", "lookup", '{"order_id": 17}')], PREAMBLE)
            return Gate(FIRST, REST, self.go) if request["messages"][-1]["role"] == "tool" else calls
        if "## Branches" in said:
            knows = '"success": "blue"' in said
            if knows:
                return Text(choose("final_answer", answer="It is blue."))
            return self._in_time(choose("ask_user", question=QUESTION, choices=["blue", "red"]), said)
        if "CALL_TOOL" in said:
            return self._decide(said)
        message = str(request["messages"][-1]["content"])
        if message == "ten thousand characters":
            return InPieces(TEN_THOUSAND, 4)
        if size := re.fullmatch(r"in pieces of (\d+)", message):
            return InPieces(LONG, int(size[1]))
        return Gate(FIRST, REST, self.go) if message.startswith("wait") else Text(message)

    def _decide(self, said: str) -> Item:
        """What the shop does next: a call first, then the answer."""
        if "please ramble" in said:
            return Text("Nice weather today.")
        looked_up, call = "packed" in said, call_tool(("lookup", {"order_id": 17}), thought="I look the order up.")
        if orders := re.findall(r"please refund (\d+)", said):
            order = max(map(int, orders))
            if "one by one" in said:
                order = next(
                    (each for each in map(int, orders) if f"refunded 20.5 for order {each}" not in said), order
                )
            refunded = re.search(rf"refunded [\d.]+ for order {order}", said)
            arguments = {"order_id": order, "amount": 20.5}
            asked = sorted(set(map(int, orders))) if "together" in said else [order]
            calls = [("refund", {**arguments, "order_id": each}) for each in asked]
            call = call_tool(*calls, thought="The customer wants money back.")
            ended = refunded or "too much" in said
            if not ended:
                return self._in_time(call, said)
            return Text(answer(f"Done: {refunded[0] if refunded else 'nothing was paid'}."))
        if "please write" in said:
            call = call_tool(("send_letter", {"text": "\n".join(f"Line {n}" for n in range(200)), "to": "ann"}))
        if looked_up:
            return Text(answer("Sent, **as advised**." if "gift wrap" in said else "Sent."))
        return self._in_time(call, said)

    def _in_time(self, text: str, said: str) -> Item:
        """The text, the second half of it after `go` where the person asks to wait."""
        half = len(text) // 2
        return Gate(text[:half], text[half:], self.go) if "please wait" in said else Text(text)


@dataclass(frozen=True)
class InPieces:
    """A reply that an endpoint sends in pieces of this many characters, so many seconds apart."""

    text: str
    size: int
    pause: float = 0.001

    def play(self, wire: Wire) -> None:
        wire.begin()
        for start in range(0, len(self.text), self.size):
            wire.delta({"content": self.text[start : start + self.size]})
            time.sleep(self.pause)
        wire.finish("stop")


@contextmanager
def scripted(folder: Path, model: Model) -> Iterator[Service]:
    """A service whose default agent has this model."""
    with LoopbackServer([model.reply] * CALLS) as endpoint:
        try:
            (folder / "shop_tools.py").write_text(TOOLS, encoding="utf-8")
            with Service(folder, AGENTS.format(base_url=endpoint.base_url)) as service:
                yield service
        finally:
            model.go.set()
