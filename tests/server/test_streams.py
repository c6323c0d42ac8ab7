"""A task as a client sees it: nothing lost, nothing twice, one `done` in every ending."""

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.core.errors import ModelUnreachable
from segue.core.events import TYPES, Action, Event, Thinking, Token, ToolResult, Waiting
from segue.entry import open as open_app
from segue.server import ServerSettings
from segue.server.errors import encoded, size
from segue.server.frames import MOST, FrameCache, done_frame, frames, position
from segue.server.tenants import Tenant
from segue.tools.registry import tool
from tests.fakes import answer, call_tool, choose
from tests.polling import wait_until

from .serving import Held, Json, Served, chat, ending, follow, frames_of, read_frame, start, types

BEIJING = "帮我规划一个北京3日游，包括景点和美食"
OPEN = ServerSettings(chats_a_minute=10_000, requests_a_minute=100_000)


ASK = choose("ask_user", question="Which colour?")


@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount}"


def from_last(messages: Any) -> str:
    """Call the tool that the message names, then answer; so that one agent serves many tests."""
    text = "\n".join(str(message.content) for message in messages)
    if "## Branches" in text:
        return choose("final_answer", answer="It is blue.") if '"success": "blue"' in text else ASK
    if "held one" in text or "noted one" in text or "refunded 5" in text:
        return answer("好的 done " + "长" * 2000)
    for name, arguments in (("hold", {"name": "one"}), ("note", {"name": "one"}), ("refund", {"amount": 5})):
        if f"please {name}" in text:
            return call_tool((name, arguments), thought=f"I {name}")
    if "please fail" in text:
        raise ModelUnreachable("the endpoint is down")
    return answer("nothing to do")


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def served(held: Held, tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "segue.db", OPEN, agents=[held.agent("a", from_last, tools=(refund,))]) as served:
        yield served
        held.go.set()


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


def test_after_any_event_the_stream_brings_exactly_those_that_were_missed(client: httpx.Client) -> None:
    forms = chat(client, "please note", agent_id="a")
    assert types(forms).count("done") == 1 and types(forms)[-1] == "done"
    (task_id,) = {form["task_id"] for form in forms}
    whole = follow(client, task_id)
    assert [form for _, form in whole] == [form for form in forms if "seq" in form or form["type"] == "done"]
    names = [name for name, form in whole if form["type"] != "done"]
    assert names == [f"{task_id}:{seq}" for seq in range(1, len(names) + 1)]
    assert len(names) > 8
    for place, name in [*enumerate(names, start=1)][::3]:
        assert follow(client, task_id, {"Last-Event-ID": name}) == whole[place:]
        assert follow(client, task_id, after=place) == whole[place:]
    for strange in ("", "x", f"{task_id}:x", "other:3", "²"):
        assert follow(client, task_id, {"Last-Event-ID": strange.encode()}) == whole  # type: ignore[dict-item]


def test_a_stream_that_is_taken_up_in_the_middle_goes_on_live(client: httpx.Client, held: Held) -> None:
    seen: list[tuple[str, Json]] = []
    with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a"}) as response:
        task_id = response.headers["x-task-id"]
        for name, form in frames_of(response):
            seen.append((name, form))
            if form["type"] == "tool_call":
                break
    last = max((name for name, _ in seen if name), key=lambda name: int(name.split(":")[1]))
    with client.stream("GET", f"/api/tasks/{task_id}/stream", headers={"Last-Event-ID": last}) as response:
        coming = frames_of(response)
        held.go.set()
        rest = [*coming]
    events = client.get(f"/api/tasks/{task_id}/events?limit=500").json()["items"]
    seqs = [form["seq"] for _, form in (*seen, *rest) if "seq" in form]
    assert seqs == [event["seq"] for event in events]
    assert types([form for _, form in rest]).count("done") == 1
    assert "token" in types([form for _, form in rest]), "what was live is streamed, too"


def test_a_client_that_leaves_does_not_stop_the_task_and_frees_its_place(
    client: httpx.Client, held: Held, served: Served
) -> None:
    task_id = start(client, "please hold", agent_id="a")
    wait_until(lambda: not served.service.streams)
    assert held.begun.wait(60)
    held.go.set()
    wait_until(lambda: client.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "done")
    assert held.effects == ["one"]
    assert served.service._open_streams.total() == 0


def test_what_another_process_tells_of_a_task_is_not_missed(
    client: httpx.Client, held: Held, served: Served, tmp_path: Path
) -> None:
    async def pause_from_elsewhere() -> None:
        async with open_app(tmp_path / "segue.db") as other:
            await other.pause(task_id)

    with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a"}) as response:
        task_id = response.headers["x-task-id"]
        assert held.begun.wait(60)
        asyncio.run(pause_from_elsewhere())
        run = served.service.app._runner.run_of(task_id)
        wait_until(lambda: run and run.reason)
        held.go.set()
        forms = [form for _, form in frames_of(response)]
    assert ending(forms)["status"] == "paused"
    durable = [form["seq"] for form in forms if "seq" in form]
    assert durable == [*range(1, len(durable) + 1)]
    assert "pausing" in [form["new"] for form in forms if form["type"] == "state_changed"]


