"""What people see of a sequence of events."""

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rich.console import Console

from segue.cli.views.lines import SIGNS
from segue.cli.views.live import LiveProgress, LiveView, PlainView, subtask_table
from segue.cli.views.task import AnswerView, JsonView
from segue.core.calls import CallResult, CallStatus
from segue.core.events import (
    Action,
    Answer,
    ApprovalGiven,
    ApprovalRequested,
    AttemptRestarted,
    Cancelled,
    ErrorRaised,
    Event,
    Fallback,
    ModelCalled,
    ModeSelected,
    Observe,
    Phase,
    PlanUpdate,
    Recovered,
    RecursionStart,
    Steered,
    StepUpdate,
    TaskStarted,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Waiting,
)
from segue.prompts.catalogue import Language, language_of, task_text
from segue.runtime.reply import Projection
from tests.polling import wait_until

TASK: dict[str, Any] = {"task_id": "t"}
ROUND: dict[str, Any] = {"task_id": "t", "trace_id": "r1", "iteration": 1}

REACT: list[Event] = [
    TaskStarted(message="北京怎么样", agent_id="travel", model="m", **TASK),
    ModeSelected(mode="react", reason="picked", **TASK),
    Phase(content=task_text("react_plan", "zh"), **TASK),
    RecursionStart(max_iteration=30, **ROUND),
    Thinking(content="要查", **ROUND),
    Thinking(content="北京", **ROUND),
    Observe(text="这是第一轮执行。", **ROUND),
    Thought(text="要查北京", **ROUND),
    Action(action_type="CALL_TOOL", output={}, **ROUND),
    ToolCall(index=0, name="get_city_info", arguments={"city": "北京"}, **ROUND),
    ToolResult(
        index=0,
        name="get_city_info",
        arguments={"city": "北京"},
        result={"success": {"summary": "很好"}},
        seconds=0.5,
        **ROUND,
    ),
    Token(content="北京", **ROUND),
    Token(content="很好", **ROUND),
    Answer(answer="北京很好", **ROUND),
]


def step(step_id: str, description: str, status: str = "pending") -> dict[str, str]:
    return {"step_id": step_id, "description": description, "status": status}


PLAN: list[Event] = [
    TaskStarted(message="plan a trip", agent_id="travel", model="m", **TASK),
    ModeSelected(mode="plan", reason="asked for", **TASK),
    Phase(content=task_text("plan_1", "en"), **TASK),
    Phase(content=task_text("plan_made", "en", goal="a trip", n=3), **TASK),
    PlanUpdate(goal="a trip", steps=[step("1", "Look up"), step("2", "Reckon"), step("3", "Write")], **TASK),
    StepUpdate(step_id="1", status="running", description="Look up", **TASK),
    ToolCall(step_id="1", index=0, name="look_up", arguments={}, **TASK),
    Phase(
        step_id="1",
        content=task_text("plan_step", "en", phase=task_text("phase_execution", "en"), i=1, n=3, description="Look up"),
        **TASK,
    ),
    ToolResult(step_id="1", index=0, name="look_up", arguments={}, result={"success": "found"}, **TASK),
    StepUpdate(step_id="1", status="done", description="Look up", **TASK),
    StepUpdate(step_id="2", status="running", description="Reckon", **TASK),
    ToolCall(step_id="2", index=0, name="reckon", arguments={}, **TASK),
    Phase(
        step_id="2",
        content=task_text("plan_step", "en", phase=task_text("phase_execution", "en"), i=2, n=3, description="Reckon"),
        **TASK,
    ),
    ToolResult(step_id="2", index=0, name="reckon", arguments={}, result={"error": "no figures"}, **TASK),
    StepUpdate(step_id="2", status="error", description="Reckon", note="no figures", **TASK),
    Phase(content=task_text("plan_4", "en"), **TASK),
    Token(content="The trip.", **TASK),
    StepUpdate(step_id="3", status="done", description="Write", **TASK),
    Answer(answer="The trip.", **TASK),
]


def spoken(events: Sequence[Event]) -> Language:
    return language_of("".join(event.message for event in events if isinstance(event, TaskStarted)))


