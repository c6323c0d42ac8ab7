"""What a person is asked about calls, and what is typed as the answer."""

import io
import os
import pty
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from segue.cli.approval import MOST, Questioner, print_question
from segue.cli.hints import answer_hints
from segue.cli.settings import Settings
from segue.cli.verdicts import Decisions, answer_of, with_bare_approvals
from segue.core.errors import InvalidAnswer
from tests.cases import cases

CALLS: list[dict[str, Any]] = [
    {"index": 0, "name": "refund", "arguments": {"amount": 50}},
    {"index": 2, "name": "mail", "arguments": {"to": "ann"}},
    {"index": 3, "name": "close", "arguments": {}},
]
APPROVED: list[dict[str, Any]] = [{"index": call["index"], "verdict": "approve"} for call in CALLS]


def typing(*lines: str) -> Callable[[str], str]:
    """Somebody who types these lines, and then Ctrl-D."""
    left: Iterator[str] = iter(lines)

    def read(_: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return read


def ask(
    *lines: str,
    calls: list[dict[str, Any]] = CALLS,
    language: str = "en",
    environ: dict[str, str] | None = None,
    **more: Any,
) -> tuple[Any, str]:
    """What was decided, and what was shown."""
    console = Console(file=io.StringIO(), width=100, color_system=None)
    questioner = Questioner(console, language, typing(*lines), environ or {})
    answer = questioner.ask({"kind": "approval", "calls": calls, **more})
    assert isinstance(console.file, io.StringIO)
    return answer and answer["verdicts"], console.file.getvalue()


def test_each_call_is_shown_and_gets_its_verdict() -> None:
    verdicts, shown = ask("a", "r", " too dear ", "e", '{"now": true}')
    assert verdicts == [
        {"index": 0, "verdict": "approve"},
        {"index": 2, "verdict": "reject", "reason": "too dear"},
        {"index": 3, "verdict": "edit", "arguments": {"now": True}},
    ]
    assert shown.splitlines()[1] == "3 calls are waiting for your approval:"
    for text in ("1/3 refund", "amount  50", "2/3 mail", 'to  "ann"', "3/3 close", "(no arguments)"):
        assert text in shown


def test_a_capital_a_approves_all_the_rest() -> None:
    assert ask("A")[0] == APPROVED
    assert ask("r", "", "A")[0] == [{"index": 0, "verdict": "reject", "reason": ""}, *APPROVED[1:]]


def test_a_call_is_rejected_with_its_reason_in_one_line() -> None:
    assert ask("r too dear", calls=CALLS[:1])[0] == [{"index": 0, "verdict": "reject", "reason": "too dear"}]


def test_what_is_no_verdict_is_asked_again() -> None:
    assert ask("", "yes", "approve", calls=CALLS[:1])[0] == APPROVED[:1]


def test_an_edit_that_is_left_empty_or_unchanged_is_none() -> None:
    verdicts, shown = ask("e", "", "e", '{"amount": 50}', "a", calls=CALLS[:1])
    assert verdicts == APPROVED[:1]
    assert shown.count("The arguments are unchanged.") == 2
    assert "参数没有改动。" in ask("e", "", "a", calls=CALLS[:1], language="zh")[1]


@pytest.mark.parametrize("wrong", ["{", "[]", '"text"', "5", "null", "true", '{"amount": NaN}'])
def test_what_is_no_object_is_written_again(wrong: str) -> None:
    verdicts, shown = ask("e", wrong, '{"amount": 5}', calls=CALLS[:1])
    assert verdicts == [{"index": 0, "verdict": "edit", "arguments": {"amount": 5}}]
    assert "That is not a JSON object (" in shown


@pytest.mark.parametrize("typed", [(), ("a",), ("a", "e"), ("a", "r")])
def test_who_leaves_in_the_middle_has_decided_nothing(typed: tuple[str, ...]) -> None:
    assert ask(*typed)[0] is None


def test_an_editor_that_cannot_be_run_is_said_and_a_line_is_asked_for(tmp_path: Path) -> None:
    environ = {"EDITOR": str(tmp_path / "none")}
    verdicts, shown = ask("e", '{"amount": 5}', calls=CALLS[:1], environ=environ)
    assert verdicts == [{"index": 0, "verdict": "edit", "arguments": {"amount": 5}}]
    assert "cannot be used" in shown


def test_an_editor_that_changes_nothing_leaves_the_call_as_it_was() -> None:
    assert ask("e", "a", calls=CALLS[:1], environ={"VISUAL": "true", "EDITOR": "false"})[0] == APPROVED[:1]


def test_nothing_of_a_call_is_hidden_from_the_eye() -> None:
    nasty = "[red]pay\u202e\u200b 5\x1b[2J[/red]"
    call = {"index": 0, "name": nasty, "arguments": {nasty: nasty, "list": [nasty], "text": f"a\n{nasty}"}}
    for shown in (ask("a", calls=[call])[1], printed({"kind": "approval", "calls": [call]})):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert shown.count("[red]pay\\u202e\\u200b 5\\u001b[2J[/red]") == 5


def printed(question: dict[str, Any], language: str = "en") -> str:
    console = Console(file=io.StringIO(), width=400, color_system=None)
    print_question(console, question, language)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_long_argument_is_cut_and_says_so() -> None:
    call = {"index": 0, "name": "mail", "arguments": {"text": "x" * (MOST + 98)}}
    assert "100 more characters" in " ".join(ask("a", calls=[call])[1].split())


def test_what_was_wrong_with_the_last_answer_and_what_may_have_happened_already_is_said() -> None:
    call = {**CALLS[0], "unknown_outcome": True}
    shown = ask("a", calls=[call], problem="call 0: amount is no number")[1]
    assert "call 0: amount is no number" in shown
    assert "may already have taken effect" in shown
    assert "请先核实" in printed({"kind": "approval", "calls": [call]}, "zh")


def test_where_the_values_come_from_is_said_and_why_a_person_is_asked() -> None:
    mail = {"kind": "tool", "name": "read_mail", "call": 3, "trusted": False}
    mine = {"kind": "user", "name": "", "call": 0, "trusted": True}
    sources = {"to": [mail], "amount": [mine], "text": [mine, mail, {**mail, "kind": "mcp", "call": 0}]}
    arguments = {"to": "eve", "amount": 5, "text": "Hi", "date": "today"}
    call = {"index": 0, "name": "pay", "arguments": arguments, "sources": sources, "reason": "values"}
    for shown in (ask("a", calls=[call])[1], printed({"kind": "approval", "calls": [call]})):
        said = " ".join(shown.replace("│", "").split())
        assert "eve" in said and "from the result of read_mail in call 3, not from you" in said
        assert "5 from you" in said
        assert "from you, and from the result of read_mail in call 3, an earlier result of read_mail" in said
        assert "Some values of this call come from untrusted text." in said
    assert "来自第 3 次调用 read_mail 的结果，并非来自你" in printed({"kind": "approval", "calls": [call]}, "zh")


def test_a_person_who_writes_chinese_is_asked_in_chinese() -> None:
    assert "有 3 个调用等待你批准" in ask("A", language="zh")[1]


@pytest.mark.parametrize(("key", "scope"), [("t", "task"), ("s", "session")])
def test_a_tool_is_allowed_always_and_its_other_calls_are_not_asked_about(key: str, scope: str) -> None:
    calls = [{**CALLS[0], "index": index} for index in range(3)]
    calls[2]["unknown_outcome"] = True
    verdicts, shown = ask(key, "r", "look first", calls=calls)
    assert verdicts == [
        {"index": 0, "verdict": "approve", "always": scope},
        {"index": 1, "verdict": "approve"},
        {"index": 2, "verdict": "reject", "reason": "look first"},
    ]
    assert "1 refund" not in shown


def test_a_call_without_arguments_is_not_allowed_always_with_any() -> None:
    assert ask("S", "T", "a", calls=CALLS[2:])[0] == APPROVED[2:]


def test_a_tool_is_allowed_always_only_with_these_arguments() -> None:
    calls = [{**CALLS[0], "index": index} for index in range(3)]
    calls[2]["arguments"] = {"amount": 99}
    verdicts, shown = ask("S", "a", calls=calls)
    assert verdicts == [
        {"index": 0, "verdict": "approve", "always": "session", "only": calls[0]["arguments"]},
        {"index": 1, "verdict": "approve"},
        {"index": 2, "verdict": "approve"},
    ]
    assert "1 refund" not in shown


@pytest.mark.parametrize("question", [{"kind": "approval", "calls": CALLS[:1]}, {"kind": "question", "question": "?"}])
def test_what_was_typed_before_the_question_is_no_answer(
    question: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    unread: list[bool] = []

    def read(_: str) -> str:
        unread.append(bool(select.select([sys.stdin], [], [], 0)[0]))
        return "a"

    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(ours, b"a\n")
        assert select.select([stdin], [], [], 5)[0]
        Questioner(Console(file=io.StringIO()), "en", read, {}).ask(question)
        monkeypatch.undo()
    os.close(ours)
    assert unread == [False]


def test_what_is_no_choice_is_named() -> None:
    verdicts, shown = ask("yes", "", "a", calls=CALLS[:1])
    assert verdicts == APPROVED[:1]
    assert shown.count("is not one of the choices.") == 1
    assert "'yes' is not one of the choices." in shown


FROM_MAIL = {
    "index": 0,
    "name": "mail",
    "arguments": {"to": "eve@evil.com"},
    "sources": {"to": [{"kind": "tool", "name": "read_mail", "call": 1, "trusted": False}]},
    "doubted": ["to"],
    "reason": "values",
}


def test_what_flows_from_a_source_into_an_argument_is_allowed_always() -> None:
    other = {**FROM_MAIL, "index": 1, "arguments": {"to": "bob@x.org"}}
    elsewhere = {**other, "index": 2, "sources": {"to": [{**FROM_MAIL["sources"]["to"][0], "name": "read_page"}]}}
    verdicts, _ = ask("f", "a", calls=[FROM_MAIL, other, elsewhere])
    assert verdicts == [
        {"index": 0, "verdict": "approve", "always": "session", "flow": True},
        {"index": 1, "verdict": "approve"},
        {"index": 2, "verdict": "approve"},
    ]
    assert ask("f", "a", calls=CALLS[:1])[0] == APPROVED[:1]  # nothing flows: it is no choice


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "f in this session, where values from results of read_mail go into to"),
        ("zh", "f 在本会话中，当来自read_mail 的结果的取值用于 to 时"),
    ],
)
def test_the_choice_names_the_flow(language: str, line: str) -> None:
    asked: list[str] = []

    def read(question: str) -> str:
        asked.append(question)
        return "a"

    console = Console(file=io.StringIO(), width=100, color_system=None)
    Questioner(console, language, read, {}).ask({"kind": "approval", "calls": [FROM_MAIL]})
    assert line in asked[0]


