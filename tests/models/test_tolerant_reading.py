"""What endpoints send that keep to no specification: it is read, or asked again, and never taken for an answer."""

import json
import threading
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

import segue
from segue.core.agents import Agent
from segue.core.errors import ModelRefused
from segue.core.models import ReasoningDelta, TextDelta, Withdrawn
from segue.models.chat_object import ChatObject
from segue.models.reply import GrowingReply
from tests.cases import cases
from tests.fakes import ScriptedChatModel
from tests.loopback import Deltas, LoopbackServer, Status, Text, ToolCalls
from tests.loopback_script import PATIENCE
from tests.loopback_wire import Wire

from .openai_calls import NATIVE, PROSE, CallLog, ask, model_at, record

ONE = '{"a": 1}'
EVENT, JSON_TYPE = "text/event-stream", "application/json"


@dataclass(frozen=True)
class Bytes:
    """A body, byte for byte."""

    content: bytes
    kind: str = EVENT

    def play(self, wire: Wire) -> None:
        wire.raw(200, self.kind, self.content)


def chunk(finish_reason: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]}


def whole(finish_reason: str | None = "stop", **message: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}).encode()


def events(*documents: Any, end: str = "\n", done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(each)}{end}{end}" for each in documents]
    return "".join([*lines, *([f"data: [DONE]{end}{end}"] if done else [])]).encode()


HI, STOP = chunk(content="hi"), chunk("stop")


@cases(
    "body, kind",
    [
        (b"\xef\xbb\xbf" + events(HI, STOP), EVENT),
        (events(HI, STOP, end="\r"), EVENT),
        (events(HI, STOP, end="\r\n"), EVENT),
        (events(HI, STOP, done=False).rstrip(), EVENT),
        (events(HI, STOP, done=False).rstrip() + b"\n\ndata: {", EVENT),
        (events(HI, STOP), JSON_TYPE),
        (events(HI, STOP), "text/plain"),
        (b": a comment\n\nretry: 5\n\n" + events(HI, STOP), ""),
        (b"data:\n\ndata: \n\n" + events(HI, STOP), EVENT),
        (b"data: ping\n\nevent: ping\ndata: [HEARTBEAT]\n\n" + events(HI, STOP), EVENT),
        (events(HI, STOP).replace(b"\n\n", b"\n"), EVENT),
        (events(HI, STOP).replace(b"\n\n", b"\n").replace(b"data", b"event: x\ndata"), EVENT),
        (b'data: {"choices": [{"delta":\ndata: {"content": "hi"}}]}\n\n' + events(STOP), EVENT),
        (b'data: {"id": "\xff\t", "choices": []}\n\n' + events(HI, STOP), EVENT),
        (events(HI), EVENT),
        (events(HI).replace(b"[DONE]", b'"[DONE]"'), EVENT),
        (json.dumps(HI).encode() + b"\n" + json.dumps(STOP).encode() + b"\n", "application/x-ndjson"),
        (f"{json.dumps(HI)}\n\n{json.dumps(chunk(content=''))}\r\n[DONE]\n".encode(), JSON_TYPE),
        (f"{json.dumps(HI)}\n{json.dumps(STOP)}\n{{".encode(), JSON_TYPE),
        (json.dumps(json.loads(whole(content="hi")), indent=1).encode(), JSON_TYPE),
        (events(chunk(content="another", index=1), HI, chunk("stop", index=1, content=" one"), STOP), EVENT),
        (events(HI, STOP, {"choices": [], "usage": "12 tokens"}), EVENT),
        (events(HI, STOP, {"choices": [None], "usage": 5}), EVENT),
        (events({"choices": [{"delta": {"content": {"text": "hi"}}}]}, STOP), EVENT),
        (events({"choices": [{"delta": {"content": [None, "hi"], "tool_calls": [None]}}]}, STOP), EVENT),
        (events(HI, {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}), EVENT),
        (whole(None, content="hi"), JSON_TYPE),
        (b"\xef\xbb\xbf\n" + whole(content="hi"), "text/html"),
    ],
)
async def test_a_stream_is_read_in_any_framing(body: bytes, kind: str) -> None:
    log = await ask([Bytes(body, kind)], PROSE)
    assert (log.reply.text, log.reply.finish_reason, log.retries) == ("hi", "stop", [])


@dataclass(frozen=True)
class Lines:
    """A document a line; the second one is sent once the first one was read."""

    first_read: threading.Event

    def play(self, wire: Wire) -> None:
        wire.begin("application/x-ndjson")
        wire._part(f"{json.dumps(HI)}\n".encode())
        wire.wait(self.first_read.is_set, PATIENCE)
        wire._part(f"{json.dumps(STOP)}\n".encode())
        wire.end()


