"""What endpoints require of a request: learned from a refusal, kept, or set by the agent."""

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from segue.core.agents import HABITS
from segue.core.errors import DatabaseUnavailable, ModelRefused
from segue.core.models import KEPT, ModelRequest
from segue.models.habits import TABLE, Habits
from tests.cases import cases
from tests.loopback import Deltas, Demand, Json, LoopbackServer, Message, Status, Text, ToolCalls

from .openai_calls import ADD, JSON, NATIVE, CallLog, model_at, record

FINE = Text("{}")


def call(call_id: str = "lookup:0", name: str = "add") -> Any:
    return {"id": call_id, "name": name, "args": {}, "type": "tool_call"}


def exchanged(call_id: str = "lookup:0", thought: str = "", result: str = "3", **kwargs: Any) -> list[BaseMessage]:
    return [AIMessage(thought, tool_calls=[call(call_id)], **kwargs), ToolMessage(result, tool_call_id=call_id)]


def native(*messages: BaseMessage, **fields: Any) -> ModelRequest:
    return replace(NATIVE, messages=[SystemMessage("Be good."), HumanMessage("hi"), *messages], **fields)


def tool_named(name: str) -> Any:
    return {**ADD, "function": {**ADD["function"], "name": name}}


def roles(body: Json) -> list[str]:
    return [message["role"] for message in body["messages"]]


def called(body: Json) -> list[Json]:
    return [made for message in body["messages"] for made in message.get("tool_calls") or ()]


def results(body: Json) -> list[Json]:
    return [message for message in body["messages"] if message["role"] == "tool"]


USER_FIRST = ModelRequest(
    purpose="decide", messages=[HumanMessage("hi"), SystemMessage("Be good."), AIMessage("done")], nudge="Go on."
)
TWO_SYSTEMS = ModelRequest(
    purpose="answer", messages=[SystemMessage("Be good."), SystemMessage("Be short."), HumanMessage("hi")]
)


@dataclass(frozen=True)
class Row:
    """A request, what is wrong with its usual form, and the endpoint's words for it."""

    name: str
    request: ModelRequest
    is_wrong: Callable[[Json], bool]
    says: str
    code: int = 400


def _has_null(body: Json) -> bool:
    return any(message.get("content") is None for message in body["messages"])


def _has_blank(body: Json) -> bool:
    return any(message.get("content") == "" for message in body["messages"])


def _repeats_role(body: Json) -> bool:
    spoken = [role for role in roles(body) if role != "system"]
    pairs = [*itertools.pairwise(spoken)]
    return ("user", "user") in pairs or ("tool", "user") in pairs


RICH = {
    "type": "object",
    "$schema": "http://json-schema.org/draft-07/schema#",
    "properties": {
        "a": {"type": ["integer", "null"], "exclusiveMinimum": 0, "enum": [1, 2]},
        "b": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}], "default": None},
        "c": {"const": "x"},
        "d": {"type": "array"},
        "e": {"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]},
        "f": {"allOf": [{"properties": {"g": {"type": "string"}}, "required": ["g"]}, {"type": "object"}]},
    },
    "required": ["a"],
    "additionalProperties": False,
}
SIMPLE = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "description": "One of [1, 2]."},
        "b": {"type": "string"},
        "c": {"type": "string", "enum": ["x"]},
        "d": {"type": "array", "items": {"type": "string"}},
        "e": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "f": {"type": "object", "properties": {"g": {"type": "string"}}, "required": ["g"]},
    },
    "required": ["a"],
}


def tool_with(parameters: Any) -> Any:
    return {**ADD, "function": {**ADD["function"], "parameters": parameters}}


def _is_rich(body: Json) -> bool:
    return any(tool["function"].get("parameters", SIMPLE) != SIMPLE for tool in body["tools"])


