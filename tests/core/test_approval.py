"""Approval of calls: whether an answer fits the calls, who may approve, and which calls a rule allows."""

from typing import Any

import pytest
from pydantic import ValidationError

from segue.core.actor import Actor, person
from segue.core.approval import (
    ApprovalAnswer,
    Approvals,
    ApprovalTerms,
    PermissionRule,
    Verdict,
    decided_by,
    refusal,
    settled,
)
from segue.core.call_rules import AllowRule
from segue.core.errors import ConfigurationError, InvalidAnswer, NotAnApprover
from tests.cases import cases

CALLS = [
    {"index": 0, "name": "pay", "arguments": {"amount": 1}},
    {"index": 2, "name": "send", "arguments": {"to": "a"}},
]
APPROVED = (Verdict(index=0, verdict="approve"), Verdict(index=2, verdict="approve"))
FORMS = 'write {"verdicts": "approve" | "reject"}, or {"verdicts": [{'


def verdict(index: Any, kind: str = "approve", **more: Any) -> dict[str, Any]:
    return {"index": index, "verdict": kind, **more}


@cases(
    "answer",
    [
        {"verdicts": [verdict(2), verdict(0)]},
        [verdict(0), verdict(2)],
        (verdict(0), verdict(2)),
        ApprovalAnswer(verdicts=APPROVED),
        "approve",
        {"verdicts": "approve"},
        " Approve\n",
        '[{"index": 0, "verdict": "approve"}, {"index": 2, "verdict": "approve"}]',
        [verdict(0, reason=None, arguments=None), verdict(2, name="send", arguments={"to": "a"})],
    ],
)
def test_every_form_of_a_whole_answer_is_taken_in_the_order_of_the_calls(answer: Any) -> None:
    found = settled(CALLS, answer)
    assert [(v.index, v.verdict) for v in found] == [(0, "approve"), (2, "approve")]


def test_reject_rejects_all() -> None:
    assert [v.verdict for v in settled(CALLS, "reject")] == ["reject", "reject"]


def test_an_edit_and_a_rejection_keep_what_the_person_said() -> None:
    edited, rejected = settled(CALLS, [verdict(2, "reject", reason="no"), verdict(0, "edit", arguments={"amount": 2})])
    assert (edited.arguments, rejected.reason) == ({"amount": 2}, "no")


FITTING = verdict(2)


