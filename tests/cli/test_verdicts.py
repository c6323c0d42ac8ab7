"""The options of `segue answer` as one verdict for each call."""

from typing import Any

import pytest

from segue.cli.verdicts import Decisions, answer_of, with_bare_approvals
from segue.core.errors import InvalidAnswer

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