def test_a_task_that_fails_ends_with_done_and_the_error(client: httpx.Client) -> None:
    result = ending(chat(client, "please fail", agent_id="a"))
    assert (result["success"], result["status"], result["error"]) == (False, "error", "the endpoint is down")


@pytest.mark.parametrize(("verb", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_a_task_that_is_stopped_ends_with_done(client: httpx.Client, held: Held, verb: str, status: str) -> None:
    with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a"}) as response:
        coming = frames_of(response)
        forms = [next(coming)[1]]
        while forms[-1]["type"] != "tool_call":
            forms.append(next(coming)[1])
        task_id = response.headers["x-task-id"]
        answered = client.post(f"/api/tasks/{task_id}/{verb}")
        assert answered.status_code in (200, 202), answered.text
        held.go.set()
        forms += [form for _, form in coming]
    assert ending(forms)["status"] == status
    assert ending([form for _, form in follow(client, task_id)])["status"] == status


def test_a_task_that_waits_ends_with_done_and_its_question_and_goes_on_when_answered(client: httpx.Client) -> None:
    result = ending(chat(client, "please refund", agent_id="a"))
    assert (result["success"], result["status"]) == (False, "waiting")
    (call,) = result["question"]["calls"]
    assert (call["name"], call["arguments"]) == ("refund", {"amount": 5})
    path = f"/api/tasks/{result['task_id']}"
    assert client.get(path).json()["question"] == result["question"]
    refused = client.post("/api/chat", json={"message": "hello", "session_id": result["session_id"]})
    assert (refused.status_code, refused.json()["error"]["task_id"]) == (409, result["task_id"])
    seen = client.get(f"{path}/events?limit=500").json()["items"][-1]["seq"]
    unfit = client.post(f"{path}/answer", json={"verdicts": [{"index": 9, "verdict": "approve"}]})
    assert (unfit.status_code, unfit.json()["error"]["type"]) == (422, "InvalidAnswer")
    answered = client.post(f"{path}/answer", json={"verdicts": [{"index": 0, "verdict": "approve"}]})
    assert answered.status_code == 202 and answered.json()["status"] == "running"
    rest = [form for _, form in follow(client, result["task_id"], after=seen)]
    assert {"approval_given", "tool_result"} <= {*types(rest)}
    assert ending(rest)["status"] == "done"
    assert client.get(path).json()["question"] is None


def test_a_question_waits_in_the_inbox_until_it_is_answered(client: httpx.Client) -> None:
    asked = ending(chat(client, "1. ask\n2. paint", agent_id="a", mode="controller"))
    approval = ending(chat(client, "please refund", agent_id="a"))
    inbox = client.get("/api/waiting").json()["items"]
    assert [(row["task_id"], row["kind"]) for row in inbox] == [
        (asked["task_id"], "question"),
        (approval["task_id"], "approval"),
    ]
    assert (inbox[0]["question"], inbox[0]["session_id"]) == ("Which colour?", asked["session_id"])
    path = f"/api/tasks/{asked['task_id']}"
    for unfit in ({}, {"answer": "blue", "manual_finish": True}, {"answer": " "}):
        assert client.post(f"{path}/answer", json=unfit).status_code == 422
    assert client.post(f"{path}/answer", json={"answer": "blue"}).status_code == 202
    done = ending([form for _, form in follow(client, asked["task_id"])])
    assert (done["status"], done["answer"]) == ("done", "It is blue.")
    assert [row["task_id"] for row in client.get("/api/waiting").json()["items"]] == [approval["task_id"]]


def test_one_word_answers_for_all_calls(client: httpx.Client) -> None:
    for word, outcomes in (("approve", [{"success": "refunded 5"}]), ("reject", [])):
        task_id = chat(client, "please refund", agent_id="a")[-1]["result"]["task_id"]
        assert client.post(f"/api/tasks/{task_id}/answer", json={"verdicts": word}).status_code == 202
        ending([form for _, form in follow(client, task_id)])
        ran = [call["outcome"] for call in client.get(f"/api/tasks/{task_id}").json()["calls"]]
        assert [outcome for outcome in ran if "success" in outcome] == outcomes


def test_a_paused_task_is_resumed_in_the_background(client: httpx.Client, held: Held) -> None:
    task_id = start(client, "please hold", agent_id="a")
    assert held.begun.wait(60)
    assert client.post(f"/api/tasks/{task_id}/pause").json()["status"] == "pausing"
    held.go.set()
    follow(client, task_id)
    resumed = client.post(f"/api/tasks/{task_id}/resume")
    assert (resumed.status_code, resumed.json()["status"]) == (202, "running")
    assert ending([form for _, form in follow(client, task_id)])["status"] == "done"
    assert held.effects == ["one"]
    again = client.post(f"/api/tasks/{task_id}/resume")
    assert (again.status_code, again.json()["error"]["type"]) == (409, "TaskError")


def test_a_busy_session_is_a_conflict_and_waiting_for_it_is_not(client: httpx.Client, held: Held) -> None:
    task_id = start(client, "please hold", agent_id="a", session_id="s")
    assert held.begun.wait(60)
    busy = client.post("/api/chat", json={"message": "hello", "session_id": "s"})
    assert (busy.status_code, busy.json()["error"]["type"]) == (409, "ThreadBusy")
    assert busy.json()["error"]["task_id"] == task_id
    asyncio.run(let_go_soon(held))
    assert ending(chat(client, "hello", session_id="s", wait=60))["status"] == "done"


async def let_go_soon(held: Held) -> None:
    await asyncio.sleep(0.1)
    held.go.set()


def test_a_message_joins_the_task_of_its_session_and_the_stream_begins_there(client: httpx.Client, held: Held) -> None:
    task_id = start(client, "please hold", agent_id="a", session_id="s")
    assert held.begun.wait(60)
    client.post(f"/api/tasks/{task_id}/pause")
    held.go.set()
    follow(client, task_id)
    unfinished = client.post("/api/chat", json={"message": "more", "session_id": "s"})
    assert (unfinished.status_code, unfinished.json()["error"]["type"]) == (409, "TaskUnfinished")
    forms = chat(client, "and quickly", session_id="s", agent_id="a", steer=True)
    assert (forms[0]["type"], forms[0]["message"]) == ("steered", "and quickly")
    assert ending(forms)["task_id"] == task_id


def test_heartbeats_fill_the_silence(held: Held, tmp_path: Path) -> None:
    quick = dataclasses.replace(OPEN, heartbeat_seconds=0.05)
    with Served(tmp_path / "segue.db", quick, agents=[held.agent("a", from_last)]) as served, served.client() as client:
        with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a"}) as response:
            raw = b""
            for chunk in response.iter_raw():
                raw += chunk
                if raw.count(b": heartbeat\n\n") == 3:
                    held.go.set()
        frames = raw.decode().split("\n\n")
        assert all(frame.startswith((": heartbeat", "id: ", "data: ")) for frame in frames if frame)
        assert json.loads(frames[-2].removeprefix("data: "))["type"] == "done"


def test_the_first_read_of_a_browser_ends_in_a_comment(client: httpx.Client) -> None:
    browser = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
    with client.stream("POST", "/api/chat", json={"message": "hello"}, headers=browser) as response:
        padding, _, frames = response.read().partition(b"\n")
    assert len(padding) >= 4095 and padding.startswith(b":")
    assert frames.startswith(b"id: ")


def test_the_same_idempotency_key_streams_the_same_task(client: httpx.Client) -> None:
    body = {"message": "hello", "mode": "direct"}
    tasks = [
        client.post("/api/chat", json=body, headers={"Idempotency-Key": key}).headers["X-Task-Id"]
        for key in ("k-1", "k-1", "k-2")
    ]
    assert tasks[0] == tasks[1] != tasks[2]
    refused = client.post("/api/chat", json={**body, "message": "bye"}, headers={"Idempotency-Key": "k-1"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (409, "KeyUsed")
    assert "'k-1'" in refused.json()["error"]["message"]


def test_streams_of_every_protocol_have_the_same_headers(served: Served) -> None:
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "go"}]}
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "go"}]}
    bodies: dict[str, Json] = {
        "/api/chat": {"message": "go"},
        "/v1/chat/completions": {"model": "a", "stream": True, "messages": [{"role": "user", "content": "go"}]},
        "/v1/responses": {"model": "a", "stream": True, "input": "go"},
        "/ag-ui/a": {**run, "tools": [], "context": [], "state": {}, "forwardedProps": {}},
        "/a2a/a/message:stream": {"message": message},
        "/a2a/a": {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}},
        "/mcp": {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "clientInfo": {"name": "test", "version": "1"},
                "capabilities": {},
                "protocolVersion": "2025-06-18",
            },
        },
    }
    with served.client(headers={"A2A-Version": "1.0", "Accept": "application/json, text/event-stream"}) as client:
        for path, body in bodies.items():
            with client.stream("POST", path, json=body) as response:
                headers = response.headers
                assert response.status_code == 200, (path, response.read())
                assert headers["content-type"].startswith("text/event-stream"), path
                assert headers.get_list("cache-control") == ["no-cache, no-transform"], path
                assert headers.get_list("x-accel-buffering") == ["no"], path


