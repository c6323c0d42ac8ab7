"""The recursive ReAct machine."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from segue import load_agents
from segue.app import App
from tests.fakes import answer, call_tool
from tests.loopback import LengthCut, LoopbackServer, Scripted, Text, ToolCalls
from tests.loopback_wire import Wire

from .conftest import Chat

asked: list[str] = []


def lookup(city: str) -> str:
    """Look up the weather."""
    asked.append(city)
    return f"sunny in {city}"


def first_call(protocol: str) -> list[Scripted]:
    call = ToolCalls([("c", "lookup", '{"city": "Beijing"}')])
    return [call if protocol == "native" else Text(call_tool(("lookup", {"city": "Beijing"})))]


async def test_an_agent_bounds_and_extends_its_requests_also_from_a_file(app: App, tmp_path: Path) -> None:
    async with LoopbackServer([Text(answer("yes"))]) as server:
        (tmp_path / "agents.toml").write_text(f"""
            [[agent]]
            agent_id = "a"
            model = "openai:x"
            base_url = "{server.base_url}"
            api_key = "k"
            mode = "react"
            max_tokens = 77
            reasoning_effort = "low"
            extra_body = {{ top_k = 5 }}
        """)
        app.register(*load_agents(tmp_path / "agents.toml"))
        await app.ask("go", agent="a")
    (sent,) = server.requests
    assert (sent.body["max_tokens"], sent.body["reasoning_effort"], sent.body["top_k"]) == (77, "low", 5)
    assert sent.body["response_format"]["type"] == "json_schema"


@dataclass(frozen=True)
class Whole:
    """A reply in one piece where a stream was requested."""

    media_type: str

    def play(self, wire: Wire) -> None:
        message = {"role": "assistant", "content": answer("in one piece")}
        reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        wire.raw(200, self.media_type, json.dumps(reply).encode())


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream", "text/plain"])
async def test_a_json_response_to_a_streaming_request_is_read(chat: Chat, media_type: str) -> None:
    talk = await chat([Whole(media_type)], mode="react")
    assert talk.result["answer"] == talk.text("token") == "in one piece"


PROSE = "It is sunny in Beijing."


async def test_plain_prose_is_the_answer_after_three_unreadable_replies(chat: Chat) -> None:
    talk = await chat([Text('{"observe": '), Text(""), Text(PROSE)], mode="react")
    assert talk.result["answer"] == talk.text("token") == PROSE and talk.result["success"]
    assert "the text of the last one is the answer" in talk.of_type("error")[-1]["message"]


@pytest.mark.parametrize("protocol", ["json", "native"])
@pytest.mark.parametrize("last", [Text(""), LengthCut('{"action": {'), ToolCalls([("c", "lookup", '{"city"')])])
async def test_a_task_ends_with_what_it_found_after_three_unreadable_replies(
    chat: Chat, protocol: str, last: Scripted
) -> None:
    if protocol == "native" and isinstance(last, LengthCut):
        last = ToolCalls([("c", "lookup", '{"city": "Beijing"}')], finish_reason="length")
    talk = await chat([*first_call(protocol), *[last] * 3], mode="react", protocol=protocol, tools=(lookup,))
    assert not talk.result["success"] and "3 replies in a row" in talk.result["error"]
    assert "sunny in Beijing" in talk.result["answer"]
    assert talk.text("token") == talk.result["answer"]


@pytest.mark.parametrize("protocol", ["json", "native"])
async def test_a_successful_call_runs_twice_and_then_its_result_is_returned(chat: Chat, protocol: str) -> None:
    asked.clear()
    last = Text(answer(PROSE)) if protocol == "json" else Text(PROSE)
    talk = await chat([*first_call(protocol) * 3, last], mode="react", protocol=protocol, tools=(lookup,))
    assert talk.result["answer"] == PROSE and asked == ["Beijing", "Beijing"]
    third = talk.of_type("tool_result")[2]["result"]
    assert third["success"] == "sunny in Beijing" and "answer with what there is" in third["repeated"]
    sent = json.dumps(talk.requests[-1].body["messages"])
    assert sent.count("answer with what there is") == 1
