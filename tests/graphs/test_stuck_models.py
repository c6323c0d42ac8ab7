"""A model that is stuck, or whose prompt is too long: few calls over a real endpoint, and what was found stays."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import segue
from segue.core.events import Event
from tests.cases import cases
from tests.loopback import LoopbackServer, Status, Text, ToolCalls
from tests.loopback_wire import Json

KEY = "test-key-0123456789"


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} is on its way"


def fail(x: int) -> str:
    """Fail."""
    raise ValueError("broken")


def long_text(n: int) -> str:
    """A long text."""
    return "word " * 8000


async def told(server: LoopbackServer, protocol: str = "native", **fields: Any) -> tuple[Any, list[Event]]:
    """The task's record, and the events."""
    agent = segue.Agent(
        agent_id="a",
        model="openai:m",
        base_url=server.base_url,
        api_key=KEY,  # type: ignore[arg-type]
        tools=[look_up, fail, long_text],
        protocol=protocol,  # type: ignore[arg-type]
        mode="react",
        **fields,
    )
    events: list[Event] = []
    async with segue.open(":memory:", agents=[agent]) as app:
        async for event in app.chat("go", session_id="s", agent="a"):
            events.append(event)
        return await app.task(events[-1].task_id), events


def call(name: str, arguments: Any) -> ToolCalls:
    return ToolCalls([("c", name, arguments if isinstance(arguments, str) else json.dumps(arguments))])


def envelope(kind: str, output: dict[str, Any]) -> Text:
    return Text(json.dumps({"action": {"result": {"action_type": kind, "output": output}}}))


FAILED = {"function": {"name": "fail", "arguments": {"x": 1}}}
REMEND = call("remend", {"diagnosis": "d", "tool_calls": [{"name": "fail", "arguments": {"x": 1}}]})
TWICE = [{"step_id": "a", "description": "one"}, {"step_id": "a", "description": "two"}]
MARKUP = Text('<tool_call>{"name": "look_up", "arguments": {</tool_call>')


@cases(
    "protocol, script, says",
    [
        ("native", [call("fail", {"x": 1})] * 3, "broken"),
        ("native", [call("look_up", {"wrong": 1})] * 3, "not valid"),
        ("native", [call("nothing", {"x": 1})] * 3, "no tool"),
        ("native", [call("fail", {"x": 1}), *[REMEND] * 2], "broken"),
        ("native", [call("plan", {"plan": TWICE})] * 3, "failed 3 times: PLAN"),
        ("native", [call("fail", {"x": 1}), call("look_up", {"wrong": 1})] * 2 + [call("fail", {"x": 1})], "broken"),
        ("native", [call("fail", {"x": 1}), call("look_up", "{")] * 2 + [call("fail", {"x": 1})], "broken"),
        ("native", [MARKUP] * 3, "tool call in its text"),
        ("native", [Text("")] * 3, "empty"),
        ("native", [Status(400, body={"error": {"message": "Bad call", "code": "tool_use_failed"}})] * 3, "Bad call"),
        ("json", [envelope("CALL_TOOL", {"tool_calls": [FAILED]})] * 3, "broken"),
        ("json", [envelope("REFLECT", {"summary": "hm"})] * 3, "only thought"),
        ("json", [Text('{"action":')] * 3, "{'action':".replace("'", '"')),
    ],
)
async def test_a_model_that_is_stuck_ends_its_task_after_a_few_calls(
    protocol: str, script: Sequence[Any], says: str
) -> None:
    with LoopbackServer(list(script)) as server:
        task, _ = await told(server, protocol)
        server.assert_spent()
    assert task.status == "error" and says in str(task) and len(script) <= 5


async def test_what_a_stuck_model_found_is_in_the_answer() -> None:
    with LoopbackServer([call("look_up", {"order": 7}), *[call("fail", {"x": 1})] * 3]) as server:
        task, _ = await told(server)
    assert task.status == "error" and "order 7 is on its way" in task.result["answer"]


class ShortContext:
    """Refuses a prompt of more than so many characters, in words of its own."""

    def __init__(self, most: int, refusal: Status, answer: Any) -> None:
        self._most, self._refusal, self._answer = most, refusal, answer

    def __call__(self, body: Json) -> Any:
        return self._refusal if len(json.dumps(body["messages"])) > self._most else self._answer


@pytest.mark.parametrize(
    "refusal",
    [
        Status(400, body={"error": {"message": "maximum context length is 8192 tokens"}}),
        Status(413, body="too big"),
        Status(400, body={"error": {"message": "bad request"}}),
    ],
    ids=["in words", "413", "any 400"],
)
async def test_a_prompt_that_is_too_long_is_shortened_and_sent_again_once(refusal: Status) -> None:
    results = [call("long_text", {"n": n}) for n in range(3)]
    with LoopbackServer([*results, *(ShortContext(13_000, refusal, Text(each)) for each in "34")]) as server:
        task, events = await told(server)
        server.assert_spent()
    assert task.status == "done" and task.result["answer"] == "4"
    said = [event.data["reason"] for event in events if event.type == "attempt_restarted"]
    assert len(said) == 1 and "budget.prompt_tokens" in said[0]


async def test_a_refusal_of_a_short_prompt_is_not_sent_again() -> None:
    with LoopbackServer([Status(400, body={"error": {"message": "bad temperature"}})]) as server:
        task, _ = await told(server)
        server.assert_spent()
    assert task.status == "error" and "bad temperature" in str(task.error)