@pytest.mark.parametrize(("terms", "offered"), [({}, True), ({"approvals": 2}, False), ({"not_by_asker": True}, False)])
def test_what_its_tool_refuses_is_not_offered(terms: dict[str, Any], offered: bool) -> None:
    asked: list[str] = []
    left = iter(["s", "a"])

    def read(question: str) -> str:
        asked.append(question)
        return next(left)

    question = {"kind": "approval", "calls": [{**CALLS[0], **terms}]}
    given = Questioner(Console(file=io.StringIO()), "en", read, {}).ask(question)
    assert given and ("always" in given["verdicts"][0]) == ("always allow" in asked[0]) == offered
    hints = answer_hints(Settings(), "3f9c2a71", question)
    assert any("--always session" in hint for hint in hints) == offered


def test_a_graph_s_review_offers_what_the_graph_takes() -> None:
    calls = [
        {"index": 0, "name": "mail", "arguments": {"to": "ann"}, "decisions": ["approve", "respond"]},
        {"index": 1, "name": "pay", "arguments": {}, "decisions": ["respond"]},
    ]
    verdicts, shown = ask("r", "w", " sent by hand ", "a", "w", "", "w", "paid", calls=calls)
    assert verdicts == [
        {"index": 0, "verdict": "respond", "reason": "sent by hand"},
        {"index": 1, "verdict": "respond", "reason": "paid"},
    ]
    assert [line for line in shown.splitlines() if "'r'" in line or "'a'" in line] == [
        "'r' is not one of the choices. Ctrl-C leaves; the task keeps waiting.",
        "'a' is not one of the choices. Ctrl-C leaves; the task keeps waiting.",
    ]
    hints = "\n".join(answer_hints(Settings("segue.db"), "t1", {"kind": "approval", "calls": calls}))
    assert "--respond" in hints and "--reject" not in hints and "--always" not in hints


