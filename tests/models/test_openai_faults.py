"""Every fault that the loopback server knows, in each protocol, streamed and whole: what the task gets to see."""

import inspect
import itertools
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import pytest

from segue.core.errors import ModelRefused, ModelUnreachable
from segue.core.models import ModelRequest
from tests import loopback_script
from tests.loopback import (
    BadJson,
    CleanEof,
    CutStream,
    EmptyChoices,
    Endless,
    ErrorFrame,
    Hang,
    Html,
    LengthCut,
    LoopbackServer,
    Malformed,
    Refusal,
    RefuseResponseFormat,
    RefuseTools,
    Scripted,
    Stall,
    Status,
    Text,
    ToolCalls,
)

from .openai_calls import JSON, KEY, NATIVE, NOW, PROSE, CallLog, ask, model_at, record

PROTOCOLS = {"json": JSON, "native": NATIVE}
ALL = tuple(itertools.product(PROTOCOLS, (True, False)))
"""The columns of the table: (protocol, streaming)."""


@dataclass(frozen=True)
class Retried:
    """Asked again: cured where the next answer is good; if none of three is, the end that resume may cure."""

    says: str


@dataclass(frozen=True)
class Refused:
    """Never asked again: the end that needs a change, and says which."""

    says: str


@dataclass(frozen=True)
class Replied:
    """A reply after all, after so many requests."""

    finish_reason: str
    requests: int = 1


Outcome = Retried | Refused | Replied
INVALID = Retried(r"sent an invalid reply \(.+: .+\)")
SILENT = Retried("sent nothing new for 0.4 s.* check the endpoint, then resume")
Row = tuple[Scripted, dict[tuple[str, bool], Outcome]]


def everywhere(outcome: Outcome) -> dict[tuple[str, bool], Outcome]:
    return dict.fromkeys(ALL, outcome)


def by_protocol(json: Outcome, native: Outcome) -> dict[tuple[str, bool], Outcome]:
    return {(protocol, streaming): json if protocol == "json" else native for protocol, streaming in ALL}


def tool_calls(**fields: Any) -> Malformed:
    """A message with one tool call that has these fields."""
    return Malformed.message(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}} | fields])


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


MALFORMED: dict[str, Malformed] = {
    "a number": Malformed(5),
    "a list": Malformed([]),
    "a string": Malformed("choices"),
    "nothing": Malformed(None),
    "choices: an object": Malformed({"choices": {"0": {}}}),
    "choices: a string": Malformed({"choices": "stop"}),
    "choices: [5]": Malformed({"choices": [5]}),
    "a message that is text": Malformed({"choices": [{"delta": "hi", "message": "hi"}]}),
    "a message that is a list": Malformed({"choices": [{"delta": ["hi"], "message": ["hi"]}]}),
    "content: 5": Malformed.message(content=5),
    "content: a part without text": Malformed.message(content=[{"type": "text", "text": 5}]),
    "refusal: []": Malformed.message(refusal=["no"]),
    "tool_calls: an object": Malformed.message(tool_calls={"0": {}}),
    "tool_calls: a string": Malformed.message(tool_calls="f"),
    "tool_calls: [5]": Malformed.message(tool_calls=[5]),
    "a call's function: text": tool_calls(function="f"),
    "a call's function: []": tool_calls(function=[]),
    "a call's name: 5": tool_calls(function={"name": 5, "arguments": "{}"}),
    "a call's name: {}": tool_calls(function={"name": {"f": 1}, "arguments": "{}"}),
    "nested 400 deep": Malformed({"choices": nested(400)}),
}

