"""The trace of a task as a tree."""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from rich.console import Console

from segue.cli.views.lines import SIGNS, notice_lines
from segue.cli.views.tables import when
from segue.cli.views.task import trace_tree
from segue.core.events import (
    Action,
    Answer,
    ApprovalGiven,
    ApprovalRequested,
    Cancelled,
    ErrorRaised,
    Event,
    Fallback,
    ModeSelected,
    Observe,
    Paused,
    PlanUpdate,
    Recovered,
    RecursionStart,
    Resumed,
    Steered,
    StepUpdate,
    Thought,
    ToolCall,
    ToolResult,
)
from segue.core.records import Call, Task, TaskTrace
from segue.core.task import TaskStatus
from segue.prompts.catalogue import language_of
from segue.runtime.reply import Projection

TASK: dict[str, Any] = {"task_id": "t"}
ROUND: dict[str, Any] = {"task_id": "t", "trace_id": "abcdef0123456789", "iteration": 1}
ROW = Task(
    task_id="t",
    session_id="s1",
    agent_id="travel",
    user_id="default",
    mode="auto",
    model="",
    status=TaskStatus.DONE,
    message="[red]hello[/red]",
    error=None,
    result=None,
    created_at=0.0,
    updated_at=0.0,
    requested=None,
    notes=[],
    answer=None,
    rating=None,
    copy_of=None,
    on_upgrade=None,
    offered_version=None,
    due=None,
    awaited=None,
    decisions=None,
)


def call(
    name: str, state: Literal["running", "done"], outcome: dict[str, Any] | None, orphaned: Literal[0, 1] = 0
) -> Call:
    ended = 1.5 if outcome else None
    return Call(
        session_id="s1",
        task_id="t",
        name=name,
        arguments={"n": 1},
        state=state,
        outcome=outcome,
        scope="1#1",
        idx=0,
        fence=1,
        started_at=1.0,
        finished_at=ended,
        orphaned=orphaned,
    )