async def test_a_body_of_a_document_a_line_is_read_line_by_line_as_it_arrives() -> None:
    first_read = threading.Event()
    with LoopbackServer([Lines(first_read)]) as server:
        async with aclosing(model_at(server).stream(PROSE)) as pieces:
            first = await anext(pieces)
            first_read.set()
            assert first == TextDelta("hi") and [piece async for piece in pieces][-1].text == "hi"


async def test_counts_may_be_text() -> None:
    usage = {"prompt_tokens": "7", "completion_tokens": "many", "prompt_tokens_details": "none"}
    log = await ask([Bytes(events(HI, STOP, {"choices": [], "usage": usage}))], PROSE)
    assert log.reply.usage == {"input": 7, "output": 0}


@cases(
    "call",
    [
        {"index": "0", "id": 7, "function": {"name": "add", "arguments": ONE}},
        {"index": [0], "function": {"name": "add", "arguments": ONE}},
        {"id": None, "name": "add", "arguments": {"a": 1}},
        {"function": {"name": "functions.add", "arguments": ONE}},
        {"function": {"name": "default_api:add", "arguments": ONE}},
        {"function": {"name": " Add ", "arguments": ONE}},
        {"function": {"name": "add<|channel|>commentary", "arguments": ONE}},
        {"function": {"name": "functions.add:0", "arguments": ONE}},
        {"function": {"name": '{"a": 1} | add', "arguments": ONE}},
        {
            "function": {
                "name": "multi_tool_use.parallel",
                "arguments": json.dumps({"tool_uses": [{"recipient_name": "functions.add", "parameters": {"a": 1}}]}),
            }
        },
    ],
)
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_call_in_a_near_form_is_one_of_the_offered_tool(call: dict[str, Any], streaming: bool) -> None:
    body = events(chunk("tool_calls", tool_calls=[call])) if streaming else whole("tool_calls", tool_calls=[call])
    log = await ask([Bytes(body, EVENT if streaming else JSON_TYPE)], NATIVE, streaming)
    assert [(made.name, json.loads(made.arguments)) for made in log.reply.tool_calls] == [("add", {"a": 1})]


async def test_a_call_in_the_older_form_is_one() -> None:
    body = events(chunk(function_call={"name": "add", "arguments": '{"a"'}), chunk(function_call={"arguments": ": 1}"}))
    log = await ask([Bytes(body)], NATIVE)
    assert [(made.name, made.arguments) for made in log.reply.tool_calls] == [("add", ONE)]


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_call_that_is_sent_in_both_forms_is_one(streaming: bool) -> None:
    add = {"name": "add", "arguments": ONE}
    message: dict[str, Any] = {"function_call": add, "tool_calls": [{"index": 0, "id": "a", "function": add}]}
    body = events(chunk("tool_calls", **message)) if streaming else whole("tool_calls", **message)
    log = await ask([Bytes(body, EVENT if streaming else JSON_TYPE)], NATIVE, streaming)
    assert [(made.id, made.arguments) for made in log.reply.tool_calls] == [("a", ONE)]


async def test_a_name_that_no_tool_can_have_is_an_unreadable_reply_that_says_so() -> None:
    log = await ask([Bytes(events(chunk("tool_calls", tool_calls=[{"function": {"name": "web search"}}])))], NATIVE)
    assert log.reply.tool_calls == () and "call one of add" in str(log.reply.unreadable)


THOUGHTS = [
    ("<think>SECRET</think>It is 4.<|im_end|>", "It is 4."),
    ("It is 4.<｜end▁of▁sentence｜>\n", "It is 4."),
    ("<|START_THINKING|>SECRET<|END_THINKING|><|START_RESPONSE|>It is 4.<|END_RESPONSE|>", "It is 4."),
    ("Sure. <think>SECRET</think>Here.", "Sure. Here."),
    ("One.\n\n<thinking>\nSECRET\n</thinking>\n\nTwo.", "One.\n\nTwo."),
    ("Two <thought>SECRET</thought> words, [THINK]SECRET[/THINK] and more", "Two words, and more"),
    ("It is 4.\n<reasoning>SECRET</reasoning>", "It is 4.\n"),
    ("It is 4. ◁think▷SECRET◁/think▷", "It is 4. "),
    ("It is 4.\n<seed:think>SECRET, which nothing closes", "It is 4.\n"),
    ("<think>SECRET</think>It is<THINK>SECRET</THINK> 4.", "It is 4."),
    ("SECRET</think>It is <think>SECRET</think>4.", "It is 4."),
    ("It is `4`. <scratchpad>SECRET</scratchpad>Yes.", "It is `4`. Yes."),
    ("```\n4\n```\n<think>SECRET</think>Yes.", "```\n4\n```\nYes."),
    (
        "It is 4. <|end|><|start|>assistant<|channel|>analysis<|message|>SECRET<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
        "It is 4. Yes.",
    ),
]
SHOWN = [
    "Write `<think>` before and `</think>` behind it.",
    "Write ``<think>a`b</think>``.",
    "So:\n\n```xml\n<think>a thought</think>\n```\nThat is all.",
    "So:\n\n~~~\n```\n<think>a thought</think>\n~~~\n",
    "- So:\n  ````\n  ```\n  <reasoning>a thought</reasoning>\n  ````\n",
    "So:\n\n    <think>a thought</think>\n",
    'The tag "<think>" opens one, a < b, and [THIS] too.',
    "The tag <think> opens a thought.",
    "A turn ends with <|im_end|>",
    "A turn ends with <|im_end|>, then the next one begins.",
]


