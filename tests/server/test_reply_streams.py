"""What a reply looks like while it is written, in every protocol."""

from collections.abc import Sequence

import httpx
import pytest

from segue.core.events import AttemptRestarted, Event, ModelCalled, Token, ToolCall, ToolResult
from segue.server.ag_ui import RunInput, Translation
from segue.server.openai_chat import RESTARTED, Completion
from segue.server.openai_responses.reply import Output
from segue.server.requests import Segment

from .records import stored_task
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


# A text before calls

ONE: Json = {"task_id": "t", "trace_id": "r1"}
TWO: Json = {"task_id": "t", "trace_id": "r2"}
ANSWER = "Let me see.\n\nIt is blue."
ROW = stored_task(language="en")


def called(**ids: str) -> Event:
    reply = {"text": "Let me see.", "streamed": True}
    return ModelCalled(purpose="react", model="m", input=1, output=1, seconds=0, reply=reply, **{**ONE, **ids})


CALL: Json = {"index": 0, "name": "look", "arguments": {}}
SAID = [
    Token(content="Let me see.\n\n", **ONE),
    called(),
    ToolCall(**CALL, **ONE),
    ToolResult(**CALL, result={"success": 1}, **ONE),
]
AGAIN = [Token(content="It may", **TWO), AttemptRestarted(attempt=2, reason="cut", **TWO)]
BLUE = Token(content="It is blue.", **TWO)
TEXTS: dict[str, tuple[Sequence[Event], str, Json]] = {
    "kept": (
        [*SAID, BLUE],
        ANSWER,
        {
            "completion": ANSWER,
            "responses": ["Let me see.", "It is blue."],
            "ag-ui": ["Let me see.\n\n", "It is blue."],
        },
    ),
    "kept by another attempt of the answer": (
        [*SAID, *AGAIN, BLUE],
        ANSWER,
        {
            "completion": f"Let me see.\n\nIt may{RESTARTED}It is blue.",
            "responses": ["Let me see.", "It is blue."],
            "ag-ui": ["Let me see.\n\n", "It is blue."],
        },
    ),
    "of a part of the task, which is a thought": (
        [called(step_id="1"), BLUE],
        "It is blue.",
        {"completion": "It is blue.", "responses": ["It is blue."], "ag-ui": ["It is blue."]},
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_before_calls_is_shown_once(name: str) -> None:
    events, answer, expected = TEXTS[name]
    result: Json = {"status": "done", "answer": answer}
    completion = Completion(ROW, "m")
    deltas = [delta.get("content", "") for event in events for delta in completion.deltas(event)]
    assert "".join([*deltas, completion.rest(result)]) == expected["completion"]
    output = Output(Segment(ROW, 0, {}, ()))
    assert [*(form for event in events for form in output.of(event)), *output.close(answer)]
    texts = [item["content"][0]["text"] for item in output.items if item["type"] == "message"]
    assert texts == expected["responses"]
    run = RunInput.model_validate(STREAMS["ag-ui"][1])
    translation = Translation(run, ROW)
    made = [*(each for event in events for each in translation.of(event)), *translation.finish(result)]
    messages: dict[str, str] = {}
    for each in [each.model_dump() for each in made]:
        if each["type"] == "TEXT_MESSAGE_CONTENT":
            messages[each["message_id"]] = messages.get(each["message_id"], "") + each["delta"]
        elif each["type"] == "MESSAGES_SNAPSHOT":
            kept = [message["id"] for message in each["messages"]]
            messages = {named: text for named, text in messages.items() if named in kept}
    assert [*messages.values()] == expected["ag-ui"]


def test_a_text_before_a_question_is_not_withdrawn() -> None:
    question: Json = {"kind": "approval", "calls": [{"index": 0, "name": "pay", "arguments": {"amount": 1}}]}
    completion = Completion(stored_task(language="en"), "m")
    events = [Token(content="Let me pay.", **ONE)]
    sent = [delta["content"] for event in events for delta in completion.deltas(event)]
    rest = completion.rest({"status": "waiting", "task_id": "t", "question": question})
    assert sent == ["Let me pay."]
    assert rest.startswith("\n\n") and "pay" in rest and RESTARTED not in rest