def drawn(events: list[Event], calls: Sequence[Call] = (), *, interrupted: bool = False, **row: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    trace = TaskTrace(replace(ROW, **row), events, [*calls])
    console.print(trace_tree(trace, language=language_of(trace.task.message), interrupted=interrupted))
    assert isinstance(console.file, io.StringIO)
    return [line.strip(" │├└─") for line in console.file.getvalue().splitlines()]


def test_a_round_holds_what_was_seen_thought_and_done() -> None:
    shown = drawn(
        [
            ModeSelected(mode="react", reason="picked", **TASK),
            RecursionStart(max_iteration=30, **ROUND),
            Observe(text="first", **ROUND),
            Thought(text="look", **ROUND),
            Action(action_type="CALL_TOOL", output={}, **ROUND),
            ToolCall(index=0, name="look", arguments={"n": 1}, **ROUND),
            ToolResult(index=0, name="look", arguments={"n": 1}, result={"error": "dark"}, seconds=0.5, **ROUND),
            ErrorRaised(message="odd", **ROUND),
            Answer(answer="done", **ROUND),
        ]
    )
    assert shown[:2] == ["task t  done", "[red]hello[/red]"]
    assert shown[3:] == [
        "mode react (auto)",
        "round 1  trace abcdef01",
        "observe: first",
        "thought: look",
        "action: CALL_TOOL",
        "✗ look(n=1)  0.50 s",
        "dark",
        "error: odd",
        "answer: done",
    ]


def test_a_result_that_is_wrapped_is_indented_throughout() -> None:
    console = Console(file=io.StringIO(), width=40, color_system=None)
    result = ToolResult(index=0, name="look", arguments={}, result={"success": "light " * 20}, **TASK)
    console.print(trace_tree(TaskTrace(ROW, [result], []), language="en"))
    assert isinstance(console.file, io.StringIO)
    further = [line for line in console.file.getvalue().splitlines() if "light" in line]
    assert len(further) > 3 and {line.index("light") for line in further} == {8}


def test_a_plan_holds_its_steps_with_their_calls_and_last_status() -> None:
    steps = [{"step_id": "1", "description": "Look", "status": "pending"}]
    shown = drawn(
        [
            ModeSelected(mode="plan", reason="asked for", **TASK),
            PlanUpdate(goal="see", steps=steps, **TASK),
            StepUpdate(step_id="1", status=TaskStatus.RUNNING, **TASK),
            ToolCall(step_id="1", index=0, name="look", arguments={}, **TASK),
            Paused(reason="asked", **TASK),
            Resumed(**TASK),
            ToolResult(step_id="1", index=0, name="look", arguments={}, result={"success": "light"}, **TASK),
            StepUpdate(step_id="1", status="done", **TASK),
            Fallback(from_mode="plan", to_mode="react", reason="lost", **TASK),
        ]
    )
    assert shown[3:] == [
        "mode plan",
        "plan: see",
        "☑ 1 Look",
        "paused: asked",
        "resumed",
        "✓ look()  0.00 s",
        "light",
        "plan failed, falling back to react: lost",
        "mode react",
    ]


LOST = {"error": "unknown_outcome: it was under way when its process stopped.", "unknown_outcome": True}
UNKNOWN = "It may or may not have taken effect, and was not run again. Check before you repeat it."


def test_the_ledger_says_which_calls_ended_and_how() -> None:
    calls = [
        call("good", "done", {"success": "yes"}),
        call("bad", "done", {"error": "no"}),
        call("lost", "done", LOST),
        call("cut", "running", None, orphaned=1),
    ]
    shown = drawn([], calls, status="error", error="gone")
    assert shown[3:] == [
        "ledger: 4 calls",
        "✓ good(n=1)  done  0.50 s  1#1 #0",
        "yes",
        "✗ bad(n=1)  done  0.50 s  1#1 #0",
        "no",
        "? lost(n=1)  outcome unknown  1#1 #0",
        UNKNOWN,
        LOST["error"],
        "? cut(n=1)  started, outcome unknown  1#1 #0  from before the session was recovered",
        UNKNOWN,
        "error: gone",
    ]


def test_a_call_of_a_task_that_runs_is_under_way() -> None:
    shown = drawn([], [call("cut", "running", None)], status=TaskStatus.RUNNING)
    assert shown[4:] == ["→ cut(n=1)  running  1#1 #0"]


ASKED = [
    {"index": 0, "name": "refund", "arguments": {"amount": 50}},
    {"index": 1, "name": "mail", "arguments": {}},
    {"index": 2, "name": "close", "arguments": {}},
]
DECIDED = [
    {"index": 0, "verdict": "edit", "arguments": {"amount": 5}, "original": {"amount": 50}},
    {"index": 1, "verdict": "reject", "reason": "too late"},
    {"index": 2, "verdict": "approve"},
]
BY_PEOPLE: list[Event] = [
    ModeSelected(mode="react", reason="asked for", **TASK),
    Steered(message="cheaply,\nplease", **TASK),
    ApprovalRequested(interrupt_id="i", calls=ASKED, **TASK),
    ApprovalGiven(verdicts=DECIDED, **TASK),
    ToolResult(index=3, name="lost", arguments={}, result=LOST, **TASK),
    Recovered(checkpoint_id="c1", reason="it is no checkpoint", **TASK),
    Cancelled(partial="half an answer", **TASK),
]


def test_what_people_did_to_the_task_is_shown() -> None:
    assert drawn(BY_PEOPLE)[3:] == [
        "mode react",
        "added: cheaply, please",
        "approval requested",
        "→ refund(amount=50)",
        "→ mail()",
        "→ close()",
        "approval given",
        "✓ edited refund(amount=5)  instead of (amount=50)",
        "✗ rejected mail()  too late",
        "✓ approved close()",
        "? lost()",
        LOST["error"],
        "went back to an older snapshot: it is no checkpoint  (c1)",
        "cancelled",
        "written so far: half an answer",
    ]


def test_a_trace_is_labelled_in_the_language_of_the_terminal() -> None:
    rounds: list[Event] = [
        RecursionStart(max_iteration=30, **ROUND),
        Observe(text="…", **ROUND),
        Thought(text="…", **ROUND),
        Action(action_type="…", output={}, **ROUND),
        ToolCall(index=5, name="…", arguments={}, **ROUND),
        ErrorRaised(message="…", **ROUND),
        Paused(reason="…", **TASK),
        Resumed(**TASK),
        Answer(answer="…", **ROUND),
    ]
    shown = drawn([*BY_PEOPLE, *rounds], [call("close", "running", None)], message="退款")
    assert shown[0] == "任务 t  已完成"
    assert shown[2].startswith("会话 s1  智能体 travel  用户 default  模式 auto")
    assert shown[3:] == [
        "模式 react",
        "补充：cheaply, please",
        "请求批准",
        "→ refund(amount=50)",
        "→ mail()",
        "→ close()",
        "批准结果",
        "✓ 已修改 refund(amount=5)  原参数（amount=50）",
        "✗ 已拒绝 mail()  too late",
        "✓ 已批准 close()",
        "? lost()",
        "unknown_outcome: it was under way when its process stopped.",
        "已恢复到较早的快照：it is no checkpoint  (c1)",
        "已取消",
        "已写出的部分：half an answer",
        "第 1 轮  追踪 abcdef01",
        "观察：…",
        "思考：…",
        "行动：…",
        "错误：…",
        "已暂停：…",
        "已继续",
        "回答：…",
        "☐ …()  未开始",
        "调用账本：1 次调用",
        "? close(n=1)  已开始，结果不明  1#1 #0",
        "无法确定它是否已经生效，也没有再次执行：请先核实，再决定是否重做。",
    ]


def at(seconds: float, **ids: Any) -> dict[str, Any]:
    return {"task_id": "t", "timestamp": seconds, **ids}


BATCH: list[Event] = [
    ModeSelected(mode="react", reason="asked for", **at(1)),
    RecursionStart(max_iteration=30, **at(1, trace_id="r1", iteration=1)),
    *(ToolCall(index=index, name=name, arguments={}, **at(2, trace_id="r1")) for index, name in enumerate("abc")),
]


def ledger_of(name: str, index: int, began: float, ended: float | None) -> Call:
    known = call(name, "running", None) if ended is None else call(name, "done", {"success": name})
    return replace(known, arguments={}, scope="r1", idx=index, started_at=began, finished_at=ended)


def test_what_was_cut_off_stands_before_the_pause_and_what_was_not_begun_after_it() -> None:
    ended = {"result": {"success": "x"}, "arguments": {}}
    paused: list[Event] = [
        *BATCH,
        ToolResult(index=0, name="a", **ended, seconds=1.0, **at(4, trace_id="r1"), scope="r1"),
        Paused(reason="stopped at once", **at(5)),
    ]
    calls = [ledger_of("a", 0, 3.0, 3.5), ledger_of("b", 1, 4.5, None)]
    before = ["✓ a()  1.00 s", "x", "→ b()", "paused: stopped at once"]
    shown = drawn(paused, calls, status="paused")
    assert shown[5 : shown.index("ledger: 2 calls")] == [*before, "☐ c()  not started"]
    resumed: list[Event] = [
        *paused,
        Resumed(**at(105)),
        ToolResult(index=1, name="b", **ended, seconds=0.25, **at(106, trace_id="r1"), scope="r1"),
        ToolResult(index=2, name="c", **ended, seconds=0.5, **at(107, trace_id="r1"), scope="r1"),
        RecursionStart(max_iteration=30, **at(108, trace_id="r2", iteration=2)),
    ]
    calls = [calls[0], ledger_of("b", 1, 4.5, 105.9), ledger_of("c", 2, 106.5, 107.0)]
    shown = drawn(resumed, calls)
    after = ["resumed", "✓ b()  0.25 s", "x", "✓ c()  0.50 s", "x", "round 2  trace r2"]
    assert shown[5:] == [
        *before,
        *after,
        "ledger: 3 calls",
        *("✓ a()  done  0.50 s  r1 #0", "a"),
        *("✓ b()  done, run again  0.25 s  r1 #1", "b"),
        *("✓ c()  done  0.50 s  r1 #2", "c"),
    ]


def test_an_approval_stands_before_the_calls_that_it_allowed() -> None:
    asked = [{"index": 0, "name": "a", "arguments": {"n": 1}}]
    shown = drawn(
        [
            *BATCH[:3],
            ApprovalRequested(interrupt_id="i", calls=asked, **at(3)),
            Resumed(**at(100)),
            ApprovalGiven(verdicts=[{"index": 0, "verdict": "approve"}], **at(101, trace_id="r1")),
            ToolResult(index=0, name="a", arguments={}, result={"success": "x"}, **at(103, trace_id="r1")),
            RecursionStart(max_iteration=30, **at(104, trace_id="r2", iteration=2)),
        ],
        [ledger_of("a", 0, 102.0, 102.5)],
    )
    assert shown[4 : shown.index("ledger: 1 call")] == [
        "round 1  trace r1",
        *("approval requested", "→ a(n=1)", "resumed", "approval given", "✓ approved a(n=1)", "✓ a()  0.00 s", "x"),
        "round 2  trace r2",
    ]


def test_who_decided_is_a_person_a_key_or_what_took_its_place() -> None:
    actors = ("http", "key:ann@acme", "terminal:bob", "python", "operator", "segue")
    given = [{"index": 2, "verdict": "approve", "by": [{"by": actor, "at": 0} for actor in actors]}]
    events: list[Event] = [
        ApprovalRequested(interrupt_id="i", calls=ASKED, **TASK),
        ApprovalGiven(verdicts=given, **TASK),
    ]
    (line,) = [line for line in drawn(events) if "approved" in line]
    at = when(0)
    assert line == (
        f"✓ approved close()  {at}, by ann {at}, by bob {at}, by a program {at}, by the agents file {at}, "
        f"by a deadline {at}"
    )


def test_what_several_steps_ask_for_stands_in_each_of_them() -> None:
    steps = [{"step_id": step, "description": f"Do {step}", "status": "pending"} for step in "12"]
    asked = [{"index": int(step), "name": "a", "arguments": {}, "step_id": step} for step in "12"]
    given = [{"index": 1, "verdict": "approve"}, {"index": 2, "verdict": "reject"}]
    shown = drawn(
        [
            ModeSelected(mode="plan", reason="asked for", **TASK),
            PlanUpdate(goal="do", steps=steps, **TASK),
            ApprovalRequested(interrupt_id="i", calls=asked, **TASK),
            ApprovalGiven(verdicts=given, **TASK),
            Answer(answer="done", **TASK),
        ]
    )
    assert shown[4:] == [
        "plan: do",
        *("☐ 1 Do 1", "approval requested", "→ a()", "approval given", "✓ approved a()"),
        *("☐ 2 Do 2", "approval requested", "→ a()", "approval given", "✗ rejected a()"),
        "answer: done",
    ]


def test_a_task_whose_process_is_gone_is_not_drawn_as_running() -> None:
    shown = drawn([], [call("cut", "running", None)], status=TaskStatus.RUNNING, interrupted=True)
    assert shown[0] == "task t  running (interrupted)"
    assert shown[4] == "? cut(n=1)  started, outcome unknown  1#1 #0"


def test_rounds_stand_in_their_subtask_and_a_call_of_unknown_outcome_leaves_it_unticked() -> None:
    steps = [{"step_id": key, "description": name, "status": "pending"} for key, name in (("1", "Look"), ("2", "Pay"))]
    rounds: list[Event] = []
    for key, name, result in (("1", "look", {"success": "light"}), ("2", "pay", LOST)):
        here: dict[str, Any] = {"task_id": "t", "trace_id": f"{key * 8}0", "iteration": 1, "step_id": key}
        rounds += [
            RecursionStart(max_iteration=30, **here),
            ToolResult(index=0, name=name, arguments={}, result=result, **here),
            StepUpdate(step_id=key, status="done", **TASK),
        ]
    mode = ModeSelected(mode="lifecycle", reason="asked for", **TASK)
    shown = drawn([mode, PlanUpdate(goal="see", steps=steps, **TASK), *rounds])
    assert shown[4:] == [
        "plan: see",
        "☑ 1 Look",
        "round 1  trace 11111111",
        "✓ look()  0.00 s",
        "light",
        "? 2 Pay",
        "round 1  trace 22222222",
        "? pay()",
        LOST["error"],
    ]


def test_an_action_and_its_calls_name_the_plans_step() -> None:
    step = {**ROUND, "step_id": "2"}
    lines = drawn(
        [
            RecursionStart(**ROUND, max_iteration=30),
            Action(**step, action_type="CALL_TOOL", output={}),
            ToolCall(**step, index=0, name="add", arguments={}),
            ToolResult(**step, index=0, name="add", arguments={}, result={"success": 3}, seconds=0.5),
        ]
    )
    assert "action: CALL_TOOL step 2" in lines
    assert any(line.endswith("add()  0.50 s  step 2") for line in lines)


@pytest.mark.parametrize(
    ("language", "in_tree", "in_view"),
    [
        ("en", "resumed with a changed agent", "The agent has changed"),
        ("zh", "已用更改后的智能体继续", "智能体自任务开始以来已更改"),
    ],
)
def test_a_task_that_goes_on_with_a_changed_agent_says_so(language: str, in_tree: str, in_view: str) -> None:
    changed = Resumed(agent_changed=True, **TASK)
    assert in_tree in drawn([changed], message="退款" if language == "zh" else "refund")
    (line,) = notice_lines(changed, Projection(), SIGNS, language)
    assert line.plain.startswith(in_view)
    assert notice_lines(Resumed(**TASK), Projection(), SIGNS, language) == []
