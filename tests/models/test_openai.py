"""An OpenAI-compatible endpoint over real HTTP: what is sent, what is streamed, what is kept."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import SecretStr

from segue.core.agents import Agent
from segue.core.errors import ModelRefused, ModelUnreachable
from segue.core.models import ModelReply, ModelRequest, RawCall, TextDelta
from segue.models.habits import Habits
from segue.models.openai import transport
from segue.models.openai.model import OpenAIModel
from segue.models.transcript import digest, request_text
from tests.cases import cases
from tests.loopback import LoopbackServer, RefuseResponseFormat, Status, Text, ToolCalls
from tests.loopback_wire import Wire
from tests.polling import until

from .openai_calls import ADD, JSON, KEY, NATIVE, PROSE, SCHEMA, ask, hurried, model_at, record

both_forms = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])


def formats(sent: list[dict[str, Any]]) -> list[str]:
    return [(body.get("response_format") or {}).get("type", "prompt") for body in sent]


def bad_request(message: str, code: int = 400) -> Status:
    return Status(code, body={"error": {"message": message}})


# What is sent.


@both_forms
async def test_a_request_for_json_asks_for_the_schema_and_binds_no_tools(streaming: bool) -> None:
    log = await ask([Text('{"answer": "北京"}')], JSON, streaming)
    (sent,) = log.sent
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "decide", "schema": SCHEMA, "strict": False},
    }
    assert "tools" not in sent
    assert bool(sent.get("stream")) is streaming
    assert log.reply == ModelReply('{"answer": "北京"}', "stop", {"input": 10, "output": 5})


@both_forms
async def test_a_native_request_binds_plain_specs_and_asks_for_no_format(streaming: bool) -> None:
    log = await ask([Text("4")], NATIVE, streaming)
    (sent,) = log.sent
    assert "response_format" not in sent
    assert sent["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "add",
                "description": "Add numbers.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer"},
                        "keywords": {"type": "array", "items": {"type": "string"}, "default": ["examples"]},
                    },
                    "required": ["a", "keywords"],
                },
            },
        }
    ]
    assert "examples" in ADD["function"]["parameters"]["properties"]["a"], "the spec itself stays as it was"


# What is streamed, and what is kept.


@both_forms
async def test_calls_are_announced_once_and_kept_as_written(streaming: bool) -> None:
    calls = [("c1", "add", '{"a":  1,\n "a": 2}'), ("c2", "add", '{"city": "\\u676d州"}'), ("c3", "stop", "")]
    log = await ask([ToolCalls(calls, content="hm")], NATIVE, streaming)
    assert log.streamed == ["hm", "+add", "+add", "+stop"]
    assert log.reply.tool_calls == tuple(RawCall(*call) for call in calls)
    assert (log.reply.text, log.reply.finish_reason) == ("hm", "tool_calls")
    assert log.reply.usage == {"input": 10, "output": 5}


async def test_without_usage_none_is_made_up() -> None:
    async with LoopbackServer([bad_request("Unknown parameter: stream_options"), Text("a"), Text("b")]) as server:
        model = model_at(server)
        first, second = await record(model, PROSE), await record(model, PROSE)
    assert first.reply.usage == second.reply.usage == {}
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


@dataclass
class Frames:
    """Chunks as an endpoint of one's own writes them."""

    frames: list[Any]
    tail: float = 0.0

    def play(self, wire: Wire) -> None:
        wire.begin()
        for frame in self.frames:
            wire.line(json.dumps(frame))
        wire.wait(lambda: False, self.tail)
        wire.end()


@dataclass
class Whole:
    """A body of JSON, streaming or not."""

    body: bytes

    def play(self, wire: Wire) -> None:
        wire.raw(200, "application/json", self.body)


