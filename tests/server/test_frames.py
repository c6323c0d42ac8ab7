"""Frames: small, one line of ASCII JSON, and nothing of a delta lost, whatever an event holds."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.core.events import TYPES, Action, Event, Thinking, Token, ToolResult, Waiting
from segue.server.errors import encoded, size
from segue.server.frames import MOST, FrameCache, done_frame, frames, position
from segue.server.tenants import Tenant

from .serving import read_frame

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