async def of_both(text: str, request: Any) -> list[CallLog]:
    """What comes of a text of an endpoint, in pieces of each length and whole, and of a chat object."""
    cut = [[{"content": text[at : at + size]} for at in range(0, len(text), size)] for size in (1, 2, 3, 7, 1000)]
    async with LoopbackServer([*map(Deltas, cut), Text(text), Text(text)]) as server:
        streamed = model_at(server)
        logs = [await record(streamed, request) for _ in range(len(cut) + 1)]
        logs.append(await record(model_at(server, streaming=False), request))
        server.assert_spent()
    for streaming in (True, False):
        logs.append(await record(ChatObject(ScriptedChatModel([text]), streaming=streaming), request))
    return logs


def shown_of(log: CallLog) -> str:
    shown: list[str] = []
    for piece in log.pieces:
        if isinstance(piece, Withdrawn):
            shown = []
        elif isinstance(piece, TextDelta):
            shown.append(piece.text)
    return "".join(shown)


@cases("text, answer", THOUGHTS)
@pytest.mark.parametrize("request_", [NATIVE, PROSE], ids=["native", "prose"])
async def test_thoughts_anywhere_in_an_answer_are_no_part_of_it(text: str, answer: str, request_: Any) -> None:
    for log in await of_both(text, request_):
        assert (log.reply.text, shown_of(log)) == (answer, answer)
        thoughts = "".join(piece.text for piece in log.pieces if isinstance(piece, ReasoningDelta))
        assert thoughts.count("SECRET") == text.count("SECRET")


@cases("text", SHOWN)
@pytest.mark.parametrize("request_", [NATIVE, PROSE], ids=["native", "prose"])
async def test_marks_of_thoughts_in_code_or_that_nothing_closes_are_text(text: str, request_: Any) -> None:
    for log in await of_both(text, request_):
        assert (log.reply.text, shown_of(log)) == (text, text)


@cases(
    "finish_reason",
    [
        "MALFORMED_FUNCTION_CALL",
        "malformed_function_call",
        "MalformedFunctionCall",
        "malformed-function-call",
        "FinishReason.MALFORMED_FUNCTION_CALL",
        "FINISH_REASON_MALFORMED_FUNCTION_CALL",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
    ],
)
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_call_that_the_provider_cannot_read_is_unreadable(finish_reason: str, streaming: bool) -> None:
    for text in ("", "It is"):
        log = await ask([Text(text, finish_reason)], NATIVE, streaming)
        assert (log.reply.tool_calls, log.retries) == ((), [])
        assert "wrote a call that cannot be read" in str(log.reply.unreadable)


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_call_that_the_provider_cannot_read_is_asked_for_again(streaming: bool) -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    reason = "MALFORMED_FUNCTION_CALL"
    calls = ToolCalls([("c1", "double", '{"number": 2}')])
    with LoopbackServer([Text("", reason), calls, Text("It is", reason), Text("It is 4.")]) as server:
        agent = Agent(agent_id="a", model="openai:m", base_url=server.base_url, api_key="k", protocol="native",  # type: ignore[arg-type]
                      mode="react", streaming=streaming, tools=[double])  # fmt: skip
        async with segue.open(":memory:", agents=[agent]) as app:
            result = await app.ask("Double 2.", agent="a")
        server.assert_spent()
        told = [json.dumps(request.body["messages"]) for request in server.requests]
    assert (result.status, result.answer) == ("done", "It is 4.")
    assert ["cannot be read" in each for each in told] == [False, True, False, True]