def choice(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def call(call_id: str | None, name: str | None, arguments: Any, **place: int) -> dict[str, Any]:
    return choice(tool_calls=[{"id": call_id, "function": {"name": name, "arguments": arguments}} | place])


class HeardChunks(AsyncCallbackHandler):
    """What LangChain made of a reply."""

    def __init__(self) -> None:
        self.chunks: list[AIMessageChunk] = []

    async def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        self.chunks.append(chunk.message)


@pytest.mark.parametrize(
    "frames",
    [
        [call("a", "f", "{", index=0), call(None, None, "}", index=0), call("b", "g", "{}", index=1)],
        [call("a", "f", "{", index=0), call("a", "f", "}", index=0), call("b", "g", "{}", index=0)],
        [call("a", "f", "{"), call(None, None, "}"), call("b", "g", {})],
    ],
    ids=["as OpenAI", "index always 0, name repeated", "no index, arguments no text"],
)
async def test_endpoints_number_their_calls_as_they_like(frames: list[Any]) -> None:
    log = await ask([Frames([*frames, choice("tool_calls")])], NATIVE)
    assert log.reply.tool_calls == (RawCall("a", "f", "{}"), RawCall("b", "g", "{}"))
    assert log.streamed == ["+f", "+g"]


ONE, TWO = '{"a": 1}', '{"a": 2}'
TWICE = (("add", ONE), ("add", TWO))
PIECES: dict[str, tuple[list[Any], tuple[tuple[str, str], ...]]] = {
    "index 0, no ids": ([call(None, "add", ONE, index=0), call(None, "add", TWO, index=0)], TWICE),
    "no index, no ids": ([call(None, "add", ONE), call(None, "add", TWO)], TWICE),
    "the arguments on their own": (
        [call(None, name, part, index=0) for part in (ONE, TWO) for name, part in (("add", ""), (None, part))],
        TWICE,
    ),
    "interleaved by id": (
        [call("x", "add", ""), call("y", "add", ""), call("x", None, ONE), call("y", None, TWO)],
        TWICE,
    ),
    "interleaved under one index": (
        [
            *(call(each, "add", "", index=0) for each in "xy"),
            *(call(each, None, part, index=0) for each, part in zip("xy", (ONE, TWO), strict=True)),
        ],
        TWICE,
    ),
    "one id for two": ([call("x", "add", ONE, index=0), call("x", "add", TWO, index=1)], TWICE),
    "another index for each piece": (
        [call("x", "add", '{"a"', index=0), call("x", None, ": 1}", index=1)],
        (("add", ONE),),
    ),
    "sent twice": ([call("x", "add", ONE, index=0), call("x", "add", ONE, index=0)], (("add", ONE),)),
    "a name in pieces": ([call("x", "a", ""), call(None, "dd", ""), call(None, None, ONE)], (("add", ONE),)),
    "a name in every piece": (
        [call("x", "add", '{"a"'), call("x", "add", ": 1"), call(None, "add", "}")],
        (("add", ONE),),
    ),
    "a name that grows": ([call("x", "a", "", index=0), call("x", "add", ONE, index=0)], (("add", ONE),)),
    "arguments before the name": (
        [call(None, None, '{"a"', index=0), call("x", "add", ": 1}", index=0)],
        (("add", ONE),),
    ),
    "a brace in a text": (
        [call(None, "add", '{"a": "}\\', index=0), call(None, "add", '" {"}', index=0)],
        (("add", '{"a": "}\\" {"}'),),
    ),
    "two ids for one": ([call("x", "add", "", index=0), call("y", None, ONE, index=0)], (("add", ONE),)),
    "another id for each piece": (
        [call("x", "add", '{"a"', index=0), call("y", "", ": 1", index=0), call("z", "add", "}", index=0)],
        (("add", ONE),),
    ),
    "all of the arguments in each piece": (
        [call("x", "add", '{"'), call("x", None, '{"a": '), call("x", "add", ONE), call("x", "add", ONE)],
        (("add", ONE),),
    ),
    "an object within one of the same name": (
        [call("x", "add", '{"a":', index=0), call("x", None, '{"a": 1}}', index=0)],
        (("add", '{"a":{"a": 1}}'),),
    ),
}  # fmt: skip


@cases("frames, calls", PIECES.values())
async def test_the_pieces_of_calls_come_in_any_form(frames: list[Any], calls: tuple[tuple[str, str], ...]) -> None:
    log = await ask([Frames([*frames, choice("tool_calls")])], NATIVE)
    assert tuple((made.name, made.arguments) for made in log.reply.tool_calls) == calls


async def test_a_call_without_an_id_gets_one() -> None:
    frames = [call(None, "f", "{}", index=0), call("", "g", "{}", index=1), choice("tool_calls")]
    first, second = (await ask([Frames(frames)], NATIVE)).reply.tool_calls
    assert first.id and second.id and first.id != second.id


@cases(
    "frame",
    [
        {},
        {"choices": [{"index": 0}]},
        {"choices": None},
        choice(tool_calls=[{"index": 0, "id": "x"}]),
        choice(role=""),
    ],
)
async def test_frames_that_say_nothing_are_passed_over(frame: Any) -> None:
    parts = choice(content=[{"type": "text", "text": "hi"}])
    log = await ask([Frames([frame, parts, choice("stop")])], PROSE)
    assert log.reply == ModelReply("hi")


HALVES = ("\ud83d", "\ude00")
"""The two surrogates of an emoji, as an endpoint sends them that splits a text between them."""


async def test_surrogate_pairs_are_joined_and_lone_surrogates_replaced() -> None:
    high, low = HALVES
    frames = [
        choice(content=f"a{high}"), choice(content=f"{low}b{low}"), choice(content=high), choice(content="c"),
        call("c1", "f", f'{{"a": "{high}', index=0), call(None, None, f'{low}"}}', index=0),
        choice("stop", content=high),
    ]  # fmt: skip
    log = await ask([Frames(frames)], NATIVE)
    assert log.streamed == ["a", "\U0001f600b\ufffd", "\ufffdc", "+f"]
    assert log.reply.text == "a\U0001f600b\ufffd\ufffdc\ufffd"
    assert log.reply.tool_calls == (RawCall("c1", "f", '{"a": "\U0001f600"}'),)


async def test_langchain_is_given_no_arguments() -> None:
    """Its parser for partial JSON would take time that grows with their square."""
    chat, given = HeardChunks(), "x" * 20_000

    def made(server: LoopbackServer, streaming: bool, slept: list[float]) -> OpenAIModel:
        model = ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr(KEY), callbacks=[chat])
        return OpenAIModel(model, "own", streaming=streaming, policy=hurried(slept))

    log = await ask([ToolCalls([("c", "add", given)], content="hm")], NATIVE, make=made)
    assert log.reply.tool_calls == (RawCall("c", "add", given),)
    assert "".join(chunk.text for chunk in chat.chunks) == "hm"
    assert not any(chunk.tool_call_chunks for chunk in chat.chunks)


