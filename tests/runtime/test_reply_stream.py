"""The parts of a reply, from the events of its task."""

from collections.abc import Sequence
from typing import Any

import pytest

from segue.core.events import (
    AttemptRestarted,
    Event,
    Fallback,
    ModelCalled,
    Phase,
    RecursionStart,
    Resumed,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
)
from segue.runtime.reply_stream import (
    Added,
    CallClosed,
    CallOpened,
    Closed,
    Completed,
    Discarded,
    Ended,
    Kind,
    Opened,
    ReplyStream,
    RoundOpened,
)

ONE: dict[str, Any] = {"task_id": "t", "trace_id": "r1"}
TWO: dict[str, Any] = {"task_id": "t", "trace_id": "r2"}
SAID = "Let me see."
ANSWER = f"{SAID}\n\nIt is blue."
CALL = ToolCall(index=0, name="look", arguments={}, **ONE)
RESULT = ToolResult(index=0, name="look", arguments={}, result={"success": 1}, **ONE)
RESTARTED = AttemptRestarted(attempt=2, reason="cut", **TWO)


def called(**ids: Any) -> ModelCalled:
    reply = {"text": SAID, "streamed": True}
    return ModelCalled(purpose="react", model="m", input=1, output=1, seconds=0, reply=reply, **{**ONE, **ids})


def tokens(text: str, ids: dict[str, Any]) -> list[Event]:
    return [Token(content=text[:3], **ids), Token(content=text[3:], **ids)]


CALLED = [called(), CALL, RESULT]
STREAMED = [*tokens(SAID, ONE), Token(content="\n\n", **ONE)]
REPLIES: dict[str, tuple[Sequence[Event], str, str]] = {
    "all of it streamed": ([*STREAMED, *CALLED, *tokens("It is blue.", TWO)], ANSWER, ANSWER),
    "all of it stored": (CALLED, ANSWER, ANSWER),
    "the end of a text lost": ([Token(content="Let ", **ONE), *CALLED, *tokens("It is", TWO)], ANSWER, ANSWER),
    "followed from the middle": ([*CALLED, Token(task_id="t", content=f"{SAID}\n\nIt is")], ANSWER, ANSWER),
    "another attempt after a text before calls": (
        [*STREAMED, *CALLED, *tokens("It may", TWO), RESTARTED, *tokens("It is blue.", TWO)],
        ANSWER,
        f"{SAID}\n\nIt may|It is blue.",
    ),
    "an attempt that had streamed nothing": ([*STREAMED, *CALLED, RESTARTED], ANSWER, ANSWER),
    "another mode": (
        [*STREAMED, *CALLED, Fallback(task_id="t", from_mode="react", to_mode="direct", reason="")],
        "It is blue.",
        f"{SAID}\n\n|It is blue.",
    ),
    "a crash": (
        [*tokens("It may", ONE), Resumed(task_id="t"), *tokens("It is blue.", ONE)],
        "It is blue.",
        "It may|It is blue.",
    ),
    "a text that a part of a task said": ([called(step_id="1"), called(parent_id="r")], "It is blue.", "It is blue."),
    "another answer than was streamed": (tokens("It may", ONE), "It is blue.", "It may|It is blue."),
    "no answer": (tokens("It may", ONE), "", "It may"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_the_pieces_of_a_text_make_its_answer(name: str) -> None:
    events, answer, expected = REPLIES[name]
    reply = ReplyStream()
    parts = [*(part for event in events for part in reply.of(event)), *reply.end(answer)]
    shown = ["|" if part == Discarded() else part.text for part in parts if isinstance(part, Added | Discarded)]
    assert "".join(shown) == expected
    assert reply.text == expected.rpartition("|")[2] or answer == ANSWER == reply.text


def test_texts_before_calls_of_an_earlier_reply_are_no_part_of_this_one() -> None:
    reply = ReplyStream()
    reply.recall(CALLED)
    assert [*reply.of(Token(task_id="t", content=f"{SAID}\n\nIt is"))][1:] == [Added(Kind.TEXT, "It is")]
    assert [*reply.end(ANSWER)] == [Added(Kind.TEXT, " blue."), Closed(Kind.TEXT), Ended("It is blue.")]


def test_a_thought_is_completed_once_whether_it_was_streamed_or_not() -> None:
    reply, ids = ReplyStream(), {"task_id": "t", "trace_id": "r1"}
    thinking = [Thinking(content="Hm", **ids), Thinking(content=", so.", **ids), Thought(text="Hm, so.", **ids)]
    parts = [part for event in thinking for part in reply.of(event)]
    thought = Kind.THOUGHT
    assert parts == [Opened(thought), Added(thought, "Hm"), Added(thought, ", so."), Completed(thought, "Hm, so.")]
    assert [*reply.of(Thought(text="Hm, so.", **ids))] == []
    assert [*reply.of(Thought(text="Yes.", **TWO))] == [Completed(thought, "Yes.")]


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
        Completed(Kind.THOUGHT, "Hm."),
        Closed(Kind.THOUGHT),
        Opened(Kind.TEXT),
        Added(Kind.TEXT, "It"),
        Closed(Kind.TEXT),
        CallOpened(CALL),
        CallClosed(RESULT),
    ]