def plain(events: Sequence[Event], encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    view = PlainView(Console(file=file, width=400, highlight=False), spoken(events))
    for event in events:
        view.show(event)
    view.finish()
    file.flush()
    return raw.getvalue().decode(encoding)


def terminal(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


class Terminal(Console):
    """Keeps on paper what is printed for good, without what is only redrawn."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO(), force_terminal=True, width=80, height=24, color_system=None)
        self.paper = Console(file=io.StringIO(), width=80, color_system=None)

    def print(self, *objects: Any, **options: Any) -> None:
        self.paper.print(*objects, **options)
        super().print(*objects, **options)


def live(events: Sequence[Event]) -> str:
    """What stays above when a task is shown in a terminal."""
    console = Terminal()
    view = LiveView(console, spoken(events))
    for event in events:
        view.show(event)
    view.finish()
    assert "\x1b]0;" not in written(console), "a text could set the terminal's title"
    return written(console.paper)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_react_as_lines_shows_each_thing_once() -> None:
    shown = plain(REACT)
    assert shown.splitlines() == [
        "模式 react（自动选择）",
        "",
        "【阶段二：制定计划】",
        "要查北京",
        '  → get_city_info(city="北京")',
        '  ✓ get_city_info(city="北京")  0.50 秒',
        "    很好",
        "",
        "北京很好",
    ]


def test_the_phase_that_chooses_calls_keeps_them_in_a_terminal() -> None:
    started, mode, *_, call, result, _, _, answer = REACT
    chosen, running = (
        Phase(content=task_text("react_plan", "zh"), **TASK),
        Phase(content=task_text("react_step", "zh", n=1), **TASK),
    )
    shown = [line.strip() for line in live([started, mode, call, chosen, running, result, answer]).splitlines()]
    place = shown.index("【阶段二：制定计划】")
    assert shown[place + 1] == '→ get_city_info(city="北京")'
    assert "✓ get_city_info" in "".join(shown[shown.index("【执行阶段 - 步骤 1】") :])


def test_a_plan_as_lines_ticks_off() -> None:
    shown = plain(PLAN)
    assert [line.strip() for line in shown.splitlines() if line.strip()[:1] in "☐▶☑✗✓→" and line.strip()] == [
        "☐ 1 Look up",
        "☐ 2 Reckon",
        "☐ 3 Write",
        "▶ 1 Look up",
        "→ look_up()",
        "✓ look_up()  0.00 s",
        "☑ 1 Look up",
        "▶ 2 Reckon",
        "→ reckon()",
        "✗ reckon()  0.00 s",
        "✗ 2 Reckon  (no figures)",
        "☑ 3 Write",
    ]
    assert shown.count("phase 3") == 1, "a heading is not repeated for each step"
    assert "[1/3] Look up" in shown
    assert "[2/3] Reckon" in shown
    assert "━" not in shown
    assert shown.count("The trip.") == 1


def test_signs_suit_an_encoding_that_has_no_others() -> None:
    shown = plain(PLAN, "ascii")
    assert "[x] 1 Look up" in shown
    assert "FAILED reckon()" in shown
    assert "\\u" not in shown
    assert "\\u5317\\u4eac" in plain(REACT, "ascii"), "a character that it lacks stops nothing"


def test_a_plan_in_the_terminal_is_left_behind_once_with_its_calls() -> None:
    shown = [line.strip() for line in live(PLAN).splitlines() if line.strip()]
    assert shown == [
        "mode plan",
        "[Plan mode - phase 1: make a plan]",
        "Reading the task and writing a plan...",
        "[Plan mode] The plan is complete",
        "Goal: a trip",
        "3 steps",
        "[Plan mode - phase 3: run the tools]",
        "☑ 1 Look up",
        "✓ look_up()  0.00 s",
        "found",
        "✗ 2 Reckon  (no figures)",
        "✗ reckon()  0.00 s",
        "no figures",
        "☑ 3 Write",
        "[Plan mode - phase 4: write the answer]",
        "Combining the results...",
        "The trip.",
    ]


def test_what_is_added_while_a_call_runs_leaves_its_line() -> None:
    steered = [*REACT[:10], Steered(message="and its food", **TASK), *REACT[10:]]
    heading = Phase(content=task_text("react_step", "zh", n=1), **TASK)
    shown = live([*steered[:6], steered[9], REACT[2], *steered[10:11], heading, *steered[11:]])
    assert shown.index("→ get_city_info") < shown.index("and its food") < shown.index("✓ get_city_info")


def test_a_rejected_call_and_plan_are_told_once() -> None:
    rejected = {"index": 0, "verdict": "reject", "reason": "too late"}
    result = CallResult(status=CallStatus.REJECTED, error="It was rejected.").json()
    call: dict[str, Any] = {"index": 0, "name": "refund", "arguments": {}}
    asked = ApprovalRequested(calls=[call], interrupt_id="i", **TASK)
    given = ApprovalGiven(verdicts=[rejected], **TASK)
    events = [*PLAN[:2], asked, given, ToolResult(**call, result=result, seconds=0.0, **TASK)]
    for shown in (plain(events), live(events)):
        assert shown.count("refund") == 1 and "✗ rejected refund()  too late" in shown
    plan = {**call, "name": "review_plan", "arguments": {"goal": "a trip"}}
    review = ApprovalRequested(calls=[plan], interrupt_id="i", **TASK)
    assert "✗ rejected the plan  too late" in live([*PLAN[:2], review, given])


def frame(view: LiveView, width: int = 80, height: int = 24) -> str:
    """What is redrawn at this moment."""
    console = terminal(width, height)
    console.print(view.moving())
    return written(console)


def test_what_moves_is_the_plan_the_calls_and_the_answer_as_it_is_written() -> None:
    view = LiveView(terminal())
    try:
        for event in PLAN[:8]:
            view.show(event)
        shown = frame(view)
        assert "▶ 1 Look up" in shown
        assert "→ look_up()" in shown
        assert "☐ 3 Write" in shown
        assert "[1/3] Look up · 0/3" in shown
        view.notice("pausing…")
        assert "pausing…" in frame(view)
        for event in PLAN[8:17]:
            view.show(event)
        assert "The trip." in frame(view)
    finally:
        view.finish()


@pytest.mark.parametrize("kind", [LiveView, LiveProgress])
@pytest.mark.parametrize(("language", "took"), [("en", "0 s"), ("zh", "0 秒")])
def test_what_moves_says_how_long_it_takes_in_the_language_of_the_chat(
    kind: type[LiveView], language: Language, took: str
) -> None:
    view = kind(terminal(), language)
    try:
        assert took in frame(view)
    finally:
        view.finish()


def test_what_moves_never_grows_higher_than_the_terminal() -> None:
    view = LiveView(terminal(40, 12))
    try:
        view.show(PlanUpdate(goal="", steps=[step(str(n), f"step {n}") for n in range(20)], **TASK))
        view.show(StepUpdate(step_id="10", status="running", **TASK))
        for n in range(10):
            view.show(StepUpdate(step_id=str(n), status="done", **TASK))
        assert "▶ 10 step 10" in frame(view, 40, 12)
        view.show(Token(content="".join(f"- 第 {n} 行北京\n" for n in range(30)), **TASK))
        shown = frame(view, 40, 12)
        assert len(shown.splitlines()) <= 11
        assert "第 29 行北京" in shown
    finally:
        view.finish()


@pytest.mark.parametrize("shown_by", [plain, live])
def test_text_from_outside_is_neither_markup_nor_a_command_to_the_terminal(
    shown_by: Callable[[list[Event]], str],
) -> None:
    nasty = "[red]x[/red] [/] \x1b[2J\x1b]0;title\x07 [link=http://evil]y[/link]"
    events: list[Event] = [
        ModeSelected(mode=nasty, reason=nasty, **TASK),
        RecursionStart(max_iteration=30, **ROUND),
        Thought(text=nasty, **ROUND),
        PlanUpdate(goal=nasty, steps=[step("1", nasty, nasty)], **TASK),
        ToolCall(index=0, name=nasty, arguments={nasty: nasty}, **ROUND),
        ToolResult(index=0, name=nasty, arguments={nasty: nasty}, result={"success": nasty}, **ROUND),
        ToolResult(index=1, name=nasty, arguments={}, result={"error": nasty}, **ROUND),
        StepUpdate(step_id="1", status="error", description=nasty, note=nasty, **TASK),
        ErrorRaised(message=nasty, **TASK),
        Waiting(reason=nasty, **TASK),
        Steered(message=nasty, **TASK),
        ApprovalGiven(verdicts=[{"index": 0, "verdict": "reject", "reason": nasty}], **TASK),
        Recovered(checkpoint_id=nasty, reason=nasty, **TASK),
        Fallback(from_mode=nasty, to_mode=nasty, reason=nasty, **TASK),
        Token(content=nasty, **TASK),
        Answer(answer=f"{nasty} [a](http://evil)", **TASK),
    ]
    shown = shown_by(events)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.count("[red]x[/red]") >= len(events) - 1
    assert "http://evil" in shown


def test_what_was_streamed_is_discarded_when_a_mode_gives_up() -> None:
    events: list[Event] = [
        Token(content="half an ans", **TASK),
        Fallback(from_mode="direct", to_mode="react", reason="refused", **TASK),
        Token(content="whole", **TASK),
        Answer(answer="whole", **TASK),
    ]
    assert plain(events).splitlines() == [
        "",
        "half an ans",
        "(the answer above is discarded)",
        "direct failed, falling back to react: refused",
        "",
        "whole",
    ]
    assert "half an ans" not in live(events)
    assert "whole" in live(events)


def test_what_was_streamed_is_discarded_when_a_call_starts_again() -> None:
    events: list[Event] = [
        Token(content="half", **TASK),
        AttemptRestarted(attempt=2, reason="broke off", **TASK),
        Token(content="all of it", **TASK),
        Answer(answer="all of it", **TASK),
    ]
    assert "attempt 2" in plain(events)
    assert plain(events).count("all of it") == 1
    assert "half" not in live(events)


def test_a_mended_plan_leaves_the_old_one_behind() -> None:
    events: list[Event] = [
        *PLAN[:15],
        Phase(content=task_text("plan_again", "en", why="step 2 failed"), **TASK),
        PlanUpdate(goal="a trip", steps=[step("1", "Look up", "done"), step("4", "Guess")], **TASK),
        StepUpdate(step_id="4", status="done", description="Guess", **TASK),
        Answer(answer="Done.", **TASK),
    ]
    shown = [line.strip() for line in live(events).splitlines()]
    assert shown.index("✗ 2 Reckon  (no figures)") < shown.index("[Plan mode - phase 1: revise the plan]")
    assert shown.index("[Plan mode - phase 1: revise the plan]") < shown.index("☑ 4 Guess")


LOST = {"error": "unknown_outcome: it was under way.", "unknown_outcome": True}


@pytest.mark.parametrize("shown_by", [plain, live])
@pytest.mark.parametrize(("seconds", "took"), [(0.0, ""), (30.0, "30.00 s")])
def test_an_unknown_outcome_is_told_once_with_how_long_the_call_ran_where_that_is_known(
    shown_by: Callable[[list[Event]], str], seconds: float, took: str
) -> None:
    """That of a killed process ran for nobody knows how long; the task's end says what to do about it."""
    shown = shown_by(
        [
            TaskStarted(message="refund it", agent_id="a", model="m", **TASK),
            ToolResult(index=0, name="refund", arguments={"amount": 5}, result=LOST, seconds=seconds, **ROUND),
        ]
    )
    first, *rest = (line.strip() for line in shown.splitlines())
    assert first == f"? refund(amount=5)  {took}".strip()
    assert "unknown_outcome: it was under way." in rest
    assert "✗" not in shown and "taken effect" not in shown


def test_a_call_whose_outcome_is_unknown_is_told_apart_without_such_signs() -> None:
    shown = plain([ToolResult(index=0, name="refund", arguments={}, result=LOST, **ROUND)], "ascii")
    assert shown.startswith("  UNKNOWN refund()")


@pytest.mark.parametrize("shown_by", [plain, live])
def test_a_step_with_a_call_whose_outcome_is_unknown_is_not_ticked_off(shown_by: Callable[[list[Event]], str]) -> None:
    shown = shown_by(
        [
            PlanUpdate(goal="pay", steps=[step("1", "Pay")], **TASK),
            ToolResult(step_id="1", index=0, name="pay", arguments={}, result=LOST, **TASK),
            StepUpdate(step_id="1", status="done", **TASK),
            PlanUpdate(goal="pay", steps=[step("1", "Pay", "done"), step("2", "Tell")], **TASK),
        ]
    )
    assert "? 1 Pay" in shown
    assert "☑" not in shown


def test_a_subtask_with_a_call_whose_outcome_is_unknown_is_not_ticked_off_in_the_table() -> None:
    task = Projection()
    for event in (
        PlanUpdate(goal="pay", steps=[step("1", "Pay"), step("2", "Tell")], **TASK),
        ToolResult(step_id="1", index=0, name="pay", arguments={}, result=LOST, **ROUND),
        StepUpdate(step_id="1", status="done", **TASK),
        StepUpdate(step_id="2", status="done", **TASK),
    ):
        task.fold(event)
    console = terminal()
    console.print(subtask_table(task.plan.values(), SIGNS, "en", 0.0))
    assert "? done" in written(console)
    assert written(console).count("☑ done") == 1


@pytest.mark.parametrize("shown_by", [plain, live])
def test_what_people_did_to_the_task_is_shown(shown_by: Callable[[list[Event]], str]) -> None:
    calls = [{"index": 0, "name": "refund", "arguments": {"amount": 50}}, {"index": 1, "name": "mail", "arguments": {}}]
    edited = {"index": 0, "verdict": "edit", "arguments": {"amount": 5}, "original": {"amount": 50}}
    shown = shown_by(
        [
            Steered(message="cheaply", **TASK),
            ApprovalRequested(interrupt_id="i", calls=calls, **TASK),
            ApprovalGiven(verdicts=[edited, {"index": 1, "verdict": "approve"}], **TASK),
            Recovered(checkpoint_id="c", reason="damaged", **TASK),
        ]
    )
    assert [line.strip() for line in shown.strip().splitlines()] == [
        "added: cheaply",
        "✓ edited refund(amount=5)  instead of (amount=50)",
        "✓ approved mail()",
        "went back to an older snapshot: damaged",
    ]


@pytest.mark.parametrize("shown_by", [plain, live])
@pytest.mark.parametrize("streamed", ["half an ans", ""])
def test_what_was_written_before_it_was_cancelled_is_shown_once(
    shown_by: Callable[[list[Event]], str], streamed: str
) -> None:
    written: list[Event] = [Token(content=streamed, **TASK)] if streamed else []
    shown = shown_by([*written, Cancelled(partial="half an ans", **TASK)])
    assert shown.count("half an ans") == 1
    assert "Cancelled; the partial answer is kept." in shown
    assert "Cancelled." in shown_by([Cancelled(**TASK)])


def test_a_view_that_rests_leaves_what_is_asked_in_between_alone() -> None:
    console = terminal()
    view = LiveView(console)
    for event in PLAN[:8]:
        view.show(event)
    view.rest()
    assert "▶ 1 Look up" in written(console)
    console.print("approve?")
    for event in (Waiting(reason="the endpoint is busy", **TASK), *PLAN[8:]):
        view.show(event)
    view.finish()
    after = written(console).partition("approve?")[2]
    assert "☑ 1 Look up" in after
    assert "\x1b[1A" not in after[: after.index("▶")], "nothing above is erased"


def test_what_has_ended_is_not_drawn_once_more_as_moving() -> None:
    console = terminal()
    view = LiveView(console)
    for event in REACT[:-4]:
        view.show(event)
    wait_until(lambda: "→ get_city_info" in written(console))
    view.show(REACT[-4])
    assert "→ get_city_info" not in written(console).rpartition("✓ get_city_info")[2]
    view.finish()


def test_json_is_one_event_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonView()
    for event in REACT:
        view.show(event)
    written = capsys.readouterr().out
    assert [json.loads(line) for line in written.splitlines()] == [event.json() for event in REACT]
    assert written.isascii()


SAID = ModelCalled(
    purpose="decide", model="m", input=0, output=0, seconds=0, reply={"text": "I look.", "streamed": True}, **ROUND
)
LATER: dict[str, Any] = {**ROUND, "trace_id": "later"}
LOOKED: list[Event] = [
    SAID,
    ToolCall(index=0, name="look", arguments={}, **ROUND),
    ToolResult(index=0, name="look", arguments={}, result={"success": 1}, **ROUND),
]
BLUE: list[Event] = [Token(content="Blue.", **LATER), Answer(answer="I look.\n\nBlue.", **LATER)]
TEXT_BEFORE_CALLS: dict[str, list[Event]] = {
    "streamed": [Token(content="I look.\n\n", **ROUND), *LOOKED, *BLUE],
    "stored": [*LOOKED, BLUE[-1]],
    "followed by an answer that starts again": [
        *LOOKED,
        AttemptRestarted(attempt=2, reason="broke off", **LATER),
        *BLUE,
    ],
}


@pytest.mark.parametrize("name", TEXT_BEFORE_CALLS)
def test_a_text_before_calls_is_written_once_and_stays(name: str) -> None:
    shown = plain(TEXT_BEFORE_CALLS[name])
    assert [shown.count(text) for text in ("I look.", "→ look()", "Blue.")] == [1, 1, 1]
    assert shown.index("I look.") < shown.index("→ look()") < shown.index("Blue.")
    assert "discarded" not in shown
    assert live(TEXT_BEFORE_CALLS[name]).count("Blue.") == 1


@pytest.mark.parametrize(("events", "shown"), [(BLUE, "Blue."), (BLUE[1:], "I look.\n\nBlue.")])
def test_what_was_said_before_a_task_stopped_comes_only_with_an_answer_of_that_time(
    events: list[Event], shown: str
) -> None:
    file = io.StringIO()
    view = PlainView(Console(file=file, width=400))
    for event in LOOKED:
        view.recall(event)
    for event in events:
        view.show(event)
    view.finish()
    assert file.getvalue().strip() == shown


def test_beside_an_answer_on_its_own_no_text_of_it_is_shown() -> None:
    file = io.StringIO()
    view = AnswerView(PlainView(Console(file=file, width=400)), False, "en")
    for event in LOOKED:
        view.show(event)
    assert "I look." not in file.getvalue() and "look()" in file.getvalue()