async def test_a_stream_that_said_how_it_ends_is_whole_though_it_is_never_closed() -> None:
    hasty = partial(model_at, read_timeout=1)
    log = await ask([Frames([choice(content="done"), choice("stop")], tail=5)], PROSE, make=hasty)
    assert log.reply.text == "done" and log.retries == []


@both_forms
async def test_the_form_of_the_answer_counts_not_that_of_the_request(streaming: bool) -> None:
    item = Whole(b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}') if streaming else None
    log = await ask([item or Frames([choice(content="hi"), choice("stop")])], PROSE, streaming)
    assert log.reply == ModelReply("hi")


@pytest.mark.parametrize("item", [Frames([choice(content="x" * 2000)]), Text("x" * 2000)], ids=["event", "body"])
async def test_an_event_and_a_body_are_read_up_to_a_limit(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_BYTES", 1000)
    log = await ask([item, Text("short")], PROSE, streaming=isinstance(item, Frames))
    assert log.reply.text == "short"
    assert "sent a reply of more than 1,000 bytes" in str(log.retries[0].reason)


async def test_the_lines_of_an_event_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = json.dumps({"choices": list(range(500))}, indent=1).splitlines()
    decoded: list[bytes] = []
    monkeypatch.setattr(transport, "is_json", lambda text: bool(decoded.append(text)))

    async def received() -> AsyncIterator[bytes]:
        yield "".join(f"data: {line}\n" for line in lines).encode() + b"\n"

    events = [event async for together in transport._events(received(), 100_000) for event in together]
    assert [json.loads(data) for _, data in events] == [{"choices": list(range(500))}]
    assert sum(map(len, decoded)) < 100


async def test_a_connection_is_used_again() -> None:
    body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in (choice(content="hi"), choice("stop"))).encode()
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
                sent = body + b"data: [DONE]\n\n"
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                writer.write(b"%x\r\n%s\r\n" % (len(sent), sent))
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(ChatOpenAI(model="m", base_url=url, api_key=SecretStr(KEY)), "own", policy=hurried())
    try:
        for _ in range(2):
            assert (await record(model, PROSE)).reply.text == "hi"
        assert len(connections) == 1
    finally:
        server.close()
        for connection in connections:
            connection.close()


# Response formats.


async def test_a_refused_format_is_not_tried_again_on_its_endpoint() -> None:
    async with LoopbackServer([RefuseResponseFormat(), Text("{}"), Text("{}")]) as server:
        habits = Habits()
        await record(model_at(server, habits=habits), JSON)
        log = await record(model_at(server, streaming=False, habits=habits), JSON)
    assert log.reply.text == "{}"
    assert formats([request.body for request in server.requests]) == ["json_schema", "json_object", "json_object"]


