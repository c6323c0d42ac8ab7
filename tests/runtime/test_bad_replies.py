"""Replies that cannot be carried out: nothing is run, the model is asked again, and the session goes on."""

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk

from segue import Agent, App
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer, call_tool, remend

ORDER = {"order_id": 1}


def native(name: Any, arguments: Any = ORDER, call_id: Any = "c") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


def fragments(*pieces: dict[str, Any]) -> AIMessageChunk:
    return AIMessageChunk(
        "", tool_call_chunks=[{"type": "tool_call_chunk", "index": None, "id": None, "name": None, **p} for p in pieces]
    )


FAILING = native("lookup", {"order_id": 0})
BAD: dict[str, tuple[str, list[Any]]] = {
    "native, empty": ("native", [native("")]),
    "native, blank": ("native", [native("  ")]),
    "native, a NUL": ("native", [native("a\x00b")]),
    "native, long": ("native", [native("x" * 100_000)]),
    "native, beside a good one": ("native", [AIMessage("", tool_calls=[*FAILING.tool_calls, *native("").tool_calls])]),
    "native, two ids": ("native", [fragments({"id": "a", "name": "lookup"}, {"id": "b", "args": '{"order_id": 9}'})]),
    "native, no name": ("native", [fragments({"args": '{"order_id": 9}'})]),
    "native, NaN": ("native", [native("lookup", {"order_id": float("nan")})]),
    "native, huge": ("native", [native("lookup", {"order_id": 10**30})]),
    "native, a half": ("native", [native("lookup", {"order_id": "\ud800"}, "\ud800")]),
    "remend, native": ("native", [FAILING, native("remend", {"diagnosis": "d", "tool_calls": [{"name": ""}]})]),
    "json": ("json", [call_tool(("", ORDER))]),
    "json, a half": ("json", [call_tool(("\ud800", ORDER))]),
    "remend, json": ("json", [call_tool(("lookup", {"order_id": 0})), remend("d", calls=[("", ORDER)])]),
    "two decisions": ("json", [call_tool(("lookup", {"order_id": 9})) + answer("no")]),
    "a thought": ("json", [f"[THINK]{call_tool(('lookup', {'order_id': 9}))}"]),
}


@cases("protocol, script", BAD.values())
async def test_a_reply_that_cannot_be_carried_out_leaves_the_session_usable(
    app: App, protocol: str, script: list[Any]
) -> None:
    ran: list[int] = []

    def lookup(order_id: int) -> str:
        """Look up an order."""
        ran.append(order_id)
        if not order_id:
            raise ValueError("no such order")
        return "sent"

    ends = ["one", "two"] if protocol == "native" else [answer("one"), answer("two")]
    model = ScriptedChatModel([*script, *ends])
    name = f"agent-{id(model)}"
    app.register(Agent(agent_id=name, model=model, tools=(lookup,), mode="react", protocol=protocol))
    for said in ("first", "second"):
        assert (await app.ask(said, agent=name, session_id=name))["success"]
    assert set(ran) <= {0}
