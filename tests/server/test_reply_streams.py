"""What a reply looks like while it is written, in every protocol."""

import httpx
import pytest

from .serving import ALPHA, Json, chat

BANNER = "[Direct mode]"
STREAMS: dict[str, tuple[str, Json]] = {
    "chat completions": (
        "/v1/chat/completions",
        {"model": "travel:direct", "stream": True, "messages": [{"role": "user", "content": "hello"}]},
    ),
    "responses": ("/v1/responses", {"model": "travel:direct", "stream": True, "input": "hello"}),
    "ag-ui": (
        "/ag-ui/travel",
        {
            "threadId": "banner",
            "runId": "1",
            "state": {},
            "messages": [{"id": "1", "role": "user", "content": "hello"}],
            "tools": [],
            "context": [],
            "forwardedProps": {"mode": "direct"},
        },
    ),
}


@pytest.mark.parametrize("protocol", STREAMS)
def test_a_banner_is_not_reasoning(client: httpx.Client, protocol: str) -> None:
    path, body = STREAMS[protocol]
    answered = client.post(path, json=body)
    assert answered.status_code == 200, answered.text
    assert "Hello" in answered.text and BANNER not in answered.text


def test_the_native_stream_tells_a_banner_from_a_thought(client: httpx.Client) -> None:
    forms = chat(client, "hello", headers=ALPHA, mode="direct")
    (banner,) = [form for form in forms if form["type"] == "thinking"]
    assert banner["content"].startswith(BANNER) and banner["phase"] is True