@both_forms
@cases(
    "refusal",
    [
        bad_request("response_format.type must be text", 422),
        bad_request("guided decoding is not available"),
        bad_request("failed to parse grammar", 500),
        bad_request("No endpoints found that support structured outputs", 404),
        Status(422, body={"detail": [{"loc": ["body", "response_format"], "msg": "extra fields not permitted"}]}),
        Status(400, body="unsupported: json_schema"),
    ],
)
async def test_endpoints_refuse_a_format_in_many_ways(refusal: Status, streaming: bool) -> None:
    log = await ask([refusal, Text("{}")], JSON, streaming)
    assert formats(log.sent) == ["json_schema", "json_object"]
    assert log.retries == []


async def test_after_the_last_format_the_call_ends() -> None:
    log = await ask([bad_request("your schema is bad")] * 3, JSON)
    assert formats(log.sent) == ["json_schema", "json_object", "prompt"]
    assert isinstance(log.error, ModelRefused)


async def test_other_errors_do_not_change_the_format() -> None:
    async with LoopbackServer([bad_request("schema", 401), Status(400), Text("{}")]) as server:
        model = model_at(server)
        for _ in range(3):
            await record(model, JSON)
    assert formats([request.body for request in server.requests]) == ["json_schema"] * 3


@both_forms
async def test_an_endpoint_without_tools_is_told_from_one_with_a_bad_prompt(streaming: bool) -> None:
    log = await ask([bad_request("No endpoints found that support tool use", 404)], NATIVE, streaming)
    assert isinstance(log.error, ModelRefused) and 'set protocol="json" on the agent' in str(log.error)
    log = await ask([bad_request("temperature is too high")], NATIVE, streaming)
    assert "protocol" not in str(log.error)


# Leaving.


@dataclass
class Drip:
    """Writes on and on; notes when nobody is there any more."""

    begun: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    def play(self, wire: Wire) -> None:
        if wire.streaming:
            wire.begin()
        self.begun.set()
        try:
            while not wire._stopping.wait(0.01):
                if wire.streaming:
                    wire.delta({"content": "drip "})
                elif wire._handler.connection.recv(1) == b"":
                    raise ConnectionResetError
        except OSError:
            self.left.set()


@pytest.mark.parametrize("request_", [JSON, NATIVE, PROSE], ids=["json", "native", "prose"])
async def test_leaving_the_pieces_closes_the_connection(request_: Any) -> None:
    drip = Drip()
    async with LoopbackServer([drip]) as server:
        pieces = model_at(server).stream(request_)
        assert await anext(pieces) == TextDelta("drip ")
        await pieces.aclose()  # type: ignore[attr-defined]
        await until(drip.left.is_set)


@both_forms
@pytest.mark.parametrize("request_", [JSON, NATIVE], ids=["json", "native"])
async def test_cancelling_closes_the_connection(request_: Any, streaming: bool) -> None:
    drip = Drip()
    async with LoopbackServer([drip]) as server:
        patient = OpenAIModel(model_at(server).chat, "m", streaming=streaming)
        task = asyncio.create_task(record(patient, request_))
        await until(drip.begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(drip.left.is_set)


# A client of the user's own.


async def test_a_client_of_ones_own_is_not_changed_and_retried_by_us_alone() -> None:
    def made(server: LoopbackServer, streaming: bool, slept: list[float]) -> OpenAIModel:
        chat = ChatOpenAI(
            model="m", base_url=server.base_url, api_key=SecretStr(KEY), max_retries=5, extra_body={"seed": 7}
        )
        model = OpenAIModel(chat, "own", streaming=streaming, policy=hurried(slept))
        made.chat = chat  # type: ignore[attr-defined]
        return model

    log = await ask([Status(500)] * 3, JSON, make=made)
    assert isinstance(log.error, ModelUnreachable) and '"own"' in str(log.error)
    assert [body["seed"] for body in log.sent] == [7, 7, 7]
    assert formats(log.sent) == ["json_schema"] * 3
    assert made.chat.max_retries == 5 and made.chat.extra_body == {"seed": 7}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "extra", [{"include_response_headers": True}, {"streaming": True}, {"disable_streaming": True}]
)
async def test_a_client_of_ones_own_may_have_its_ways(extra: dict[str, Any]) -> None:
    def made(server: LoopbackServer, streaming: bool, slept: list[float]) -> OpenAIModel:
        chat = ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr(KEY), **extra)
        return OpenAIModel(chat, "own", streaming=streaming, policy=hurried(slept))

    log = await ask([ToolCalls([("c", "add", '{ "a": 1 }')])], NATIVE, make=made)
    assert log.reply.tool_calls == (RawCall("c", "add", '{ "a": 1 }'),)
    assert bool(log.sent[0].get("stream")) is ("disable_streaming" not in extra)


