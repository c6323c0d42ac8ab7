"""The numbers and texts of a response's stream, whatever was streamed before."""

from collections.abc import Sequence

import pytest

from segue.core.events import (
    AttemptRestarted,
    Event,
    ModelCalled,
    Resumed,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
)
from segue.server.openai_chat import RESTARTED
from segue.server.openai_responses.reply import Output
from segue.server.requests import Segment

from .records import stored_task
from .serving import Json

IDS: Json = {"task_id": "t", "trace_id": "r"}
LATER: Json = {"task_id": "t", "trace_id": "s"}
CALL: Json = {"index": 0, "name": "look", "arguments": {}}
SAID = ModelCalled(
    purpose="react", model="m", input=1, output=1, seconds=0, reply={"text": "Let me see.", "streamed": True}, **IDS
)
CALLED = [ToolCall(**CALL, **IDS), ToolResult(**CALL, result={"success": 1}, **IDS)]


def segment() -> Segment:
    return Segment(stored_task(), 0, {}, ())


def sent(events: Sequence[Event], answer: str, after: int = -1) -> tuple[list[Json], list[Json]]:
    """What is sent of these events and the answer, and the items."""
    output = Output(segment(), after)
    forms = [form for event in events for form in output.of(event)]
    return [*forms, *output.close(answer)], output.items


def tokens(text: str, ids: Json = IDS) -> list[Event]:
    return [Token(content=piece, **ids) for piece in (text[:3], text[3:])]


def deltas(forms: Sequence[Json]) -> str:
    return "".join(form["delta"] for form in forms if form["type"] == "response.output_text.delta")


def texts(items: Sequence[Json]) -> list[str]:
    return [item["content"][0]["text"] for item in items if item["type"] == "message"]


def numbered(forms: Sequence[Json]) -> list[tuple[int, str]]:
    return [(form["sequence_number"], form["type"]) for form in forms if form["type"] != "response.output_text.delta"]


LIVE: dict[str, tuple[Sequence[Event], Sequence[Event], str]] = {
    "an answer": (tokens("It is blue."), [], "It is blue."),
    "a thought and an answer": (
        [Thinking(content="Hm.", **IDS), *tokens("It is blue."), Thought(text="Hm.", **IDS)],
        [Thought(text="Hm.", **IDS)],
        "It is blue.",
    ),
    "a text before calls": (
        [*tokens("Let me see."), Token(content="\n\n", **IDS), SAID, *CALLED, *tokens("It is blue.", LATER)],
        [SAID, *CALLED],
        "Let me see.\n\nIt is blue.",
    ),
}
"""Live and stored events of the same response."""


@pytest.mark.parametrize("name", LIVE)
def test_live_and_stored_events_make_the_same_stream(name: str) -> None:
    live, stored, answer = LIVE[name]
    first, items = sent(live, answer)
    second, same = sent(stored, answer)
    assert numbered(first) == numbered(second) and items == same
    assert "\n\n".join(texts(items)) == answer
    numbers = [form["sequence_number"] for form in first]
    assert numbers == sorted(set(numbers))
    for place, number in enumerate(numbers):
        rest, _ = sent(stored, answer, number)
        assert (deltas(first[: place + 1]) + deltas(rest)).replace("\n\n", "") == "".join(texts(items))
        assert [form for form in numbered(first) if form[0] > number] == numbered(rest)


def test_a_text_that_is_written_again_follows_a_line() -> None:
    again = [*tokens("Wrong"), AttemptRestarted(attempt=2, reason="cut", **IDS), *tokens("Right.")]
    forms, items = sent(again, "Right.")
    assert deltas(forms) == f"Wrong{RESTARTED}Right." and texts(items) == ["Right."]


def test_a_text_of_before_a_crash_is_not_continued() -> None:
    before, _ = sent(tokens("Wrong"), "Wrong")
    last = [form for form in before if form["type"] == "response.output_text.delta"][-1]["sequence_number"]
    after: list[Event] = [Resumed(task_id="t"), *tokens("Right.")]
    rest, _ = sent(after, "Right.", last)
    assert deltas(rest) == f"{RESTARTED}Right."
    assert numbered(rest) == [form for form in numbered(sent(after, "Right.")[0]) if form[0] > last]


def test_what_was_streamed_before_comes_as_one_piece_without_what_was_said() -> None:
    joined: list[Event] = [SAID, *CALLED, Token(task_id="t", content="Let me see.\n\nIt is"), *tokens(" blue.", LATER)]
    forms, items = sent(joined, "Let me see.\n\nIt is blue.")
    assert deltas(forms) == "Let me see.\n\nIt is blue." and texts(items) == ["Let me see.", "It is blue."]


def test_an_answer_that_was_streamed_otherwise_is_sent_whole() -> None:
    forms, items = sent(tokens("It may be"), "It is blue.")
    assert deltas(forms) == f"It may be{RESTARTED}It is blue." and texts(items) == ["It is blue."]
