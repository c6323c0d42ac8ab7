"""Whether a person's answer fits the calls that were asked about."""

from typing import Any

import pytest

from segue.core.approval import ApprovalAnswer, Verdict, settled
from segue.core.errors import InvalidAnswer
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
