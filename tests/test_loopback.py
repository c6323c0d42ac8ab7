"""The loopback server and the scripted model, each seen through a real client.

What a ChatOpenAI client makes of each fault is what `segue.models` has to catch; the tables below pin it.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.fakes import ScriptLeftOver, ScriptRanDry
from tests.loopback import (
    BadJson,
    CleanEof,
    CutStream,
    EmptyChoices,
    ErrorFrame,
    Gate,
    Hang,
    Html,
    Item,
    LengthCut,
    LoopbackServer,
    Refusal,
    RefuseResponseFormat,
    RefuseTools,
    Stall,
    Status,
    Text,
    ToolCalls,
)

SCHEMA = {"type": "json_schema", "json_schema": {"name": "decide", "schema": {"type": "object"}, "strict": False}}
JSON = {"type": "json_object"}
SOON = 0.2
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


def client(server: LoopbackServer, **settings: Any) -> ChatOpenAI:
    key = SecretStr("test-key")
    return ChatOpenAI(
        model="test-model", base_url=server.base_url, api_key=key, max_retries=0, stream_usage=True, **settings
    )


async def streamed(chat: Any) -> AIMessageChunk:
    """All chunks of a streaming call, put together."""
    chunks = [chunk async for chunk in chat.astream("hi")]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole  # type: ignore[no-any-return]


async def asked(chat: Any, streaming: bool) -> Any:
    return await (streamed(chat) if streaming else chat.ainvoke("hi"))


both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
all_formats = pytest.mark.parametrize(
    "response_format", [None, JSON, SCHEMA], ids=["prose", "json_object", "json_schema"]
)


def bound(chat: ChatOpenAI, response_format: Any) -> Any:
    return chat.bind(response_format=response_format) if response_format else chat


@both_ways
@all_formats
async def test_text_arrives_whole_with_its_usage(streaming: bool, response_format: Any) -> None:
    async with LoopbackServer([Text('{"city": "北京 🏯"}')]) as server:
        reply = await asked(bound(client(server), response_format), streaming)
        server.assert_spent()
    assert reply.text == '{"city": "北京 🏯"}'
    assert reply.response_metadata["finish_reason"] == "stop"
    assert reply.usage_metadata["input_tokens"] == 10
    assert reply.usage_metadata["output_tokens"] == 5


async def test_a_stream_comes_in_pieces() -> None:
    async with LoopbackServer([Text("one two three four")]) as server:
        texts = [chunk.text async for chunk in client(server).astream("hi")]
    assert [text for text in texts if text] == ["one two", " three ", "four"]


@both_ways
async def test_what_was_sent_is_recorded(streaming: bool) -> None:
    async with LoopbackServer([Text("yes")]) as server:
        await asked(client(server), streaming)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.body["messages"] == [{"role": "user", "content": "hi"}]
    assert bool(request.body.get("stream")) is streaming


@both_ways
async def test_tool_calls_keep_order_ids_and_arguments(streaming: bool) -> None:
    calls = [("c1", "add", '{"a": 1, "b": 2}'), ("c2", "find", '{"city": "杭州"}')]
    async with LoopbackServer([ToolCalls(calls, content="a moment")]) as server:
        reply = await asked(client(server), streaming)
    assert reply.text == "a moment"
    assert [(call["id"], call["name"], call["args"]) for call in reply.tool_calls] == [
        ("c1", "add", {"a": 1, "b": 2}),
        ("c2", "find", {"city": "杭州"}),
    ]
    assert reply.response_metadata["finish_reason"] == "tool_calls"


async def test_streamed_arguments_come_in_pieces() -> None:
    async with LoopbackServer([ToolCalls([("c1", "add", '{"a": 1, "b": 2}')])]) as server:
        chunks = [chunk async for chunk in client(server).astream("hi")]
    raw = [piece["args"] for chunk in chunks for piece in chunk.tool_call_chunks]
    assert raw == ["", '{"a": 1', ', "b": ', "2}"]


async def test_cut_arguments_pass_for_valid_ones_only_in_a_stream() -> None:
    """Why raw arguments have to be parsed strictly: the client mends what was cut."""
    cut = ToolCalls([("c1", "refund", '{"amount": 10')])
    async with LoopbackServer([cut, cut]) as server:
        whole = await asked(client(server), streaming=False)
        stream = await asked(client(server), streaming=True)
    assert whole.tool_calls == [] and len(whole.invalid_tool_calls) == 1
    assert [call["args"] for call in stream.tool_calls] == [{"amount": 10}]


@both_ways
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (408, openai.APIStatusError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
async def test_a_status_becomes_its_error(code: int, kind: type[openai.APIStatusError], streaming: bool) -> None:
    async with LoopbackServer([Status(code, headers={"Retry-After": "1"})]) as server:
        with pytest.raises(kind) as caught:
            await asked(client(server), streaming)
        server.assert_spent()
    assert caught.value.status_code == code
    assert caught.value.response.headers["retry-after"] == "1"
    assert f"scripted status {code}" in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "prose", "structured"),
    [
        (Hang(5), openai.APITimeoutError, openai.APITimeoutError),
        (Hang(0), openai.APIConnectionError, openai.APIConnectionError),
        (Stall(5), openai.APITimeoutError, openai.APITimeoutError),
        (CutStream(), openai.APIConnectionError, openai.APIConnectionError),
        (EmptyChoices(), IndexError, IndexError),
        (Html(), ValueError, AttributeError),
        (BadJson(), ValueError, ValueError),
        (ErrorFrame(), ValueError, TypeError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
@all_formats
async def test_faults_of_a_whole_reply(
    fault: Item, prose: type[Exception], structured: type[Exception], response_format: Any
) -> None:
    async with LoopbackServer([fault]) as server:
        with pytest.raises(structured if response_format else prose):
            await asked(bound(client(server, timeout=SOON), response_format), streaming=False)


@pytest.mark.parametrize(
    ("fault", "prose", "structured"),
    [
        (Hang(5), openai.APITimeoutError, openai.APITimeoutError),
        (Hang(0), openai.APIConnectionError, openai.APIConnectionError),
        (Stall(5), openai.APITimeoutError, openai.APITimeoutError),
        (CutStream(), openai.APIConnectionError, openai.APIConnectionError),
        (Html(), ValueError, AssertionError),
        (BadJson(), ValueError, ValueError),
        (ErrorFrame(), openai.APIError, openai.APIError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
@all_formats
async def test_faults_of_a_stream(
    fault: Item, prose: type[Exception], structured: type[Exception], response_format: Any
) -> None:
    async with LoopbackServer([fault]) as server:
        with pytest.raises(structured if response_format else prose):
            await asked(bound(client(server, timeout=SOON), response_format), streaming=True)


async def test_a_stalled_stream_is_a_plain_read_timeout() -> None:
    async with LoopbackServer([Stall(5)]) as server:
        with pytest.raises(TimeoutError) as caught:
            await asked(client(server, stream_chunk_timeout=SOON), streaming=True)
    assert not isinstance(caught.value, openai.OpenAIError)


async def test_a_cut_stream_has_already_said_something() -> None:
    said = []
    async with LoopbackServer([CutStream(after_chunks=2, text="one two three four")]) as server:
        with pytest.raises(openai.APIConnectionError):
            async for chunk in client(server).astream("hi"):
                said.append(chunk.text)
    assert "".join(said) == "one two three "


async def test_an_empty_stream_passes_for_an_empty_reply_unless_structured() -> None:
    async with LoopbackServer([EmptyChoices(), EmptyChoices()]) as server:
        reply = await asked(client(server), streaming=True)
        assert (reply.text, reply.response_metadata.get("finish_reason")) == ("", None)
        with pytest.raises(IndexError):
            await asked(bound(client(server), JSON), streaming=True)


@both_ways
@all_formats
async def test_a_clean_end_without_a_finish_reason_passes_for_a_reply(streaming: bool, response_format: Any) -> None:
    async with LoopbackServer([CleanEof(text="seven..fourteen", after_chunks=1)]) as server:
        reply = await asked(bound(client(server), response_format), streaming)
    assert reply.text == ("seven.." if streaming else "seven..fourteen")
    assert reply.response_metadata.get("finish_reason") is None


@both_ways
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (LengthCut('{"a":'), openai.LengthFinishReasonError),
        (Text("x", finish_reason="content_filter"), openai.ContentFilterFinishReasonError),
    ],
    ids=["length", "filter"],
)
async def test_a_reply_that_was_stopped_is_an_error_only_when_structured(
    reply: Any, kind: type[openai.OpenAIError], streaming: bool
) -> None:
    async with LoopbackServer([reply, reply, reply]) as server:
        prose = await asked(client(server), streaming)
        for response_format in (JSON, SCHEMA):
            with pytest.raises(kind) as caught:
                await asked(bound(client(server), response_format), streaming)
            assert not isinstance(caught.value, openai.APIError)
    assert prose.response_metadata["finish_reason"] in ("length", "content_filter")


async def test_a_refusal_is_lost_in_a_stream_of_prose() -> None:
    async with LoopbackServer([Refusal("I will not")] * 3) as server:
        whole = await asked(client(server), streaming=False)
        prose = await asked(client(server), streaming=True)
        structured = await asked(bound(client(server), SCHEMA), streaming=True)
    assert whole.additional_kwargs["refusal"] == "I will not"
    assert (prose.text, prose.additional_kwargs) == ("", {})
    assert structured.additional_kwargs["refusal"] == "I will not"


@pytest.mark.parametrize("make", [asyncio.Event, threading.Event])
async def test_a_gate_shows_that_the_first_half_came_before_the_second(make: Callable[[], Any]) -> None:
    gate = make()
    said = ""
    async with LoopbackServer([Gate("first half, ", "second half", gate)]) as server:
        async for chunk in client(server).astream("hi"):
            said += chunk.text
            if said == "first half, ":
                await asyncio.sleep(0.05)
                gate.set()
            assert gate.is_set() or len(said) <= len("first half, ")
    assert said == "first half, second half"


async def test_a_gate_that_stays_shut_does_not_keep_the_server_from_stopping() -> None:
    async with LoopbackServer([Gate("first", "second", threading.Event())]) as server:
        stream = client(server).astream("hi")
        assert (await anext(stream)).text in ("", "first")
    with pytest.raises(openai.APIConnectionError):
        async for _ in stream:
            pass


async def test_refusing_json_schema_uses_up_no_item() -> None:
    async with LoopbackServer([RefuseResponseFormat(), Text("{}"), Text("prose")]) as server:
        chat = client(server)
        for _ in range(2):
            with pytest.raises(openai.BadRequestError, match="response_format json_schema not supported"):
                await asked(bound(chat, SCHEMA), streaming=True)
        assert (await asked(bound(chat, JSON), streaming=True)).text == "{}"
        assert (await asked(chat, streaming=True)).text == "prose"
        server.assert_spent()


async def test_refusing_tools_uses_up_no_item() -> None:
    async with LoopbackServer([Text("before"), RefuseTools(), Text("after")]) as server:
        chat = client(server)
        assert (await asked(chat.bind(tools=[TOOL]), streaming=False)).text == "before"
        with pytest.raises(openai.BadRequestError, match="tools are not supported"):
            await asked(chat.bind(tools=[TOOL]), streaming=False)
        assert (await asked(chat, streaming=False)).text == "after"
        server.assert_spent()


async def test_an_item_can_be_made_from_the_request() -> None:
    async with LoopbackServer([lambda body: Text(f"you said {body['messages'][0]['content']}")]) as server:
        assert (await asked(client(server), streaming=False)).text == "you said hi"


async def test_a_script_that_runs_dry_says_so_twice() -> None:
    async with LoopbackServer([Text("only this")]) as server:
        await asked(client(server), streaming=False)
        with pytest.raises(openai.InternalServerError, match="script ran dry: request 2 finds a script of 1 items"):
            await asked(client(server), streaming=False)
        with pytest.raises(ScriptRanDry, match="request 2"):
            server.assert_spent()


async def test_what_is_left_over_is_named() -> None:
    async with LoopbackServer([Text("never asked for")]) as server:
        with pytest.raises(ScriptLeftOver, match="never asked for"):
            server.assert_spent()


async def test_an_assertion_in_a_scripts_function_reaches_the_test() -> None:
    def refuse(body: dict[str, Any]) -> Item:
        raise AssertionError("not this prompt")

    async with LoopbackServer([refuse]) as server:
        with pytest.raises(openai.APIConnectionError):
            await asked(client(server), streaming=False)
        with pytest.raises(AssertionError, match="not this prompt"):
            server.assert_spent()


def test_clients_that_block_can_use_it() -> None:
    with LoopbackServer([Text("hello")]) as server:
        assert client(server).invoke("hi").text == "hello"


async def test_clients_at_the_same_time_each_get_an_item() -> None:
    async with LoopbackServer([Text(str(place)) for place in range(8)]) as server:
        replies = await asyncio.gather(*(asked(client(server), streaming=True) for _ in range(8)))
        server.assert_spent()
    assert sorted(reply.text for reply in replies) == [str(place) for place in range(8)]


async def test_another_address_is_a_404_and_uses_up_no_item() -> None:
    async with LoopbackServer([Text("kept")]) as server:
        wrong = client(server).model_copy()
        other = ChatOpenAI(
            model=wrong.model_name, base_url=f"{server.base_url}/wrong", api_key=SecretStr("k"), use_responses_api=True
        )
        with pytest.raises(openai.NotFoundError):
            await other.ainvoke("hi")
        assert server.requests == []
