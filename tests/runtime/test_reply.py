"""The reply: one projection of a task's events, and the parts of its stream."""

import json
import subprocess
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from segue.core.events import (
    Action,
    ApprovalRequested,
    ErrorRaised,
    Event,
    Fallback,
    Lifecycle,
    ModelCalled,
    Observe,
    Phase,
    PlanUpdate,
    QuestionAnswered,
    QuestionAsked,
    RecursionStart,
    Resumed,
    StateChanged,
    StepUpdate,
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
    project,
)
from tests.node import WEB, command

ROUND = {"task_id": "t", "trace_id": "r1", "iteration": 1}
LOOKUP = {"index": 0, "name": "lookup", "arguments": {"city": "Beijing"}}


def step(step_id: str, status: str = "pending", **fields: object) -> dict[str, object]:
    return {"step_id": step_id, "description": f"step {step_id}", "status": status, **fields}


def update(step_id: str, status: str, at: float, note: str = "") -> StepUpdate:
    return StepUpdate(task_id="t", step_id=step_id, status=status, note=note, timestamp=at)


def result(step_id: str, **outcome: object) -> ToolResult:
    return ToolResult(task_id="t", step_id=step_id, **LOOKUP, result=outcome)


def test_a_round_holds_what_was_seen_thought_decided_and_done() -> None:
    made, ended = ToolCall(**ROUND, **LOOKUP), ToolResult(**ROUND, **LOOKUP, result={"success": 1}, seconds=0.5)
    decided = Action(**ROUND, action_type="CALL_TOOL", output={"tool_calls": []})
    events: list[Event] = [
        RecursionStart(**ROUND, max_iteration=3),
        Thinking(**ROUND, content="streamed"),
        Observe(**ROUND, text="the first round"),
        Thought(**ROUND, text="look it up"),
        decided,
        made,
        ended,
        ErrorRaised(**ROUND, message="slow"),
        RecursionStart(task_id="t", trace_id="r2", iteration=2, max_iteration=3),
    ]
    first, second = project(events).rounds.values()
    assert (first.iteration, first.observe, first.thought, first.action) == (
        1,
        "the first round",
        "look it up",
        decided,
    )
    assert (first.calls, first.results, first.errors) == ([made], [ended], ["slow"])
    assert (second.trace_id, second.iteration, second.calls) == ("r2", 2, [])


def test_a_call_is_running_until_its_result() -> None:
    call = ToolCall(task_id="t", step_id="1", **LOOKUP)
    assert list(project([call]).running.values()) == [call]
    assert project([call, result("1", success=1)]).running == {}


def test_usage_adds_up_and_has_a_cost_only_where_that_of_each_call_is_known() -> None:
    call = ModelCalled(task_id="t", purpose="decide", model="m", input=10, output=2, seconds=1)
    assert project([call, call]).usage.as_dict() == {"input": 20, "output": 4, "calls": 2, "cost": None}
    priced = ModelCalled(task_id="t", purpose="decide", model="m", input=1, output=1, seconds=1, cost=0.5)
    assert project([call, priced]).usage.cost is project([priced, call]).usage.cost is None
    assert project([priced, priced]).usage.as_dict() == {"input": 2, "output": 2, "calls": 2, "cost": 1.0}


def test_the_plan_is_the_newest_one_and_its_finished_steps_keep_their_calls() -> None:
    first = PlanUpdate(task_id="t", goal="trip", steps=[step("1"), step("2")])
    again = PlanUpdate(
        task_id="t", goal="short trip", steps=[step("1", "done"), step("3", priority=2, phase="planning")]
    )
    done = update("1", "done", 5)
    found = project([first, result("1", success=1), done, again, update("3", "error", 6, "no such city")])
    assert found.goal == "short trip"
    assert [(item.step_id, len(item.calls), item.priority) for item in found.plan.values()] == [
        ("1", 1, None),
        ("3", 0, 2),
    ]
    assert found.plan["3"].as_dict() == step("3", "error", priority=2, phase="planning", note="no such city")
    told = Lifecycle(task_id="t", event_type="TASK_COMPLETED", details={"task_id": "3", "result": "seen"})
    assert project([again, told]).plan["3"].result == "seen"
    assert project([first, Fallback(task_id="t", from_mode="plan", to_mode="react", reason="unreadable")]).plan == {}


def test_a_step_with_an_unknown_outcome_is_marked_until_it_is_planned_again() -> None:
    plan = PlanUpdate(task_id="t", goal="g", steps=[step("1")])
    unsure = [plan, result("1", error="the process ended", unknown_outcome=True)]
    assert project(unsure).plan["1"].unknown_outcome
    assert not project([*unsure, plan]).plan["1"].unknown_outcome


def test_a_step_is_timed_only_while_somebody_works_on_it() -> None:
    plan = PlanUpdate(task_id="t", goal="g", steps=[step("1")])
    paused = StateChanged(task_id="t", old="pausing", new="paused", timestamp=3)
    again = StateChanged(task_id="t", old="paused", new="running", timestamp=10)
    stood = project([plan, update("1", "running", 1), paused])
    assert stood.plan["1"].seconds(9) == 2
    went_on = project([plan, update("1", "running", 1), paused, again, update("1", "done", 11)])
    assert went_on.plan["1"].seconds(20) == 3
    assert [change.new for change in went_on.statuses] == ["paused", "running"]
    crashed = project([plan, update("1", "running", 1), Resumed(task_id="t", timestamp=50), update("1", "done", 51)])
    assert crashed.plan["1"].seconds(60) == 1


def test_what_a_person_was_last_asked_replaces_what_was_asked_before() -> None:
    asked = [ApprovalRequested(task_id="t", interrupt_id=str(n), calls=[{"index": n, "name": "pay"}]) for n in (0, 1)]
    assert project(asked).asked == {1: {"index": 1, "name": "pay"}}


# The parts of a reply, from the events of its task.


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