LONG = "look_up." + "x" * 80
ROWS = [
    Row("no_stream_options", NATIVE, lambda b: "stream_options" in b, "Extra inputs are not permitted: stream_options"),
    Row("max_completion_tokens", replace(NATIVE, settings={"extra_body": {"max_tokens": 9}}),
        lambda b: "max_tokens" in b, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    Row("max_tokens", replace(NATIVE, settings={"extra_body": {"max_completion_tokens": 9}}),
        lambda b: "max_completion_tokens" in b, "unknown field max_completion_tokens", 422),
    Row("no_system_role", native(), lambda b: "system" in roles(b), "System role not supported"),
    Row("no_system_role", native(), lambda b: "system" in roles(b), "Developer instruction is not enabled for m"),
    Row("system_first", USER_FIRST, lambda b: "system" in roles(b)[1:],
        "Jinja Exception: System message must be at the beginning."),
    Row("system_first", USER_FIRST, lambda b: "system" in roles(b)[1:],
        "Jinja Exception: System message must be at the beginning.", 500),
    Row("system_first", USER_FIRST, lambda b: "system" in roles(b)[1:], "Unexpected role 'system' after role 'user'"),
    Row("one_system", TWO_SYSTEMS, lambda b: "system" in roles(b)[1:], "System message must be at the beginning."),
    Row("alternate_roles", native(*exchanged(), HumanMessage("state")), _repeats_role,
        "Conversation roles must alternate user/assistant/user/assistant/...", 500),
    Row("alternate_roles", native(HumanMessage("state")), _repeats_role,
        'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'),
    Row("alternate_roles", native(*exchanged(), HumanMessage("x")), _repeats_role,
        "Unexpected role 'user' after role 'tool'"),
    Row("reasoning_content", native(*exchanged()), lambda b: any(not m.get("reasoning_content") for m in b["messages"]
        if m.get("tool_calls")), "Missing `reasoning_content` field in the assistant message at message index 2"),
    Row("content_or_calls", native(*exchanged(thought="I will add.")), lambda b: any(m.get("content")
        and m.get("tool_calls") for m in b["messages"]),
        "Assistant message must have either content or tool_calls, but not both."),
    Row("object_results", native(*exchanged(result="noon")), lambda b: results(b)[0]["content"] != '{"result": "noon"}',
        "Invalid value at 'contents[2].parts[0].function_response.response' (google.protobuf.Struct)"),
    Row("object_results", native(*exchanged()), lambda b: results(b)[0]["content"] != '{"result": 3}',
        "Tool results must be a JSON object"),
    *(Row("simple_schemas", native(tools=[tool_with(RICH), tool_with({"type": "object", "properties": {}})]), _is_rich,
        words) for words in (
        "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
        "tools[1].function_declarations[0].parameters.properties: should be non-empty for OBJECT type",
        "Invalid schema for function 'add': In context=('properties', 'd'), array schema missing items.",
        "Invalid value at 'tools[0].function_declarations[0].parameters.properties[1].enum[0]' (TYPE_STRING), 1")),
    Row("thought_signatures", native(*exchanged()), lambda b: any("extra_content" not in c for c in called(b)),
        "Function call is missing a thought_signature in functionCall parts."),
    Row("short_ids", native(*exchanged()),
        lambda b: any(not re.fullmatch("[a-zA-Z0-9]{9}", c["id"]) for c in called(b)),
        "Tool call id was lookup:0 but must be a-z, A-Z, 0-9, with a length of 9."),
    Row("plain_ids", native(*exchanged()), lambda b: any(":" in c["id"] for c in called(b)),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
    Row("plain_ids", native(*exchanged("x" * 60)), lambda b: any(len(c["id"]) > 40 for c in called(b)),
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40"),
    Row("tool_names", native(*exchanged()), lambda b: any(not m.get("name") for m in results(b)),
        "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty."),
    Row("plain_names", replace(native(*exchanged()), tools=[tool_named(LONG)]),
        lambda b: any(len(t["function"]["name"]) > 64 or "." in t["function"]["name"] for t in b["tools"]),
        "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."),
    Row("empty_content", native(*exchanged()), _has_null, "messages.2.content: Input should be a valid string"),
    Row("empty_content", native(*exchanged()), _has_null, "'NoneType' object is not iterable", 500),
    Row("filled_content", native(*exchanged(result="")), _has_blank, "messages: text content blocks must be non-empty"),
    Row("json_object", JSON, lambda b: b.get("response_format", {}).get("type") == "json_schema",
        "response_format.type must be json_object"),
    Row("no_response_format", JSON, lambda b: "response_format" in b, "This response_format type is unavailable now"),
    Row("user_last", USER_FIRST, lambda b: roles(b)[-1] == "assistant", "Prefill is not supported by this model."),
    Row("user_last", USER_FIRST, lambda b: roles(b)[-1] == "assistant", "this request is refused"),
    Row("user_last", replace(USER_FIRST, nudge=""), lambda b: roles(b)[-1] == "assistant",
        "Expected last role User or Tool for serving but got assistant"),
]  # fmt: skip


async def asked(
    script: Sequence[Any], request: ModelRequest, habits: Habits | None = None, given: Collection[str] | None = None
) -> CallLog:
    """Ask an endpoint, and note what it was sent and how long was waited."""
    slept: list[float] = []
    async with LoopbackServer(script) as server:
        log = await record(model_at(server, slept=slept, habits=habits, given=given and [*given]), request)
        server.assert_spent()
    log.slept, log.sent = slept, [each.body for each in server.requests]
    return log


def demand(row: Row) -> Demand:
    return Demand(lambda body: row.says if row.is_wrong(body) else "", row.code)


def test_the_table_has_each_name_once_and_a_test() -> None:
    assert sorted(habit.name for habit in TABLE) == sorted(HABITS)
    assert {row.name for row in ROWS} | {"no_reasoning", "developer_role"} == {*HABITS}


@cases("row", ROWS)
async def test_a_refusal_shows_what_is_sent_instead_at_once(row: Row) -> None:
    async with LoopbackServer([demand(row), FINE, FINE]) as server:
        slept: list[float] = []
        habits = Habits()
        for _ in range(2):
            log = await record(model_at(server, slept=slept, habits=habits), row.request)
            assert log.reply.text == "{}" and not log.retries
        server.assert_spent()
        learned = await habits.of(f"{server.base_url}#m")
    refused = [row.is_wrong(request.body) for request in server.requests]
    assert row.name in learned and not slept
    assert refused[0] and not any(refused[-2:])  # the second call is right at once
    assert sum(refused) == len(server.requests) - 2


@cases("row", ROWS)
async def test_an_endpoint_that_takes_the_usual_form_gets_it(row: Row) -> None:
    habits = Habits()
    log = await asked([FINE], row.request, habits)
    assert row.is_wrong(log.sent[0])


@cases("row", ROWS)
async def test_what_the_agent_sets_is_sent_from_the_beginning(row: Row) -> None:
    log = await asked([demand(row), FINE], row.request, given=[row.name])
    assert log.reply.text == "{}" and len(log.sent) == 1


@cases("row", ROWS)
async def test_nothing_is_learned_of_what_did_not_help(row: Row) -> None:
    habits = Habits()
    async with LoopbackServer([Demand(lambda _: row.says, row.code)]) as server:
        log = await record(model_at(server, habits=habits), row.request)
        assert log.error is not None
        assert await habits.of(f"{server.base_url}#m") == frozenset()
    assert len(server.requests) <= len(TABLE) + 3


async def test_an_error_about_something_else_changes_nothing() -> None:
    for status in (Status(401, body="system message must be first"), Status(400, body="temperature is too high")):
        log = await asked([status], replace(USER_FIRST, nudge=""))
        assert isinstance(log.error, ModelRefused) and len(log.sent) == 1


async def test_an_error_of_a_template_is_not_retried_as_an_overload() -> None:
    log = await asked([Status(500, body="Jinja Exception: no such filter")], NATIVE)
    assert isinstance(log.error, ModelRefused) and "habits in the agents file" in str(log.error) and not log.retries


async def test_several_habits_are_learned_one_after_the_other() -> None:
    rows = [row for row in ROWS if row.name in ("short_ids", "tool_names", "empty_content", "alternate_roles")]
    request = native(*exchanged(), HumanMessage("state"))
    habits = Habits()
    async with LoopbackServer([*map(demand, rows), FINE]) as server:
        assert (await record(model_at(server, habits=habits), request)).reply.text == "{}"
        assert await habits.of(f"{server.base_url}#m") == {row.name for row in rows}
    body = server.requests[-1].body
    (made,), (result,) = called(body), results(body)
    assert result["tool_call_id"] == made["id"] and result["content"] == "3\n\nstate"


async def test_a_habit_that_is_refused_later_gives_way() -> None:
    habits = Habits()
    request = replace(NATIVE, settings={"extra_body": {"max_tokens": 9}})
    new, old = ROWS[1], ROWS[2]
    async with LoopbackServer([demand(new), FINE]) as server:
        await record(model_at(server, habits=habits), request)
        endpoint = f"{server.base_url}#m"
        assert await habits.of(endpoint) == {"max_completion_tokens"}
        server._rules[:] = [demand(old)]
        server._script.append(FINE)
        await record(model_at(server, habits=habits), request)
        assert await habits.of(endpoint) == {"max_tokens"}


async def test_an_endpoint_that_is_overloaded_in_between_is_sent_what_it_requires() -> None:
    row = next(row for row in ROWS if row.name == "system_first")
    habits = Habits()
    busy = Status(503, body="overloaded")
    async with LoopbackServer([Status(row.code, body=row.says), busy, busy, FINE]) as server:
        assert (await record(model_at(server, habits=habits), row.request)).reply.text == "{}"
        assert await habits.of(f"{server.base_url}#m") == {"system_first"}


async def test_two_calls_at_once_forget_nothing_that_was_learned() -> None:
    class Slow:
        def __init__(self) -> None:
            self.names: Collection[str] = ["one_system"]

        async def of(self, endpoint: str) -> Collection[str]:
            await asyncio.sleep(0)
            return self.names

        async def put(self, endpoint: str, names: Collection[str]) -> None:
            self.names = names

    store = Slow()
    habits = Habits(store)
    first, second = await asyncio.gather(habits.of("here"), habits.of("here"))
    assert first == second == {"one_system"}
    await habits.learn("here", first, first | {"tool_names"})
    await habits.learn("here", second, second | {"short_ids"})
    assert {*store.names} == {"one_system", "tool_names", "short_ids"}


async def test_a_store_that_fails_costs_no_call() -> None:
    class Failing:
        async def of(self, endpoint: str) -> Collection[str]:
            raise DatabaseUnavailable("The database {path} is gone.", path=endpoint)

        async def put(self, endpoint: str, names: Collection[str]) -> None:
            raise DatabaseUnavailable("The database {path} is gone.", path=endpoint)

    log = await asked([demand(ROWS[0]), FINE], ROWS[0].request, Habits(Failing()))
    assert log.reply.text == "{}"


async def test_the_developer_role_is_for_openai_or_where_the_agent_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LoopbackServer([FINE, FINE]) as server:
        plain = model_at(server)
        plain.chat.model_name = "o3-mini"
        await record(plain, native())
        await record(model_at(server, given=["developer_role"]), native())
    assert [roles(request.body)[0] for request in server.requests] == ["system", "developer"]


# Names and ids.


async def test_ids_are_unique_in_a_request_in_calls_and_results_alike() -> None:
    log = await asked(
        [FINE], native(*exchanged(), *exchanged(result="4"), HumanMessage("more"), *exchanged(result="5"))
    )
    made, given = [c["id"] for c in called(log.sent[0])], [m["tool_call_id"] for m in results(log.sent[0])]
    assert made == given and len({*made}) == 3 and made[0] == "lookup:0"
    assert [m["content"] for m in results(log.sent[0])] == ["3", "4", "5"]


async def test_a_name_that_no_tool_has_is_sent_in_the_apis_alphabet() -> None:
    bad = AIMessage("", tool_calls=[call("c", '{"a": 1} | add')])
    log = await asked([FINE], native(bad, ToolMessage("no such tool", tool_call_id="c")))
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", called(log.sent[0])[0]["function"]["name"])


async def test_a_tool_under_another_name_is_called_by_its_own() -> None:
    tools = [tool_named("查 天气"), tool_named("a.b"), tool_named("a_b"), tool_named(LONG)]

    def answer(body: Json) -> Any:
        names = [tool["function"]["name"] for tool in body["tools"]]
        assert len({*names}) == 4
        return ToolCalls([(f"c{place}", name, "{}") for place, name in enumerate(names)])

    log = await asked([demand(next(r for r in ROWS if r.name == "plain_names")), answer], replace(NATIVE, tools=tools))
    assert [made.name for made in log.reply.tool_calls] == ["查 天气", "a.b", "a_b", LONG]


# What the model wants back.


def kept_of(log: CallLog, **fields: Any) -> ModelRequest:
    """A request that continues with the reply's calls."""
    calls = [call(made.id, made.name) for made in log.reply.tool_calls]
    answered = [ToolMessage("3", tool_call_id=made["id"]) for made in calls]
    return native(AIMessage("", tool_calls=calls, additional_kwargs={KEPT: dict(log.reply.kept)}), *answered, **fields)


SIGNED: Json = {
    "id": "c1",
    "type": "function",
    "function": {"name": "add", "arguments": "{}"},
    "extra_content": {"google": {"thought_signature": "SIG"}},
}
PLAIN: Json = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
THINKING = [{"type": "thinking", "thinking": "hm"}]
DETAILS = [{"type": "reasoning.text", "text": "hm", "signature": "SIG", "index": 0}]


@cases(
    "fields, back",
    [
        ({"reasoning_content": "hm 🤔", "tool_calls": [PLAIN]}, {"reasoning_content": "hm 🤔"}),
        ({"reasoning_details": DETAILS, "tool_calls": [PLAIN]}, {"reasoning_details": DETAILS}),
        (
            {"thinking_blocks": [{"type": "thinking"}], "tool_calls": [PLAIN]},
            {"thinking_blocks": [{"type": "thinking"}]},
        ),
        ({"tool_calls": [SIGNED, {**PLAIN, "id": "c2"}]}, {}),
    ],
)
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
async def test_it_goes_back_to_the_same_endpoint_and_model_only(fields: Json, back: Json, streaming: bool) -> None:
    async with LoopbackServer([Message(fields), FINE, FINE]) as server, LoopbackServer([FINE]) as other:
        log = await record(model_at(server, streaming), NATIVE)
        assert log.reply.kept["of"] == f"{server.base_url}#m"
        assert json.loads(json.dumps(log.reply.kept)) == log.reply.kept
        await record(model_at(server, streaming), kept_of(log))
        elsewhere = model_at(server)
        elsewhere.endpoint = f"{server.base_url}#another"
        await record(elsewhere, kept_of(log))
        await record(model_at(other), kept_of(log))
    own, another, foreign = server.requests[1].body, server.requests[2].body, other.requests[0].body
    sent = next(message for message in own["messages"] if message.get("tool_calls"))
    assert {name: sent[name] for name in back} == back
    assert [made.get("extra_content") for made in sent["tool_calls"]] == [
        made.get("extra_content") for made in fields["tool_calls"]
    ]
    for body in (another, foreign):
        (message,) = [message for message in body["messages"] if message.get("tool_calls")]
        assert {*message} == {"role", "content", "tool_calls"} and "extra_content" not in message["tool_calls"][0]


async def test_an_endpoint_that_refuses_its_reasoning_back_gets_none() -> None:
    refused = Demand(
        lambda body: (
            "property 'messages.2.reasoning_content' is unsupported"
            if any("reasoning_content" in message for message in body["messages"])
            else ""
        )
    )
    habits = Habits()
    fields = {"reasoning_content": "hm", "tool_calls": [PLAIN]}
    async with LoopbackServer([refused, Message(fields), FINE]) as server:
        log = await record(model_at(server, habits=habits), NATIVE)
        assert (await record(model_at(server, habits=habits), kept_of(log))).reply.text == "{}"
        assert await habits.of(f"{server.base_url}#m") == {"no_reasoning"}


async def test_what_an_imported_session_says_is_kept_changes_nothing_else() -> None:
    async with LoopbackServer([FINE] * 3) as server:
        origin = f"{server.base_url}#m"
        forms: list[Any] = [
            "text", {"of": origin, "message": {"role": "system", "content": "x"}, "calls": "cc"}, {"of": origin}
        ]  # fmt: skip
        for kept in forms:
            past = exchanged(additional_kwargs={KEPT: kept})
            await record(model_at(server), native(*past))
    for request in server.requests:
        assert roles(request.body) == ["system", "user", "assistant", "tool"]
        assert {*request.body["messages"][2]} == {"role", "content", "tool_calls"}


async def test_pieces_of_what_is_kept_are_joined() -> None:
    def details(text: str, **more: Any) -> Json:
        return {"reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0, **more}]}

    first = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{"}}
    rest = {"index": 0, "function": {"arguments": "}"}, "extra_content": SIGNED["extra_content"]}
    deltas = [details("h"), details("m"), details("", signature="SIG"), {"tool_calls": [first]}, {"tool_calls": [rest]}]
    log = await asked([Deltas(deltas, "tool_calls")], NATIVE)
    assert log.reply.kept["message"] == {"reasoning_details": DETAILS}
    assert log.reply.kept["calls"] == [{"extra_content": SIGNED["extra_content"]}]