TABLE: dict[str, Row] = {
    **{
        f"Malformed, {name}": (fault, everywhere(Retried("sent an invalid reply"))) for name, fault in MALFORMED.items()
    },
    "Endless, empty deltas": (Endless.delta(content=""), everywhere(SILENT)),
    "Endless, roles": (Endless.delta(role="assistant"), everywhere(SILENT)),
    "Endless, empty arguments": (
        Endless.delta(tool_calls=[{"index": 0, "function": {"arguments": ""}}]),
        everywhere(SILENT),
    ),
    "Endless, no choices": (Endless({"choices": []}), everywhere(SILENT)),
    "Status 400": (Status(400), everywhere(Refused("refused the request .scripted status 400.: change what it names"))),
    "Status 401": (Status(401), everywhere(Refused("check OPENAI_API_KEY"))),
    "Status 403": (Status(403), everywhere(Refused("check OPENAI_API_KEY"))),
    "Status 404": (Status(404), everywhere(Refused("check the model's name and base_url"))),
    "Status 408": (Status(408), everywhere(Retried("answered 408 .* wait a moment, then resume"))),
    "Status 409": (Status(409), everywhere(Retried("answered 409"))),
    "Status 422": (Status(422), everywhere(Refused("refused the request"))),
    "Status 429": (Status(429), everywhere(Retried("answered 429"))),
    "Status 500": (Status(500), everywhere(Retried("answered 500"))),
    "Status 502, a page": (Status(502, body="<html>nginx</html>"), everywhere(Retried("answered 502 .a web page."))),
    "Status 503": (Status(503), everywhere(Retried("answered 503"))),
    "Status 429, no credit": (
        Status(429, body={"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}),
        everywhere(Refused("has no credit left .You exceeded your quota.: top up the account")),
    ),
    "Status 422, the request repeated": (
        Status(422, body={"detail": [{"msg": "invalid", "input": "insufficient funds, says the safety system"}]}),
        everywhere(Refused("refused the request .invalid")),
    ),
    "Status 400, too long": (
        Status(400, body={"error": {"message": "maximum context length is 8192 tokens (300 in functions)"}}),
        everywhere(Refused("lower the agent's budget.prompt_tokens")),
    ),
    "Hang": (Hang(5), everywhere(SILENT)),
    "Hang, dropped": (Hang(0), everywhere(Retried("closed the connection"))),
    "Stall": (Stall(5), everywhere(SILENT)),
    "CutStream": (CutStream(), everywhere(Retried("did not finish its reply"))),
    "CleanEof": (
        CleanEof(),
        {
            (protocol, streaming): Retried("ended its reply without a finish_reason") if streaming else Replied("stop")
            for protocol, streaming in ALL
        },
    ),
    "EmptyChoices": (EmptyChoices(), everywhere(Retried("answered without choices"))),
    "Html": (Html(), everywhere(Retried("answered with text/html where a reply should be.* check base_url"))),
    "BadJson": (BadJson(), everywhere(Retried("not valid JSON"))),
    "BadJson, nested": (BadJson("[" * 100_000), everywhere(Retried("not valid JSON"))),
    "ErrorFrame": (ErrorFrame(), everywhere(Retried("did not finish its reply .scripted error frame."))),
    "Refusal": (Refusal("I will not"), everywhere(Refused("declined to answer .I will not.: rephrase"))),
    "Text, filtered": (Text("x", "content_filter"), everywhere(Refused("stopped its reply at its content filter"))),
    "LengthCut": (LengthCut('{"a":'), everywhere(Replied("length"))),
    "RefuseResponseFormat": (
        RefuseResponseFormat(("json_schema", "json_object")),
        by_protocol(json=Replied("stop", requests=3), native=Replied("stop")),
    ),
    "RefuseTools": (
        RefuseTools(),
        by_protocol(json=Replied("stop"), native=Refused('tools are not supported .*: .*set protocol="json"')),
    ),
}

TWO = (("json", True), ("native", False))
"""The cells of a fault that comes to the same everywhere."""
CELLS = [
    pytest.param(fault, PROTOCOLS[protocol], streaming, outcomes[protocol, streaming], id=f"{name}-{protocol}-{form}")
    for name, (fault, outcomes) in TABLE.items()
    for protocol, streaming in (TWO if len({id(outcome) for outcome in outcomes.values()}) == 1 else ALL)
    for form in ["stream" if streaming else "whole"]
]


def test_the_table_has_no_hole() -> None:
    """A class of the script that is neither a plain reply nor its vocabulary is a fault, and stands in the table."""
    plain = {"Text", "Deltas", "ToolCalls", "Gate", "Call", "Item", "SignalLike", "Rule", "Message"}
    plain |= {"Demand"}  # what endpoints require: see `test_habits.py`
    own = [kind for _, kind in inspect.getmembers(loopback_script, inspect.isclass)]
    faults = {kind.__name__ for kind in own if kind.__module__ == loopback_script.__name__} - plain
    assert faults == {type(fault).__name__ for fault, _ in TABLE.values()} - plain
    assert all(set(outcomes) == set(ALL) for _, outcomes in TABLE.values())


@pytest.mark.parametrize(("fault", "request_", "streaming", "outcome"), CELLS)
async def test_a_fault(fault: Any, request_: ModelRequest, streaming: bool, outcome: Outcome) -> None:
    if isinstance(outcome, Retried):
        lost = await retried(fault, request_, streaming, silent=outcome is SILENT)
    elif isinstance(outcome, Refused):
        lost = await ask([fault], request_, streaming)
        assert isinstance(lost.error, ModelRefused)
        assert len(lost.sent) == 1 and lost.retries == []
    else:
        rest = [Text("ok")] if isinstance(fault, RefuseResponseFormat | RefuseTools) else []
        log = await ask([fault, *rest], request_, streaming)
        assert log.reply.finish_reason == outcome.finish_reason
        assert len(log.sent) == outcome.requests and log.retries == []
        return
    with pytest.raises(type(lost.error), match=outcome.says):
        raise lost.error
    assert str(lost.error).startswith('The model "openai:m" at http://127.0.0.1:')
    assert str(lost.error).endswith(".") and ": " in str(lost.error)


async def retried(fault: Any, request: ModelRequest, streaming: bool, silent: bool) -> CallLog:
    """What comes of three faults in a row, after it was seen that a good reply cures one."""
    async with LoopbackServer([fault, Text("good"), fault, fault, fault]) as server:
        cured = await record(model_at(server, streaming, read_timeout=2 if silent else 10), request)
        lost = await record(model_at(server, streaming, read_timeout=0.4 if silent else 10), request)
        server.assert_spent()
    assert cured.reply.text == "good" and len(cured.retries) == 1
    assert isinstance(lost.error, ModelUnreachable) and [retry.seconds for retry in lost.retries] == [1.0, 2.0]
    return lost


both_forms = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])


