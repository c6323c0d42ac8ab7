"""Scripts of the modes that make calls, so that one test holds for each of them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage

from segue.core.agents import Agent
from tests.fakes import Call, Item, ScriptedChatModel, answer, call_tool, choose, plan_json

CALLING = ("react", "native", "plan", "plan_react", "controller", "lifecycle")
"""The modes that call tools; native is react with the model's own tool calls."""


def agent_that(mode: str, *calls: Call, plans: Sequence[Sequence[Call]] = (), **fields: Any) -> Agent:
    """The agent `a`, whose model makes these calls one after the other and is done.

    In plan mode these are the steps of its first plan; `plans` are those that it makes when steps did not succeed.
    """
    own = {"mode": "react", "protocol": "native"} if mode == "native" else {"mode": mode}
    model = ScriptedChatModel([*script_of(mode, calls, plans)])
    return Agent(**{"agent_id": "a", "model": model, **own, **fields})


def script_of(mode: str, calls: Sequence[Call], plans: Sequence[Sequence[Call]] = ()) -> Iterator[Item]:
    match mode:
        case "react":
            yield from map(call_tool, calls)
            yield answer("done")
        case "native":
            for place, call in enumerate(calls):
                yield native_call((f"call-{place}", *call))
            yield AIMessage("done")
        case "plan":
            yield from (plan_of(steps) for steps in (calls, *plans))
            yield "done"
        case "plan_react":
            yield plan_of(calls)
            yield from map(call_tool, calls)
            yield answer("done")
        case "controller":
            yield plan_of(calls)
            yield from (choose(name, **arguments) for name, arguments in calls)
            yield choose("finish", summary="done")
        case "lifecycle":
            yield json.dumps({"tasks": [{"id": "a", "description": "do it", "dependencies": []}]})
            yield from map(call_tool, calls)
            yield answer("done")


def plan_of(calls: Sequence[Call]) -> str:
    steps = [{"action": name, "params": arguments, "description": name} for name, arguments in calls]
    return plan_json("g", steps)


def native_call(*calls: tuple[str, str, Any]) -> AIMessage:
    """A message with calls of these ids, names and arguments."""
    return AIMessage("", tool_calls=[{"id": i, "name": n, "args": a, "type": "tool_call"} for i, n, a in calls])
