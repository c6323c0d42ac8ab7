"""Who may approve calls, and what their decisions come to."""

from typing import Any

import pytest

from segue.core.actor import Actor, person
from segue.core.approval import Approvals, ApprovalTerms, decided_by, refusal
from segue.core.errors import ConfigurationError, InvalidAnswer, NotAnApprover
from tests.cases import cases

FINANCE = Actor("ann", frozenset({"finance"}))


def call(index: int = 0, **terms: Any) -> dict[str, Any]:
    return {"index": index, "name": "pay", "arguments": {"amount": 1}, **terms}


def said(by: str, verdict: str = "approve", **more: Any) -> dict[str, Any]:
    return {"index": 0, "verdict": verdict, "by": by, "at": 1.0, "shown": "d", **more}


@cases(
    "name, whose",
    [("key:ann@acme", "ann"), ("key:acme", "acme"), ("terminal:ann", "ann"), ("ann", "ann"), ("http", "http")],
)
def test_a_person_is_the_same_through_every_door(name: str, whose: str) -> None:
    assert person(name) == whose


@cases("wrong", [{"approvers": ("a b",)}, {"approvers": ("",)}, {"approvals": 0}, {"approvals": 10}])
def test_terms_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ApprovalTerms(**wrong)


def test_an_edit_needs_everybody_elses_approval_and_a_rejection_is_final() -> None:
    two = call(approvals=2)
    assert Approvals.of(two, []).missing == 2
    assert Approvals.of(two, [said("key:ann@acme"), said("terminal:ann")]).missing == 1
    assert Approvals.of(two, [said("ann"), said("bob")]).missing == 0
    assert Approvals.of(two, [said("key:segue")]).missing == Approvals.of(two, [said("terminal:segue")]).missing == 1
    edited = Approvals.of(two, [said("ann"), said("bob", "edit", arguments={"amount": 2})])
    assert (edited.missing, edited.arguments, edited.persons) == (1, {"amount": 2}, {"bob"})
    shown = edited.question
    assert (shown["arguments"], shown["original"]) == ({"amount": 2}, {"amount": 1})
    done = Approvals.of(two, [said("bob", "edit", arguments={"amount": 2}), said("ann")])
    assert (done.missing, done.verdict["verdict"], done.verdict["arguments"]) == (0, "edit", {"amount": 2})
    assert [each["by"] for each in done.verdict["by"]] == ["bob", "ann"]
    rejected = Approvals.of(two, [said("ann"), said("bob", "reject", reason="no")])
    assert (rejected.missing, rejected.verdict["verdict"], rejected.verdict["reason"]) == (0, "reject", "no")
    assert [each["by"] for each in rejected.verdict["by"]] == ["bob"]


@cases(
    "terms, who, verdict, refused",
    [
        ({}, Actor("eve", frozenset()), "approve", ""),
        ({"approvers": ["finance", "ops"]}, FINANCE, "approve", ""),
        ({"approvers": ["ops"]}, FINANCE, "approve", "the role ops"),
        ({"approvers": ["ops"]}, FINANCE, "reject", "the role ops"),
        ({"approvers": ["ops"]}, Actor("python"), "approve", ""),
        ({"not_by_asker": True}, Actor("key:max@acme"), "approve", "requested by"),
        ({"not_by_asker": True}, Actor("terminal:max"), "edit", "requested by"),
        ({"not_by_asker": True}, Actor("key:max@acme"), "reject", ""),
        ({"not_by_asker": True}, Actor("key:uma@acme"), "approve", "requested by"),
        ({"not_by_asker": True}, FINANCE, "approve", ""),
        ({"approved_by": [{"by": "key:ann@acme"}]}, FINANCE, "approve", "already"),
        ({"approved_by": [{"by": "key:ann@acme"}]}, FINANCE, "reject", ""),
    ],
)
def test_who_may_decide(terms: dict[str, Any], who: Actor, verdict: str, refused: str) -> None:
    error = refusal(call(**terms), verdict, who, ["key:max@acme"], "acme:uma")
    assert refused in str(error) if refused else error is None


def test_a_word_is_for_the_calls_that_somebody_may_decide_about_and_a_name_is_checked() -> None:
    calls = [call(0, approvers=["ops"]), call(1, approvers=["finance"])]

    def refuse(each: Any, verdict: str) -> NotAnApprover | None:
        return refusal(each, verdict, FINANCE, [], "default")

    one = {"index": 1, "verdict": "approve"}
    assert decided_by(calls, "approve", refuse) == decided_by(calls, {"verdicts": [one]}, refuse) == [calls[1]]
    with pytest.raises(NotAnApprover, match=r"Call 0 \(pay\) needs the role ops, which ann does not have"):
        decided_by(calls, {"verdicts": [{**one, "index": 0}, one]}, refuse)
    with pytest.raises(NotAnApprover):
        decided_by(calls[:1], "approve", refuse)
    with pytest.raises(InvalidAnswer):
        decided_by(calls, "perhaps", refuse)
