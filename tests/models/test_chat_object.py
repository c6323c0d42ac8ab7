"""Chat model objects of any make."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from httpx import Response
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGenerationChunk

from segue.core.errors import ModelRefused, ModelUnreachable
from segue.core.models import KEPT, ModelReply, ModelRequest, RawCall
from segue.models.chat_object import ChatObject
from segue.models.habits import Habits
from tests.cases import cases
from tests.fakes import ScriptedChatModel

from .openai_calls import ADD, JSON, NATIVE, PROSE, hurried, record

both_forms = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
USAGE: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def calling(*calls: tuple[str, str, dict[str, Any]], **fields: Any) -> AIMessage:
    made: Any = [{"id": call_id, "name": name, "args": args} for call_id, name, args in calls]
    return AIMessage("", tool_calls=made, **fields)


@both_forms
async def test_prose(streaming: bool) -> None:
    with ScriptedChatModel([AIMessage("one two three", usage_metadata=USAGE)]) as chat:
        log = await record(ChatObject(chat, streaming=streaming), PROSE)
    assert log.streamed == (["one two", " three"] if streaming else ["one two three"])
    assert log.reply == ModelReply("one two three", "stop", {"input": 3, "output": 4})


@both_forms
async def test_json_is_asked_for_by_the_prompt_alone(streaming: bool) -> None:
    with ScriptedChatModel(["{}"]) as chat:
        assert (await record(ChatObject(chat, streaming=streaming), JSON)).reply == ModelReply("{}")
    assert chat.bound_tools == [] and "response_format" not in chat.call_kwargs[0]


@both_forms
async def test_native_binds_plain_specs_and_keeps_calls_as_text(streaming: bool) -> None:
    calls = [("c1", "add", {"a": 1, "city": "杭州"}), ("c2", "add", {})]
    with ScriptedChatModel([calling(*calls)]) as chat:
        log = await record(ChatObject(chat, streaming=streaming), NATIVE)
    assert log.reply.tool_calls == (RawCall("c1", "add", '{"a": 1, "city": "杭州"}'), RawCall("c2", "add", "{}"))
    assert log.reply.finish_reason == "tool_calls"
    assert log.streamed == ["+add", "+add"]
    (spec,) = chat.bound_tools[0]
    assert set(spec) == {"type", "function"}
    assert spec["function"]["parameters"]["properties"]["a"] == {"type": "integer"}


async def test_a_call_that_could_not_be_parsed_keeps_its_text() -> None:
    broken = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="add", args='{"a": 1', id="c1", error="cut")])
    log = await record(ChatObject(ScriptedChatModel([broken]), streaming=False), NATIVE)
    assert log.reply.tool_calls == (RawCall("c1", "add", '{"a": 1'),)


@both_forms
@cases(
    "metadata, reason",
    [
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "", "stop_reason": "max_tokens"}, "length"),
        ({"finish_reason": "", "stop_reason": "end_turn"}, "stop"),
        ({"finish_reason": "", "done_reason": "length"}, "length"),
        ({"finish_reason": ""}, "stop"),
    ],
)
async def test_how_it_finished_is_put_in_openais_words(metadata: Any, reason: str, streaming: bool) -> None:
    chat = ScriptedChatModel([AIMessage("x", response_metadata=metadata)])
    assert (await record(ChatObject(chat, streaming=streaming), PROSE)).reply.finish_reason == reason


@both_forms
async def test_errors_pass_through_untouched(streaming: bool) -> None:
    error = LookupError("their own")
    with pytest.raises(LookupError) as caught:
        await record(ChatObject(ScriptedChatModel([error]), streaming=streaming), NATIVE)
    assert caught.value is error


async def test_a_model_that_takes_no_tools_says_what_to_change() -> None:
    log = await record(ChatObject(FakeListChatModel(responses=["x"])), NATIVE)
    assert isinstance(log.error, ModelRefused)
    assert 'FakeListChatModel" does not support tools: set protocol="json"' in str(log.error)


async def test_names() -> None:
    assert ChatObject(ScriptedChatModel([])).name == "ScriptedChatModel"
    assert ChatObject(ScriptedChatModel([]), "mine").name == "mine"


@cases(
    "reason, error, says",
    [
        ({"finish_reason": "SAFETY"}, ModelRefused, "content filter"),
        ({"finish_reason": "error"}, ModelUnreachable, "did not finish its reply"),
        ({"finish_reason": "abort"}, ModelUnreachable, "did not finish its reply"),
    ],
)
@both_forms
async def test_a_reply_that_broke_off_is_no_answer(
    reason: dict[str, str], error: type[Exception], says: str, streaming: bool
) -> None:
    chat, slept = ScriptedChatModel(lambda _: AIMessage("half", response_metadata=reason)), list[float]()
    log = await record(ChatObject(chat, streaming=streaming, policy=hurried(slept)), PROSE)
    assert isinstance(log.error, error) and says in str(log.error)
    assert len(chat.calls) == 1 + len(slept) == (3 if error is ModelUnreachable else 1)


class ProviderError(Exception):
    """As providers' clients have it: a status, and the response's words."""

    def __init__(self, status: int, words: str, **headers: str) -> None:
        super().__init__(f"Error code: {status} - {words}")
        self.status_code = status
        self.body = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
        self.response = Response(status, headers={name.replace("_", "-"): value for name, value in headers.items()})


@both_forms
async def test_what_passes_is_tried_again_and_other_refusals_are_in_the_providers_words(streaming: bool) -> None:
    passing = [ProviderError(529, "Overloaded"), ProviderError(429, "slow down", retry_after="7"), "4"]
    with ScriptedChatModel(passing) as chat:
        slept = list[float]()
        log = await record(ChatObject(chat, streaming=streaming, policy=hurried(slept)), PROSE)
    assert (log.reply.text, slept) == ("4", [1.0, 7.0]) and "Overloaded" in str(log.retries[0].reason)
    lost = TimeoutError("timed out")
    with ScriptedChatModel([lost, lost, lost]) as chat:
        log = await record(ChatObject(chat, streaming=streaming, policy=hurried()), PROSE)
    assert isinstance(log.error, ModelUnreachable) and "could not be reached (timed out)" in str(log.error)
    for error, says in (
        (ProviderError(401, "invalid x-api-key"), r"rejected the key (invalid x-api-key): check its key"),
        (ProviderError(400, "top_k: no"), "refused the request (top_k: no): change what it names"),
        (ProviderError(400, "prompt is too long: 9 tokens"), "budget.prompt_tokens"),
    ):
        log = await record(ChatObject(ScriptedChatModel([error]), streaming=streaming), PROSE)
        assert isinstance(log.error, ModelRefused) and says in str(log.error) and log.error.__cause__ is error


Sent = list[Any]
SYSTEM_LAST = replace(PROSE, messages=[HumanMessage("hi"), SystemMessage("Be good."), SystemMessage("Be short.")])
TWO_USERS = replace(PROSE, messages=[HumanMessage("hi"), HumanMessage("there")])
ENDS_ITSELF = replace(PROSE, messages=[HumanMessage("hi"), AIMessage("well")], nudge="Go on.")
ODD_ID = replace(
    NATIVE,
    messages=[
        HumanMessage("hi"),
        AIMessage("", tool_calls=[{"id": "add:0", "name": "add", "args": {}, "type": "tool_call"}]),
        ToolMessage("3", tool_call_id="add:0"),
    ],
)


def kinds(sent: Sent) -> list[str]:
    return [message.type for message in sent]


@cases(
    "habit, asked, is_wrong, says",
    [
        ("system_first", SYSTEM_LAST, lambda sent: kinds(sent)[0] != "system", "System message must be first"),
        ("one_system", SYSTEM_LAST, lambda sent: kinds(sent).count("system") > 1, "only one system message"),
        ("no_system_role", SYSTEM_LAST, lambda sent: "system" in kinds(sent), "System role not supported"),
        ("alternate_roles", TWO_USERS, lambda sent: kinds(sent) == ["human", "human"], "roles must alternate"),
        ("user_last", ENDS_ITSELF, lambda sent: kinds(sent)[-1] == "ai", "does not support assistant prefill"),
        ("plain_ids", ODD_ID, lambda sent: ":" in sent[1].tool_calls[0]["id"], "tool_use.id: should match pattern"),
        (
            "short_ids",
            ODD_ID,
            lambda sent: ":" in sent[2].tool_call_id,
            "Tool call id must be a-z, A-Z, 0-9, length of 9",
        ),
        ("tool_names", ODD_ID, lambda sent: not sent[2].name, "function_response.name: Name cannot be empty."),
    ],
)
@pytest.mark.parametrize("has_status", [True, False])
async def test_what_a_refusal_shows_is_learned_of_chat_objects_too(
    habit: str, asked: Any, is_wrong: Any, says: str, has_status: bool
) -> None:
    def reply(sent: Sent) -> str:
        if is_wrong(sent):
            raise ProviderError(400, says) if has_status else ValueError(says)
        return "4"

    habits, chat = Habits(), ScriptedChatModel(reply)
    for model in (ChatObject(chat, habits=habits), ChatObject(chat, habits=habits)):
        assert (await record(model, asked)).reply.text == "4"
    assert habit in await habits.of(model.endpoint)
    refused = [sent for sent in chat.calls if is_wrong(sent)]
    assert len(chat.calls) - len(refused) == 2 and len(refused) in (1, 2), "the second model knows"
    given = ScriptedChatModel(reply)
    assert (await record(ChatObject(given, given=await habits.of(model.endpoint)), asked)).reply.text == "4"
    assert len(given.calls) == 1
    if habit.endswith("ids"):
        assert all(sent[1].tool_calls[0]["id"] == sent[2].tool_call_id for sent in chat.calls)


async def test_names_that_a_provider_does_not_take_are_mapped_back() -> None:
    request = replace(NATIVE, tools=[{**ADD, "function": {**ADD["function"], "name": "shop.add"}}])

    def reply(_: Sent) -> AIMessage:
        name = chat.bound_tools[-1][0]["function"]["name"]
        if "." in name:
            raise ProviderError(400, "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
        return calling(("c1", name, {"a": 1}))

    chat = ScriptedChatModel(reply)
    assert (await record(ChatObject(chat), request)).reply.tool_calls[0].name == "shop.add"


async def test_an_error_whose_words_show_nothing_to_change_passes_through() -> None:
    error = ValueError("System message must be first")
    with pytest.raises(ValueError) as caught:
        await record(ChatObject(ScriptedChatModel([error])), PROSE)
    assert caught.value is error


@both_forms
async def test_calls_in_a_text_and_under_near_names_are_read_as_of_an_endpoint(streaming: bool) -> None:
    written = AIMessage('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
    for message in (written, calling(("c", "functions.add", {"a": 1}))):
        log = await record(ChatObject(ScriptedChatModel([message]), streaming=streaming), NATIVE)
        assert [(call.name, call.arguments) for call in log.reply.tool_calls] == [("add", '{"a": 1}')]
    malformed = AIMessage("", response_metadata={"finish_reason": "MALFORMED_FUNCTION_CALL"})
    log = await record(ChatObject(ScriptedChatModel([malformed]), streaming=streaming), NATIVE)
    assert log.reply.unreadable is not None


async def test_a_prompt_that_is_too_long_for_it_is_told_and_other_errors_pass() -> None:
    class Short(FakeListChatModel):
        def _call(self, *_: Any, **__: Any) -> str:
            raise ValueError(self.responses[0])

    log = await record(ChatObject(Short(responses=["prompt is too long: 9 tokens"]), streaming=False), PROSE)
    assert isinstance(log.error, ModelRefused) and log.error.may_be_too_long
    with pytest.raises(ValueError, match="no such model"):
        await record(ChatObject(Short(responses=["no such model"]), streaming=False), PROSE)


# What the model wants back.

THINKING: Any = [
    {"type": "thinking", "thinking": "hm", "signature": "SIG"},
    {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
]
REASONING: Any = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
]
SIGNED: Any = {"signatures": {"c1": "SIG"}}


def continued(reply: ModelReply, call_id: str = "c1") -> ModelRequest:
    kept = {KEPT: json.loads(json.dumps(reply.kept))}
    calls: Any = [{"id": call_id, "name": "add", "args": {}, "type": "tool_call"}]
    past = [AIMessage("", tool_calls=calls, additional_kwargs=kept), ToolMessage("3", tool_call_id=call_id)]
    return replace(NATIVE, messages=[*NATIVE.messages, *past])


@cases(
    "content, fields",
    [(THINKING, {}), (REASONING, {}), ("", {"reasoning_content": "hm"}), ("", SIGNED), (THINKING, SIGNED)],
)
async def test_blocks_and_fields_go_back_to_the_same_model_only(content: Any, fields: Any) -> None:
    calls: Any = [{"id": "c1", "name": "add", "args": {}, "type": "tool_call"}]
    said = AIMessage(content, tool_calls=calls, additional_kwargs=fields)
    with ScriptedChatModel([said, "done", "done"]) as chat:
        model = ChatObject(chat, streaming=False)
        reply = (await record(model, NATIVE)).reply
        await record(model, continued(reply))
        await record(model, continued(reply, "renamed"))
    sent, renamed = chat.calls[1][-2], chat.calls[2][-2]
    assert sent.content == content and sent.additional_kwargs == fields
    assert str(renamed.content) == str(content).replace("c1", "renamed")
    with ScriptedChatModel(["done"]) as other:
        await record(ChatObject(other, "another"), continued(reply))
    assert other.calls[0][-2].content == "" and other.calls[0][-2].additional_kwargs == {}


class InPieces(ScriptedChatModel):
    """Streams a thought with its signature, and a call."""

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for piece in ({"thinking": "h"}, {"thinking": "m"}, {"signature": "SIG"}):
            block: Any = {"type": "thinking", "index": 0, **piece}
            yield ChatGenerationChunk(message=AIMessageChunk([block]))
        call: Any = {"type": "tool_call_chunk", "index": 1, "id": "c1", "name": "add", "args": "{}"}
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[call], chunk_position="last"))


async def test_blocks_that_arrive_in_pieces_go_back_whole() -> None:
    reply = (await record(ChatObject(InPieces()), NATIVE)).reply
    assert reply.tool_calls == (RawCall("c1", "add", "{}"),)
    assert reply.kept["content"] == [{"type": "thinking", "index": 0, "thinking": "hm", "signature": "SIG"}]


async def test_reasoning_without_a_text_is_nothing_to_show() -> None:
    log = await record(ChatObject(ScriptedChatModel([AIMessage([REASONING[0]])]), streaming=False), PROSE)
    assert log.reply.text == "" and log.pieces == [log.reply]


async def test_what_no_database_could_hold_is_not_kept() -> None:
    said = calling(("c1", "add", {}), additional_kwargs={"raw": object()})
    log = await record(ChatObject(ScriptedChatModel([said]), streaming=False), NATIVE)
    assert log.reply.tool_calls and not log.reply.kept