@cases("length, is_offered", [(10, True), (10_000, False)])
def test_a_plan_that_is_too_long_to_print_is_edited_in_the_terminal(length: int, is_offered: bool) -> None:
    plan = {"goal": "a trip", "steps": [{"step": "1", "action": "book", "params": {"city": "x" * length}}]}
    call = {"index": 0, "name": "review_plan", "arguments": plan, "decisions": ["approve", "edit", "reject"]}
    hints = answer_hints(Settings("segue.db"), "t1", {"kind": "approval", "calls": [call]})
    assert any("--edit" in hint for hint in hints) == is_offered
    assert any("--reject REASON" in hint for hint in hints)


# The options of `segue answer` as one verdict for each call.


ONE = [{"index": 3, "name": "refund", "arguments": {"amount": 50}}]
TWO = [{"index": 0, "name": "refund", "arguments": {}}, {"index": 1, "name": "mail", "arguments": {}}]
YES: dict[str, Any] = {"verdict": "approve"}


def no(reason: str = "") -> dict[str, Any]:
    return {"verdict": "reject", "reason": reason}


def verdicts(calls: list[dict[str, Any]], approve: tuple[str, ...] = (), **more: tuple[str, ...]) -> dict[int, Any]:
    given = answer_of(calls, Decisions(approve, more.get("edit", ()), more.get("reject", ())))["verdicts"]
    return {verdict.pop("index"): verdict for verdict in given}


