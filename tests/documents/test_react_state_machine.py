"""The recursive ReAct machine."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from segue import load_agents
from segue.app import App
from tests.fakes import answer
from tests.loopback import LoopbackServer, Text
from tests.loopback_wire import Wire

from .conftest import Chat


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