@both_forms
async def test_token_counts_are_clamped(streaming: bool) -> None:
    log = await ask([Text("a", usage={"prompt_tokens": 10**30, "completion_tokens": -5})], PROSE, streaming)
    assert log.reply.usage == {"input": 10**9, "output": 0}


async def test_a_retry_comes_between_what_is_to_be_discarded_and_the_new_attempt() -> None:
    log = await ask([CutStream(text="one two three four"), Text("anew")], PROSE)
    assert [type(piece).__name__ for piece in log.pieces] == [
        "TextDelta", "TextDelta", "Retry", "TextDelta", "ModelReply",
    ]  # fmt: skip
    (retry,) = log.retries
    assert (retry.attempt, retry.seconds) == (2, 1.0)
    assert "did not finish its reply" in str(retry.reason)
    assert log.reply.text == "anew"


@both_forms
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": formatdate(NOW + 42, usegmt=True)}, 42.0),
        ({"Retry-After": formatdate(NOW - 42, usegmt=True)}, 0.0),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Retry-After": "60"}, 60.0),
        ({"Retry-After": "soon"}, 1.0),
        ({}, 1.0),
    ],
)
async def test_retry_after_is_kept_to(headers: dict[str, str], seconds: float, streaming: bool) -> None:
    log = await ask([Status(429, headers=headers), Text("ok")], PROSE, streaming)
    assert log.reply.text == "ok"
    assert log.slept == [log.retries[0].seconds] == [seconds]


async def test_a_retry_after_beyond_the_limit_ends_the_call_with_the_time_to_resume() -> None:
    log = await ask([Status(503, headers={"Retry-After": "600"})], PROSE)
    assert isinstance(log.error, ModelUnreachable)
    assert "accepts no request until 2023-11-14 22:23:20 UTC; resume then" in str(log.error)
    assert log.slept == [] and log.retries == []


async def test_an_error_frame_with_a_status_of_its_own_is_taken_at_its_word() -> None:
    class RateLimited(ErrorFrame):
        def play(self, wire: Any) -> None:
            wire.json({"error": {"message": "slow down", "code": 429}})

    class Rejected(ErrorFrame):
        def play(self, wire: Any) -> None:
            wire.json({"error": {"message": "no such key", "code": "401"}})

    log = await ask([RateLimited(), Rejected()], PROSE, streaming=False)
    assert "answered 429 (slow down)" in str(log.retries[0].reason)
    assert isinstance(log.error, ModelRefused) and "rejected the key (no such key)" in str(log.error)


@both_forms
@pytest.mark.parametrize(
    "text",
    [f"Incorrect API key provided: {KEY}.", "Header was Authorization: Bearer abcdef-xyz", "bad key sk-proj-abcdef123"],
)
@pytest.mark.parametrize("code", [400, 401, 503])
async def test_no_key_gets_into_an_error(text: str, code: int, streaming: bool) -> None:
    times = 3 if code == 503 else 1
    log = await ask([Status(code, body={"error": {"message": text}})] * times, JSON, streaming)
    assert log.error is not None
    assert log.error.__cause__ is None and log.error.__context__ is None
    for said in [str(log.error), *(str(retry.reason) for retry in log.retries)]:
        assert "***" in said
        assert not any(secret in said for secret in (KEY, "abcdef"))


@both_forms
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_cut_arguments_are_handed_on_as_cut(protocol: str, streaming: bool) -> None:
    log = await ask([ToolCalls([("c1", "add", '{"amount": 10')])], PROTOCOLS[protocol], streaming)
    (call,) = log.reply.tool_calls
    assert (call.id, call.name, call.arguments) == ("c1", "add", '{"amount": 10')