@pytest.mark.parametrize("said", ["all", "", "0,1"])
def test_all_calls_are_approved(said: str) -> None:
    assert verdicts(TWO, (said,)) == {0: YES, 1: YES}


def test_what_is_said_of_all_calls_is_for_those_that_nothing_else_names() -> None:
    assert verdicts(TWO, ("all",), reject=("1=too dear",)) == {0: YES, 1: no("too dear")}
    assert verdicts(TWO, ("1",), reject=("never",)) == {0: no("never"), 1: YES}


def test_a_rejection_needs_no_reason() -> None:
    assert verdicts(ONE, reject=("",)) == {3: no()}
    assert verdicts(TWO, reject=("0", "1=")) == {0: no(), 1: no()}
    assert verdicts(TWO, reject=("all",)) == {0: no(), 1: no()}


def test_a_reason_may_hold_anything() -> None:
    assert verdicts(ONE, reject=("7",)) == {3: no("7")}, "there is no call 7, so it is a reason"
    assert verdicts(ONE, reject=("3=a=b\nc",)) == {3: no("a=b\nc")}
    assert verdicts(ONE, reject=("太贵",)) == {3: no("太贵")}


def test_edited_arguments_are_json_and_name_their_call_where_there_are_several() -> None:
    edited = {"verdict": "edit", "arguments": {"amount": 5, "to": {"a": [1]}}}
    assert verdicts(ONE, edit=('{"amount": 5, "to": {"a": [1]}}',)) == {3: edited}
    assert verdicts(TWO, ("0",), edit=('1={"amount": 5, "to": {"a": [1]}}',)) == {0: YES, 1: edited}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"approve": ("0",)}, "No decision on call 1 (mail): add --approve 1"),
        ({"approve": ("0", "0", "1")}, "Two options decide on call 0"),
        ({"approve": ("all",), "reject": ("no",)}, "Two options apply to all calls"),
        ({"approve": ("0,5",)}, "There is no call '5'; the calls are 0 (refund), 1 (mail)."),
        ({"approve": ("x",)}, "There is no call 'x'"),
        ({"reject": ("9=no",)}, "There is no call '9'"),
        ({"edit": ("{}",)}, "--edit {} names no call"),
        ({"edit": ("all={}",)}, "--edit applies to one call"),
        ({"edit": ("0=[1]",)}, "--edit 0=[1] is not a JSON object (it is a list)"),
        ({"edit": ("0={'a': 1}",)}, "--edit 0={'a': 1} is not a JSON object (Expecting property name"),
        (
            {"edit": ('0={"a": Infinity}',)},
            '--edit 0={"a": Infinity} is not a JSON object (Infinity is not valid JSON)',
        ),
    ],
)
def test_what_does_not_fit_is_said(given: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(InvalidAnswer) as refused:
        verdicts(TWO, **given)
    assert str(refused.value).startswith(said)


def test_an_approval_that_stands_alone_is_for_all_calls() -> None:
    assert with_bare_approvals(["t", "--approve"]) == ["t", "--approve", "all"]
    assert with_bare_approvals(["--approve", "1f2e3d", "--json"]) == ["--approve", "all", "1f2e3d", "--json"]
    assert with_bare_approvals(["--approve", "123456"]) == ["--approve", "all", "123456"], "so many calls there are not"
    assert with_bare_approvals(["t", "--approve", "0,1", "--approve", "--json"])[2:] == [
        "0,1",
        "--approve",
        "all",
        "--json",
    ]
    assert with_bare_approvals(["--", "--approve"]) == ["--", "--approve"]


@pytest.mark.parametrize("deep", ["[" * 5000 + "]" * 5000 + "}", "[" * 100 + "]" * 100 + "}"])
def test_arguments_that_are_nested_too_deeply_are_refused(deep: str) -> None:
    with pytest.raises(InvalidAnswer, match="more than 100 levels deep"):
        verdicts(ONE, edit=('{"a":' + deep,))


def test_always_is_for_what_is_approved_and_approves_what_no_option_names() -> None:
    always = {"verdict": "approve", "always": "task"}
    for decisions, expected in (
        (Decisions(always="task"), [always, always]),
        (Decisions(reject=("1=no",), always="task"), [always, no("no")]),
        (Decisions(approve=("0",), reject=("no",), always="task"), [always, no("no")]),
    ):
        given = answer_of(TWO, decisions)["verdicts"]
        assert given == [{"index": index, **verdict} for index, verdict in enumerate(expected)]


def test_a_flow_goes_with_each_approval() -> None:
    (given,) = answer_of(ONE, Decisions(always="session", flow=True))["verdicts"]
    assert given == {"index": given["index"], "verdict": "approve", "always": "session", "flow": True}


def test_only_names_values_and_what_they_begin_with() -> None:
    only = ("order_id=17", "note=sorry", "command=git *", "code=1e")
    (given,) = answer_of(ONE, Decisions(always="session", only=only))["verdicts"]
    assert given["only"] == {"order_id": 17, "note": "sorry", "command": {"prefix": "git "}, "code": "1e"}
    with pytest.raises(InvalidAnswer, match="has no value"):
        answer_of(ONE, Decisions(always="session", only=("order_id",)))