# Frames: small, one line of ASCII JSON, and nothing of a delta lost, whatever an event holds.


texts = st.text(st.characters(codec=None), max_size=60) | st.builds(
    lambda text, times: text * times, st.text(st.characters(codec=None), min_size=1, max_size=9), st.integers(1, 4000)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6),
    max_leaves=25,
)
objects = st.dictionaries(texts, values, max_size=6)
by_annotation: dict[str, Any] = {
    "str": texts,
    "int": st.integers(0, 2**40),
    "float": st.floats(),
    "bool": st.booleans(),
    "float | None": st.none() | st.floats(),
    "dict": objects,
    "list": st.lists(objects, max_size=5),
}


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any event, with any content that its fields can hold."""
    kind = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    filled = {}
    for field in dataclasses.fields(kind):
        if field.name != "type":
            name = getattr(field.type, "__name__", str(field.type)) if isinstance(field.type, type) else str(field.type)
            filled[field.name] = draw(by_annotation[name.split("[")[0]])
    return kind(**filled)


def utf16(text: str) -> bytes:
    """A text as browsers hold it, where two halves of a character make it up again."""
    return text.encode("utf-16-le", "surrogatepass")


def read(frame: bytes) -> tuple[str, dict[str, Any]]:
    assert len(frame) <= MOST
    return read_frame(frame.decode("ascii"))


@settings(max_examples=20)
@given(events())
def test_every_event_becomes_frames_that_the_prescribed_client_can_read(event: Event) -> None:
    made = [*frames(event)]
    forms = [read(frame)[1] for frame in made]
    assert {form["type"] for form in forms} == {event.type}
    if isinstance(event, Thinking | Token):
        assert utf16("".join(form["content"] for form in forms)) == utf16(event.content)
    else:
        (form,) = forms
        whole = json.loads(encoded(event.data))
        assert form.get("truncated") or {name: form[name] for name in whole} == whole


@settings(max_examples=10)
@given(objects, texts)
def test_the_last_frame_fits_and_holds_the_answer_first(result: dict[str, Any], answer: str) -> None:
    _, form = read(done_frame("a-task", {**result, "answer": answer}))
    assert form["type"] == "done"
    whole = {**result, "answer": answer}
    assert form["result"].get("truncated") or encoded(form["result"]) == encoded(whole)
    if size(answer) < MOST - 20 * 120:
        assert form["result"]["answer"] == json.loads(json.dumps(answer))


def test_a_long_result_keeps_every_short_field_and_half_of_each_long_one() -> None:
    event = ToolResult(
        task_id="t", seq=3, index=0, name="dump", arguments={"text": "a" * 9000}, result={"success": "b" * 9000}
    )
    name, form = read(*frames(event))
    assert (name, form["name"], form["index"], form["truncated"]) == ("t:3", "dump", 0, True)
    assert len(form["arguments"]["text"]) > 1500 and form["arguments"]["text"].endswith("…")
    assert len(form["result"]["success"]) > 1500


def test_a_long_answer_leaves_the_ids_and_the_status() -> None:
    result = {
        "success": True,
        "answer": "北京" * 9000,
        "mode": "react",
        "reasoning": {"text": "x" * 9000},
        "history": [{"step": n} for n in range(900)],
        "task_id": "t",
        "status": "done",
    }
    _, form = read(done_frame("t", result))
    shown = form["result"]
    assert (shown["success"], shown["status"], shown["truncated"]) == (True, "done", True)
    assert len(shown["answer"]) > 500, "six bytes a character"


def test_values_that_json_has_no_form_for_are_told_all_the_same() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for odd in (float("nan"), {1, 2}, 10**5000, deep, object, {("a", 1): 2}):
        _, form = read(*frames(Action(task_id="t", action_type="CALL_TOOL", output={"odd": odd})))
        assert form["action_type"] == "CALL_TOOL"


@pytest.mark.parametrize(
    ("last", "seq"),
    [
        ("t:7", 7),
        ("", 0),
        ("7", 0),
        ("other:7", 0),
        ("t:", 0),
        ("t:-1", 0),
        ("t:²", 0),
        ("t:7:7", 0),
        ("t:" + "9" * 30, 0),
    ],
)
def test_a_last_event_id_is_the_tasks_own_or_none(last: str, seq: int) -> None:
    assert position(last, "t") == seq


@pytest.mark.parametrize(("language", "sentence"), [("en", "other tasks run first"), ("zh", "其他任务先运行")])
def test_why_a_task_waits_is_said_in_its_language(language: str, sentence: str) -> None:
    waiting = Waiting(task_id="t", reason="other tasks run first")
    (frame,) = FrameCache().frames(waiting, Tenant(""), language)
    assert json.loads(frame.removeprefix(b"data: "))["reason"] == sentence
