"""The parts of a reply, from the events of its task."""

import json
import subprocess
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from segue.core.events import (
    ApprovalRequested,
    ErrorRaised,
    ModelCalled,
    Phase,
    QuestionAnswered,
    QuestionAsked,
    RecursionStart,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    from_dict,
)
from segue.runtime.reply import (
    Added,
    CallClosed,
    CallOpened,
    HumanAnswer,
    Kind,
    Opened,
    Part,
    Question,
    ReplyDone,
    ReplyStream,
    RoundOpened,
    TextDone,
    TextDropped,
    TextPaused,
)
from tests.node import WEB, command

ONE: dict[str, Any] = {"task_id": "t", "trace_id": "r1"}
TWO: dict[str, Any] = {"task_id": "t", "trace_id": "r2"}
SAID = "Let me see."
ANSWER = f"{SAID}\n\nIt is blue."
CALL = ToolCall(index=0, name="look", arguments={}, **ONE)
RESULT = ToolResult(index=0, name="look", arguments={}, result={"success": 1}, **ONE)


def called(**ids: Any) -> ModelCalled:
    reply = {"text": SAID, "streamed": True}
    return ModelCalled(purpose="react", model="m", input=1, output=1, seconds=0, reply=reply, **{**ONE, **ids})


CALLED = [called(), CALL, RESULT]
SEQUENCES = Path(__file__).with_name("replies.json")
REPLIES: dict[str, Any] = {each["name"]: each for each in json.loads(SEQUENCES.read_text(encoding="utf-8"))}
"""Sequences of events, with the text after them, and what the pieces show of it. The page's fold reads them as well."""


@pytest.mark.parametrize("name", REPLIES)
def test_the_pieces_of_a_text_make_its_answer(name: str) -> None:
    told = REPLIES[name]
    events = [from_dict({**form, "data": form}) for form in told["events"] if form["type"] != "joined"]
    reply = ReplyStream()
    parts = [part for event in events for part in reply.of(event)]
    assert reply.text == told["text"]
    parts += reply.end(told["answer"])
    text = ["|" if part == TextDropped() else part.text for part in parts if _shows(part, Kind.TEXT)]
    assert "".join(text) == told["shown"]
    thoughts = ["|" if isinstance(part, Opened) else part.text for part in parts if _shows(part, Kind.THOUGHT)]
    assert "".join(thoughts).split("|")[1:] == told["thoughts"]
    calls = [part.call.name for part in parts if isinstance(part, CallOpened)]
    results = [part.result.result for part in parts if isinstance(part, CallClosed)]
    assert [*zip_longest(calls, results)] == [*map(tuple, told["calls"])]
    plan = [[item.step_id, item.description, item.status, item.note] for item in reply.task.plan.values()]
    assert plan == told.get("plan", [])
    asked, answers = (part.asked for part in parts if isinstance(part, Question)), map(_given, reply.task.answers)
    assert [*zip_longest(map(_asked, asked), answers)] == [*map(tuple, told.get("exchanges", []))]
    assert [change.new for change in reply.task.statuses] == [told[name] for name in ("status",) if name in told]
    errors = [part.message for part in parts if isinstance(part, ErrorRaised) and part.final]
    assert errors == [told[name] for name in ("error",) if name in told]


def _asked(asked: ApprovalRequested | QuestionAsked) -> str:
    return asked.question if isinstance(asked, QuestionAsked) else ", ".join(call["name"] for call in asked.calls)


def _given(answered: HumanAnswer) -> str:
    given = answered.given
    return given.answer if isinstance(given, QuestionAnswered) else ", ".join(v["verdict"] for v in given.verdicts)


def _shows(part: Part, kind: Kind) -> bool:
    """Whether the part adds to what there is of that kind, begins a thought, or takes text back."""
    if kind is Kind.TEXT and part == TextDropped():
        return True
    return isinstance(part, Added | (Opened if kind is Kind.THOUGHT else Added)) and part.kind is kind


@pytest.mark.slow
def test_the_page_folds_the_same_sequences() -> None:
    done = subprocess.run(command(str(WEB / "fold.mjs"), str(SEQUENCES)), check=False, capture_output=True, text=True)
    assert done.stdout == f"{len(REPLIES)} sequences\n", done.stderr


def test_texts_before_calls_of_an_earlier_reply_are_no_part_of_this_one() -> None:
    reply = ReplyStream()
    reply.recall(CALLED)
    assert [*reply.of(Token(task_id="t", content=f"{SAID}\n\nIt is"))][1:] == [Added(Kind.TEXT, "It is")]
    assert [*reply.end(ANSWER)] == [Added(Kind.TEXT, " blue."), TextPaused(Kind.TEXT), ReplyDone("It is blue.")]


def test_a_thought_is_completed_once_whether_it_was_streamed_or_not() -> None:
    reply, ids = ReplyStream(), {"task_id": "t", "trace_id": "r1"}
    thinking = [Thinking(content="Hm", **ids), Thinking(content=", so.", **ids), Thought(text="Hm, so.", **ids)]
    parts = [part for event in thinking for part in reply.of(event)]
    thought = Kind.THOUGHT
    assert parts == [Opened(thought), Added(thought, "Hm"), Added(thought, ", so."), TextDone(thought, "Hm, so.")]
    assert [*reply.of(Thought(text="Hm, so.", **ids))] == []
    assert [*reply.of(Thought(text="Yes.", **TWO))] == [TextDone(thought, "Yes.")]


def test_one_thing_is_open_at_a_time() -> None:
    reply = ReplyStream({"client"})
    banner = Phase(task_id="t", content="[round 1]\n")
    events = [
        RecursionStart(max_iteration=3, iteration=1, **ONE),
        Thinking(content="Hm.", **ONE),
        banner,
        Token(content="It", **ONE),
        ToolCall(index=1, name="client", arguments={}, **ONE),
        CALL,
        RESULT,
    ]
    assert [part for event in events for part in reply.of(event)] == [
        RoundOpened(1),
        Opened(Kind.THOUGHT),
        Added(Kind.THOUGHT, "Hm."),
        banner,
        TextDone(Kind.THOUGHT, "Hm."),
        TextPaused(Kind.THOUGHT),
        Opened(Kind.TEXT),
        Added(Kind.TEXT, "It"),
        TextPaused(Kind.TEXT),
        CallOpened(CALL),
        CallClosed(RESULT),
    ]