@cases(
    "answer, said",
    [
        ([verdict(0)], "call 2 (send) has no verdict"),
        ([], "call 0 (pay) has no verdict; call 2 (send) has no verdict"),
        ([verdict(0), FITTING, verdict(1)], "call 1 was not asked about, the calls are 0, 2"),
        ([verdict(0), verdict(0, "reject"), FITTING], "call 0 has 2 verdicts"),
        ([verdict(0, "edit"), FITTING], "call 0: an edit needs arguments"),
        ([verdict(0, arguments={"amount": 99}), FITTING], "call 0: it is approved with different arguments"),
        (
            [verdict(0, "edit", arguments={"amount": float("nan")}), FITTING],
            "call 0: its arguments or its reason cannot",
        ),
        ([verdict(0, "edit", arguments={"amount": 2**70}), FITTING], "longer than 64 bits"),
        ([verdict(0, "edit", arguments={"amount": {1, 2}}), FITTING], "cannot be stored"),
        ([verdict(0, "reject", reason="\ud800"), FITTING], "cannot be stored"),
        ([verdict(0, "edit", arguments=[1]), FITTING], "verdicts.0.arguments: Input should be a valid dictionary"),
        (
            [verdict(0, "maybe"), FITTING],
            "verdicts.0.verdict: Input should be 'approve', 'edit', 'reject' or 'respond'",
        ),
        ([verdict(True), FITTING], "verdicts.0.index: Input should be a valid integer"),
        ([verdict("0"), FITTING], "verdicts.0.index"),
        (["approve"], "verdicts.0: Input should be"),
        ({}, FORMS),
        ({"verdicts": "yes"}, FORMS),
        ("yes", FORMS),
        ("[" * 100_000, FORMS),
        (True, FORMS),
        (None, FORMS),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_what_is_wrong(answer: Any, said: str) -> None:
    with pytest.raises(InvalidAnswer) as refused:
        settled(CALLS, answer)
    assert said in str(refused.value)
    assert str(refused.value).startswith("The answer does not fit the question: ")


def test_a_refusal_lists_everything_at_once_but_not_without_end() -> None:
    with pytest.raises(InvalidAnswer, match=r"call 7 was not asked.*call 0 \(pay\) has no.*call 2: an edit needs"):
        settled(CALLS, [verdict(7), verdict(2, "edit")])
    with pytest.raises(InvalidAnswer) as refused:
        settled(CALLS, [verdict(index) for index in range(10_000)])
    assert "and 9988 more" in str(refused.value) and len(str(refused.value)) < 1000


# Who may approve calls, and what their decisions come to.

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


# Which calls a rule matches.

GIT = {"command": {"prefix": "git "}}


@cases(
    "only, arguments, matches",
    [
        ({}, {"command": "rm -rf /"}, True),
        ({"command": "ls"}, {"command": "ls"}, True),
        ({"command": "ls"}, {"command": "ls -a"}, False),
        ({"command": "ls *"}, {"command": "ls -a"}, False),
        (GIT, {"command": "git status"}, True),
        (GIT, {"command": "gitk"}, False),
        (GIT, {"command": 3}, False),
        (GIT, {"command": "git status", "sudo": True}, False),
        ({**GIT, "sudo": {"prefix": ""}}, {"command": "git status", "sudo": True}, True),
        ({**GIT, "sudo": {"prefix": ""}}, {"command": "git status"}, True),
        ({**GIT, "sudo": False}, {"command": "git status", "sudo": 0}, False),
        ({**GIT, "dry_run": True}, {"command": "git push"}, False),
        (GIT, {}, False),
        ({"where": {"b": 1, "a": 2}}, {"where": {"a": 2, "b": 1}}, True),
        ({"where": {"prefix": "x"}}, {"where": {"prefix": "x"}}, False),
    ],
)
def test_every_argument_must_be_named_and_fit(only: dict[str, Any], arguments: dict[str, Any], matches: bool) -> None:
    rule = PermissionRule("shell", only)
    assert rule.matches({"name": "shell", "arguments": arguments}) is matches
    assert not rule.matches({"name": "other", "arguments": arguments})
    assert PermissionRule.parse(str(rule)) == rule


def test_a_rule_reads_as_a_tool_and_its_arguments() -> None:
    assert str(PermissionRule("refund")) == "refund"
    assert (
        str(PermissionRule("refund", {"order_id": 17, "note": "对不起"})) == 'refund {"note": "对不起", "order_id": 17}'
    )


# Where an agent's rules let untrusted values go.


def rule(**places: Any) -> AllowRule:
    return AllowRule(tool="t", argument="a", **places)


@pytest.mark.parametrize("value", ["bob@example.org", "Bob.B+x@Example.org", ["a@example.org", "b@example.org"]])
def test_a_star_stands_for_a_part_of_an_address(value: Any) -> None:
    assert rule(values=["*@example.org"]).covers(value)


@cases(
    "value",
    [
        "eve@evil.com,bob@example.org",
        "eve@evil.com bob@example.org",
        "eve＠evil.com，bob@example.org",
        "eve@example.org.evil.com",
        "eve@evil.com?x=@example.org",
        "bob@example.org\n",
        ["a@example.org", "eve@evil.com"],
        [],
        {"a@example.org": 1},
        True,
        None,
    ],
)
def test_an_address_behind_another_one_is_not_covered(value: Any) -> None:
    assert not rule(values=["*@example.org"]).covers(value)


@cases("value", ["https://example.org/a?b", "example.org", "http://EXAMPLE.org:8080", "https://example.org./"])
def test_links_to_a_host_are_covered(value: str) -> None:
    assert rule(hosts=["example.org"]).covers(value)


@cases(
    "value",
    [
        "https://example.org@evil.com/",
        "https://evil.com\\@example.org/",
        "https://evil.com/example.org",
        "https://evil.com#example.org",
        "https://notexample.org/",
        "https://a.example.org/",
        "file://example.org/x",
        "https://evil.com/ https://example.org/",
        "https://[::1/",
        "",
    ],
)
def test_links_to_other_hosts_are_not(value: str) -> None:
    assert not rule(hosts=["example.org"]).covers(value)


def test_a_star_at_the_begin_of_a_host_stands_for_those_below_it() -> None:
    below = rule(hosts=["*.example.org"])
    assert below.covers("https://api.example.org/x")
    assert not below.covers("https://example.org/") and not below.covers("https://evilexample.org/")


def test_a_sharp_s_makes_another_domain() -> None:
    assert not rule(values=["*@strasse.example"]).covers("eve@straße.example")
    assert not rule(hosts=["strasse.example"]).covers("https://straße.example/")
    assert rule(hosts=["straße.example"]).covers("https://STRAßE.example/")
    assert not rule(hosts=["straße.example"]).covers("https://strasse.example/")


def test_paths_are_in_a_folder() -> None:
    inside = rule(paths=["reports"])
    assert inside.covers("reports/2024/may.txt") and inside.covers("./reports/a")
    for path in (
        "reports",
        "reports/../secret",
        "/reports/a",
        "other/reports/a",
        "reports\\..\\a",
        "reports2/a",
        "reports/%2e%2e/a",
    ):
        assert not inside.covers(path), path
    assert rule(paths=["/srv/out/"]).covers("/srv/out/a")


def test_a_lone_star_is_any_value_and_a_rule_names_some() -> None:
    assert rule(values=["*"]).covers({"any": ["thing"]})
    with pytest.raises(ValidationError, match="give values, hosts, paths or links"):
        rule()