@both_forms
async def test_inside_a_graph_langgraph_still_sees_the_tokens(streaming: bool) -> None:
    async with LoopbackServer([Text("one two three")]) as server:
        model = model_at(server, streaming)

        async def say(state: MessagesState) -> dict[str, Any]:
            return {"messages": [(await record(model, JSON)).reply.text]}

        graph = StateGraph(MessagesState).add_node("say", say).add_edge(START, "say").compile()
        parts: list[Any] = [part async for part in graph.astream({"messages": []}, stream_mode="messages")]
    assert "".join(chunk.text for chunk, _ in parts if isinstance(chunk, AIMessageChunk)) == "one two three"
    assert bool(server.requests[0].body.get("stream")) is streaming


async def test_an_endpoint_that_refuses_to_go_on_from_an_assistant_is_nudged_once_found_out() -> None:
    request = ModelRequest(purpose="decide", messages=[HumanMessage("q"), AIMessage("so far")], nudge="go on")
    async with LoopbackServer(
        [Status(400, body={"error": {"message": "no samplers"}}), Text("a"), Text("b")]
    ) as server:
        model = OpenAIModel(ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr("k")), "m")
        for said in ("a", "b"):
            pieces = [piece async for piece in model.stream(request)]
            assert isinstance(pieces[-1], ModelReply) and pieces[-1].text == said
        last = [sent.body["messages"][-1]["content"] for sent in server.requests]
        server.assert_spent()
    assert last == ["so far", "go on", "go on"]


# The text of a request: everything that decides the reply is part of it, and no secret is.

AGENT = Agent(agent_id="a", api_key="sk-secret", base_url="http://secret", extra_body={"key": "sk-secret"})
CALL = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
ASKED = [SystemMessage("Be brief."), HumanMessage("1+1?")]
MESSAGES = [*ASKED, AIMessage("", tool_calls=[CALL]), ToolMessage("2", tool_call_id="c1")]


def spec(description: str = "Add.", **parameters: Any) -> dict[str, Any]:
    function = {"name": "add", "description": description, "parameters": {"type": "object", "properties": parameters}}
    return {"type": "function", "function": function, "segue": {"keywords": []}}


TOOLS = [spec(a={"type": "integer"})]
REQUEST = ModelRequest(purpose="decide", messages=MESSAGES, schema={"type": "object"}, tools=TOOLS)


def changed(place: int, **update: Any) -> ModelRequest:
    messages = [*MESSAGES]
    messages[place] = messages[place].model_copy(update=update)
    return replace(REQUEST, messages=messages)


OTHERS: dict[str, tuple[ModelRequest, str, Agent]] = {
    "prompt": (changed(0, content="Be kind."), "m", AGENT),
    "arguments of a call": (changed(2, tool_calls=[{**CALL, "args": {"a": 2}}]), "m", AGENT),
    "id of a result": (changed(3, tool_call_id="c2"), "m", AGENT),
    "description of a tool": (replace(REQUEST, tools=[spec("Sum.", a={"type": "integer"})]), "m", AGENT),
    "schema of a tool": (replace(REQUEST, tools=[spec(a={"type": "number"})]), "m", AGENT),
    "schema of the reply": (replace(REQUEST, schema={"type": "array"}), "m", AGENT),
    "tools as calls": (replace(REQUEST, native=True), "m", AGENT),
    "nudge": (replace(REQUEST, nudge="Go on."), "m", AGENT),
    "seed": (replace(REQUEST, seed=7), "m", AGENT),
    "model": (REQUEST, "n", AGENT),
    "temperature": (REQUEST, "m", AGENT.model_copy(update={"temperature": 0.0})),
    "extra body": (REQUEST, "m", AGENT.model_copy(update={"extra_body": {"top_p": 1}})),
}


@cases("name", OTHERS)
def test_what_decides_the_reply_changes_the_digest(name: str) -> None:
    assert digest(request_text(*OTHERS[name])) != digest(request_text(REQUEST, "m", AGENT))


def test_keys_and_addresses_are_no_part_of_it() -> None:
    assert "secret" not in request_text(REQUEST, "m", AGENT)