CALL = '{"name": "add", "arguments": {"a": 1}}'
MARKUP = [
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"I will add.\n<tool_call>{CALL}</tool_call>",
    f"Adding. <tool_call>{CALL}",
    f"```xml\n<tool_call>{CALL}</tool_call>\n```",
    "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    f"<function=add>{ONE}</function>",
    f"[TOOL_CALLS][{CALL}]",
    f"[TOOL_CALLS]add[ARGS]{ONE}",
    f"[TOOL_CALLS]add{ONE}",
    '<|python_tag|>{"name": "add", "parameters": {"a": 1}}',
    f"<|tool_call|>[{CALL}]",
    f"<TOOLCALL>[{CALL}]</TOOLCALL>",
    CALL,
    f"[{CALL}]",
    f"```json\n{CALL}\n```",
    f'{{"tool_calls": [{{"type": "function", "function": {CALL}}}]}}',
    f"commentary to=functions.add json{ONE}",
    f"<|channel|>commentary to=functions.add <|constrain|>json<|message|>{ONE}<|call|>",
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{ONE}\n```<｜tool▁call▁end｜>",
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{ONE}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    f"<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{ONE}<|tool_call_end|>",
    '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n</minimax:tool_call>',
    '<｜DSML｜function_calls><｜DSML｜invoke name="add"><｜DSML｜parameter name="a" string="false">1'
    "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
    *(
        f'<{sign}DSML{sign}tool_calls><{sign}DSML{sign}invoke name="add"><{sign}DSML{sign}parameter name="a">1'
        f"</{sign}DSML{sign}parameter></{sign}DSML{sign}invoke></{sign}DSML{sign}tool_calls>"
        for sign in ("｜", "｜｜", "|", "‖")
    ),
    "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>",
    "<longcat_tool_call>add\n<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>",
    f"<tool_calls>\n<tool_call>add\n```json\n{ONE}\n```\n</tool_call>\n</tool_calls>",
    f"<|tool▁calls▁begin|><|tool▁call▁begin|>function<|tool▁sep|>add\n```json\n{ONE}\n```<|tool▁call▁end|>",
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="add"><steptml:parameter name="a">1'
    "</steptml:parameter></steptml:invoke><｜tool_call_end｜>",
    f"[TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{ONE}",
    f"add[ARGS]{ONE}",
    f"functions.add:0{ONE}",
    f"<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{ONE}<|call|>",
    "<|tool_call>call:add{a:1}<tool_call|>",
    "<start_function_call>call:add{a:1}<end_function_call>",
    f"<tools>\n{CALL}\n</tools>",
    f"functools[{CALL}]",
    f"<|action_start|><|plugin|>\n{CALL}<|action_end|>",
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1}}]<|END_ACTION|>',
    '{"action": "add", "action_input": {"a": 1}}',
    f"{CALL}<|eot_id|>",
    f"{CALL}\n</tool_call>",
    "[add(a=1)]",
    "<|python_start|>[add(a=1)]<|python_end|>",
    "<|python_tag|>add.call(a=1)",
    "<|tool_call_start|>[add(1)]<|tool_call_end|>",
    "```tool_code\nprint(default_api.add(a=1))\n```",
    "<tool_code>\nadd(a=1)\n</tool_code>",
    "<function_calls>\nadd(a=1)\n</function_calls>",
]  # fmt: skip


@cases("text", MARKUP)
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_call_that_is_written_as_text_is_a_call_and_never_shown(text: str, streaming: bool) -> None:
    log = await ask([Text(text)], NATIVE, streaming)
    assert [(made.name, json.loads(made.arguments)) for made in log.reply.tool_calls] == [("add", {"a": 1})]
    shown = "".join(each for each in log.streamed if not each.startswith("+"))
    assert "arguments" not in log.reply.text + shown and "1" not in log.reply.text


DEFINITION = (
    '{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", '
    '"properties": {}}}}'
)
WRAPPED = f"<tool_call>{CALL}</tool_call>"
ABOUT_CALLS = [
    'It says "please write add[ARGS]{"a": 1}" here.',
    f"Mistral writes add[ARGS]{ONE} in its text.",
    f"Kimi writes functions.add:0{ONE} in its text.",
    f"Harmony writes to=functions.add {ONE} in its text.",
    f"Harmony writes commentary to=functions.add {ONE} in its text.",
    "The model emits <tool_call>add</tool_call> then.",
    "The model emits <tool_call>add</tool_call>",
    'The model emits <invoke name="add"></invoke>',
    "The model emits <tool_code>add(a=1)</tool_code>",
    f'The page says "please run {WRAPPED}" to all.',
    f"The page says “please run {WRAPPED}” to all.",
    f"The page says 「run {WRAPPED}」.",
    f"> {WRAPPED}\n\nThat is what the page says.",
    f"The page says:\n> Please run\n> {WRAPPED}",
    f"So:\n~~~\n{WRAPPED}\n~~~\nThat is all.",
    f"So:\n\n    {WRAPPED}\n\nThat is all.",
    f"So:\n\n    a call:\n    {WRAPPED}",
    f"<pre>\n{WRAPPED}\n</pre>",
    f"So: <code>{WRAPPED}</code>",
    f"```\n{WRAPPED}\n```\nis how it is written.",
    f"<tools>\n{DEFINITION}\n</tools>",
    f"<tools>\n[{DEFINITION}]\n</tools>",
    '<tools>\n{"type": "function", "function": {"name": "add"}}\n</tools>',
    DEFINITION,
    f"[{DEFINITION}, {DEFINITION}]",
    '{"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}',
    "[os.add(a=1)]",
]


@cases(
    "text",
    [
        'In that format a call is written `<tool_call>{"name": "add"}</tool_call>`.',
        f"Write it so:\n```\n<tool_call>{CALL}</tool_call>\n```\nThen send it.",
        "The <tool_call> tag opens a call.",
        '{"name": "Ada", "age": 36}',
        '[{"name": "add"}, {"name": "subtract"}]',
        '```json\n{"answer": 4}\n```',
        "common words",
        "[add(a=1), then(b=2)]",
        "[add(a=x)]",
        f"Write it so:\n```json\n{CALL}\n```",
        "<tools>\nA hammer (big)\n</tools>",
        "```tool_code\nprint(1)\n```",
        '{"action": "wait", "action_input": {"a": 1}}',
        *ABOUT_CALLS,
    ],
)
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_text_about_calls_and_one_in_json_are_answers(text: str, streaming: bool) -> None:
    log = await ask([Text(text)], NATIVE, streaming)
    assert (log.reply.text, log.reply.tool_calls, log.reply.unreadable) == (text, (), None)
    assert "".join(log.streamed) == text


@cases(
    "text",
    [
        '<tool_call>{"name": "add", "arguments": {"a": </tool_call>',
        '<tool_call>{"name": "drop_all", "arguments": {}}</tool_call>',
        "<tool_call>\n",
        "[TOOL_CALLS][{",
        "[add(1, 2, 3)]",
        "[add(**{'a': 1})]",
        "[add(1, a=2)]",
        "<|python_start|>[add(a=1, **{})]<|python_end|>",
        f"{WRAPPED}\nadd[ARGS]{ONE} is how it is written.",
        f"{WRAPPED}\ncall:add{{}} but no.",
        f"{WRAPPED}\n```json\n{CALL}\n```",
        f"```\n{WRAPPED}\n```\nand\n```\n{WRAPPED}\n```",
    ],
)
async def test_markup_that_cannot_be_read_is_an_unreadable_reply(text: str) -> None:
    log = await ask([Text(text)], NATIVE)
    assert log.reply.unreadable is not None and not log.reply.tool_calls
    assert "tool call in its text" in str(log.reply.unreadable) and log.reply.text == "" == "".join(log.streamed)


OTHER = '<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>'


@cases(
    "tail",
    [
        "I did not use `add[ARGS]{}`.",
        "I did not use add[ARGS]{}.",
        "I thought of it and call:add{} but no.",
        "I did not write to=functions.add {}",
        "I did not write to=add {}",
        f"I did not write `{OTHER}`.",
        f"> {OTHER}",
        f"I know:\n```\n{OTHER}\n```",
        'The result is {"name": "add", "arguments": {}}',
        '<tool_response>\n{"name": "add", "arguments": {}}\n</tool_response>',
        '[TOOL_RESULTS]{"name": "add", "arguments": {}}',
        "I know the <tool_call> tag.",
        f"<pre>{CALL}</pre>",
    ],
)
async def test_only_what_directly_follows_a_call_or_is_marked_itself_is_another_one(tail: str) -> None:
    log = await ask([Text(f"{WRAPPED}\n{tail}")], NATIVE)
    assert [json.loads(made.arguments) for made in log.reply.tool_calls] == [{"a": 1}]


@cases(
    "text",
    [
        f"{WRAPPED}{OTHER}",
        f"{WRAPPED}\n{OTHER}<|im_end|>",
        f"First.\n{WRAPPED}\nThen:\n{OTHER}\nI wait.",
        f'1. It is 15" wide:\n   {WRAPPED}\n2. And:\n   {OTHER}',
        f"    {WRAPPED}\n    {OTHER}",
        "[add(a=1), add(a=2)]",
        '<tool_call>\n```json\n{"name": "add", "arguments": {"a": 1}}\n```\n</tool_call>\n'
        '<tool_call>\n```json\n{"name": "add", "arguments": {"a": 2}}\n```\n</tool_call>',
        'add[ARGS]{"a": 1}add[ARGS]{"a": 2}',
        '[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]add[ARGS]{"a": 2}',
        '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": {"a": 2}}][/TOOL_CALLS]',
        'Adding. functions.add:0{"a": 3}.\n<|tool_call_begin|>functions.add:0{"a": 1}<|tool_call_end|>'
        '<|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{"a": 2}<|tool_call_end|>',
        'I add.assistantcommentary to=functions.add json{"a": 1}assistantcommentary to=functions.add json{"a": 2}',
        "<|tool_call>call:add{a:1}<tool_call|><|tool_call>call:add{a:2}<tool_call|>",
    ],
)
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_several_calls_that_are_written_as_text_are_calls(text: str, streaming: bool) -> None:
    log = await ask([Text(text)], NATIVE, streaming)
    assert [json.loads(made.arguments) for made in log.reply.tool_calls] == [{"a": 1}, {"a": 2}]


@cases(
    "text",
    [
        f"add[ARGS]{ONE}\nis how it is written.",
        f"Adding. {WRAPPED} And so on.",
        f"{WRAPPED}\nI did not write {OTHER}, though.",
    ],
)
async def test_a_call_in_words_or_within_a_line_before_other_text_is_an_unreadable_reply(text: str) -> None:
    log = await ask([Text(text)], NATIVE)
    assert "other text stands beside it" in str(log.reply.unreadable) and not log.reply.tool_calls


@cases("text", ["[note(s) on it]", "[os.add(a", "[see", "```py\nadd("])
def test_a_text_that_begins_like_no_call_of_an_offered_tool_is_shown_as_it_arrives(text: str) -> None:
    reply = GrowingReply(tools={"add": {}}, native=True)
    reply.add_text(text)
    assert reply.take() == [TextDelta(text)]


@cases("text", ["[ad", "[add(", "[ADD(a", "```xml\n<tool", '{"name'])
def test_a_text_that_may_be_a_call_is_held_back(text: str) -> None:
    reply = GrowingReply(tools={"add": {}}, native=True)
    reply.add_text(text)
    assert reply.take() == []


@cases("text", [f"{CALL}\n\nIt is done.", f"I will add.\n{CALL}", f"I will add.\n\n [{CALL}]<|im_end|>"])
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_bare_call_beside_other_text_is_an_unreadable_reply(text: str, streaming: bool) -> None:
    log = await ask([Text(text)], NATIVE, streaming)
    assert "other text stands beside it" in str(log.reply.unreadable) and not log.reply.tool_calls
    assert "arguments" not in log.reply.text and shown_of(log) == log.reply.text


@cases("finish_reason", ["error", "abort", "ERROR", "engine_error", "insufficient_system_resource"])
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_a_reply_that_broke_off_is_a_failed_attempt(finish_reason: str, streaming: bool) -> None:
    log = await ask([Text("half an ans", finish_reason), Text("4")], PROSE, streaming)
    assert log.reply.text == "4" and len(log.retries) == 1


@cases("place", ["choice", "document"])
async def test_an_error_beside_a_piece_is_a_failed_attempt_in_the_providers_words(place: str) -> None:
    error = {"code": 502, "message": "Provider disconnected"}
    broken: dict[str, Any] = chunk("error", content="")
    (broken if place == "document" else broken["choices"][0])["error"] = error
    log = await ask([Bytes(events(HI, broken)), Text("4")], PROSE)
    assert log.reply.text == "4" and "Provider disconnected" in str(log.retries[0].reason)


@cases("finish_reason", ["content_filter", "SAFETY", "sensitive"])
async def test_a_filtered_reply_is_refused(finish_reason: str) -> None:
    log = await ask([Text("x", finish_reason)], PROSE)
    assert isinstance(log.error, ModelRefused) and "content filter" in str(log.error)


async def test_a_stream_that_only_stops_is_cut_though_its_arguments_begin() -> None:
    cut = events(chunk(tool_calls=[{"index": 0, "function": {"name": "add", "arguments": '{"a"'}}]))
    log = await ask([Bytes(cut), Text("4")], NATIVE)
    assert log.reply.text == "4" and "without a finish_reason" in str(log.retries[0].reason)


@cases(
    "status, body",
    [
        (
            400,
            {"error": {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "x"}},
        ),
        (400, {"error": {"message": "Failed to generate JSON", "code": "json_validate_failed"}}),
        (500, {"error": "error parsing tool call: raw='{\"a\":', err=unexpected end of JSON input"}),
    ],
)
async def test_a_refusal_of_what_the_model_wrote_is_an_unreadable_reply(status: int, body: Any) -> None:
    log = await ask([Status(status, body=body)], NATIVE)
    assert log.reply.text == "" and log.reply.unreadable is not None
    assert "refused the request" in str(log.reply.unreadable) and not log.retries


WORDS = [
    {"error": {"message": "the endpoint's words"}},
    {"error": "the endpoint's words"},
    {"detail": "the endpoint's words"},
    {"detail": [{"loc": ["body", "messages"], "msg": "the endpoint's words"}]},
    [{"error": {"code": 400, "message": "the endpoint's words"}}],
    {"object": "error", "message": "the endpoint's words"},
    {"error": None, "msg": "the endpoint's words"},
    {"errors": [{"title": "the endpoint's words"}]},
    {"success": False, "error_msg": "the endpoint's words"},
    {"choices": None, "base_resp": {"status_code": 1004, "status_msg": "the endpoint's words"}},
    {"error": {"message": "Provider returned error", "metadata": {"raw": {"detail": "the endpoint's words"}}}},
    "the endpoint's words",
]


@cases("body", WORDS)
async def test_the_endpoints_words_reach_the_user_in_every_form_of_an_error(body: Any) -> None:
    refused = await ask([Status(422, body=body)], PROSE)
    assert "the endpoint's words" in str(refused.error)
    if not isinstance(body, str) and "errors" not in body:
        told = await ask([Bytes(json.dumps(body).encode(), JSON_TYPE), Text("4")], PROSE, streaming=False)
        assert "the endpoint's words" in str(told.retries[0].reason)


@cases("data", ['{"message": "the endpoint\'s words"}', "the endpoint's words", '{"error": "the endpoint\'s words"}'])
async def test_an_event_that_is_called_error_is_one(data: str) -> None:
    log = await ask([Bytes(events(HI, done=False) + f"event: error\ndata: {data}\n\n".encode()), Text("4")], PROSE)
    assert log.reply.text == "4" and "the endpoint's words" in str(log.retries[0].reason)


@cases(
    "line",
    [
        '{"error": {"message": "the endpoint\'s words"}}',
        '{"error": {"message": "the endpoint\'s words"}}\n',
        'error: {"message": "the endpoint\'s words"}\n\n',
        "data: Error: the endpoint's words\n\n",
        "data: [ERROR] the endpoint's words\n\n",
    ],
)
@pytest.mark.parametrize("end", ["\n\n", "\n"], ids=["blank line", "line"])
async def test_an_error_between_the_events_is_one_in_any_form(line: str, end: str) -> None:
    body = f"data: {json.dumps(HI)}{end}{line}".encode()
    log = await ask([Bytes(body), Text("4")], PROSE)
    assert log.reply.text == "4" and "the endpoint's words" in str(log.retries[0].reason)


@cases(
    "body, seconds",
    [
        ([{"error": {"message": "quota", "details": [{"@type": "RetryInfo", "retryDelay": "6s"}]}}], 6.0),
        ({"error": {"message": "Please try again in 6s."}}, 6.0),
        ({"error": {"message": "Rate limit. Please try again in 1m30.5s. Visit us."}}, 90.5),
        ({"error": {"message": "Please retry after 20 seconds"}}, 20.0),
        ({"error": {"message": "try again in 250ms"}}, 0.25),
        ({"message": "slow down", "retry_after": 3}, 3.0),
        ({"message": "slow down", "retry_after": 10**400}, None),
        ({"error": {"message": "try again later"}}, None),
    ],
)
async def test_a_wait_that_the_body_names_is_kept_to(body: Any, seconds: float | None) -> None:
    log = await ask([Status(429, body=body), *([Text("4")] if seconds != 90.5 else [])], PROSE)
    if seconds == 90.5:
        assert "it accepts no request until" in str(log.error)
    else:
        assert log.slept == [1.0 if seconds is None else seconds]


@cases("value", ["nan", "inf", "-1", "-inf", "1e300", "soon", "Mon, 32 Foo 2026"])
async def test_a_retry_after_that_makes_no_sense_is_ignored(value: str) -> None:
    log = await ask([Status(429, {"Retry-After": value}), Text("4")], PROSE)
    assert log.reply.text == "4" and log.slept == [1.0]


@cases(
    "status, words",
    [
        (400, "This model's maximum context length is 8192 tokens."),
        (400, "prompt is too long: 214676 tokens > 200000 maximum"),
        (400, "prompt_too_long"),
        (400, "Input is too long for requested model."),
        (413, "Request too large for model, please reduce your message size and try again."),
        (422, "`inputs` must have less than 4096 tokens. Given: 9000"),
        (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
        (400, "Range of input length should be [1, 30720]"),
        (500, "request (9000 tokens) exceeds the available context size (8192 tokens)"),
        (429, "Request too large for m: Limit 30, Requested 46. The input or output tokens must be reduced."),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        (400, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens"),
        (400, "Current length is 9000 while limit is 8192"),
        (400, "length of prompt_tokens (40000) must be less than max_seq_len (32768)."),
        (400, "Prompt length 5000 is greater than max_seq_len 4096"),
        (400, "Invalid 'messages[1].content': string too long. Expected a maximum length of 10485760."),
        (429, "Request too large for gpt-4o: Limit 30000, Requested 33000. Input tokens must be reduced."),
    ],
)
async def test_a_prompt_that_is_too_long_is_told_in_any_words(status: int, words: str) -> None:
    log = await ask([Status(status, body={"error": {"message": words}})], PROSE)
    assert isinstance(log.error, ModelRefused) and log.error.may_be_too_long
    assert "lower the agent's budget.prompt_tokens" in str(log.error)


@cases(
    "status, words, advice",
    [
        (400, "m does not support tools", 'set protocol="json"'),
        (404, "No endpoints found that support tool use", 'set protocol="json"'),
        (400, '"auto" tool choice requires --enable-auto-tool-choice', 'set protocol="json"'),
        (400, "Invalid 'messages[2].tool_calls[0].function.name': no match", "change what it names"),
        (400, "reasoning_content is missing in assistant tool call message", "change what it names"),
        (400, "max_tokens is too large: 100000; at most 8192 are allowed", "change what it names"),
        (400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "extra_body"),
        (402, "Insufficient Balance", "top up the account"),
        (500, "Jinja Exception: the roles must alternate", "see habits in the agents file"),
        (500, "tools param requires --jinja flag", 'set protocol="json"'),
        (400, "Tool choice not supported", 'set protocol="json"'),
        (400, "Unsupported role: tool", 'set protocol="json"'),
        (
            400,
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
            "change what it names",
        ),
        (401, "No such user", "check OPENAI_API_KEY"),
        (403, "This API key may not call it", "check OPENAI_API_KEY"),
        (403, "You do not have access to model m.", "change what it names"),
        (403, "Country, region, or territory not supported", "change what it names"),
        (403, "<html><title>Attention Required!</title></html>", "check base_url"),
        (403, "Input was flagged by moderation", "rephrase the message"),
        (400, "The prompt triggered the content management policy.", "rephrase the message"),
        (403, "Insufficient balance", "top up the account"),
        (429, "Insufficient balance or no resource package. Please recharge.", "top up the account"),
        (400, "Your credit balance is too low to access the API.", "top up the account"),
        (405, "Method Not Allowed", "check the model's name and base_url"),
    ],
)
async def test_the_advice_fits_the_refusal(status: int, words: str, advice: str) -> None:
    log = await ask([Status(status, body={"error": {"message": words}})], NATIVE)
    assert isinstance(log.error, ModelRefused) and advice in str(log.error)


@cases("status", [408, 409, 424, 425, 429, 498, 499, 500, 503, 529])
async def test_what_passes_is_tried_again(status: int) -> None:
    log = await ask([Status(status, body={"error": {"message": "no capacity"}}), Text("4")], PROSE)
    assert log.reply.text == "4" and f"answered {status} (no capacity)" in str(log.retries[0].reason)


@dataclass(frozen=True)
class KeptAlive:
    """Says nothing new for longer than a silence may last, but that it is alive."""

    beat: str

    def play(self, wire: Wire) -> None:
        wire.begin()
        for _ in range(4):
            wire.wait(lambda: False, 0.6)
            wire._part(self.beat.encode())
        wire.delta({"content": "hi"})
        wire.finish("stop")


@cases("beat", [": processing\n\n", events(chunk(content=""), done=False).decode(), 'data: {"choices": []}\n\n'])
async def test_keep_alives_count_as_life(beat: str) -> None:
    def patient(server: Any, streaming: bool, slept: list[float]) -> Any:
        from dataclasses import replace

        from .openai_calls import model_at

        model = model_at(server, streaming, slept, read_timeout=2)
        model._policy = replace(model._policy, reply_timeout=60)
        return model

    log = await ask([KeptAlive(beat)], PROSE, make=patient)
    assert log.reply.text == "hi" and not log.retries
