"""The report's numbers against values that were worked out by hand."""

import pytest

pytest.importorskip("matplotlib")

from segue.core.conversation import Conversation, ConversationConfig, Role, Utterance
from segue.testing.rehearsal.report import (
    Calls,
    Expectation,
    Outcome,
    Used,
    compare_calls,
    differences,
    paired_test,
    pass_hat,
    rate,
    rule_success,
    summary_of,
    used_by,
)


def test_a_rate_has_the_interval_of_wilson() -> None:
    estimate = rate(8, 10)
    assert estimate
    assert (round(estimate.value, 3), round(estimate.low, 3), round(estimate.high, 3)) == (0.8, 0.490, 0.943)
    assert rate(0, 0) is None


def test_pass_hat_k_is_the_mean_over_scenarios_of_the_chance_that_k_trials_succeed() -> None:
    trials = {"a": [True, True, True, False], "b": [True, True, True, True]}
    values = [pass_hat(k, trials) for k in (1, 2, 4, 5)]
    assert [estimate and round(estimate.value, 4) for estimate in values] == [0.875, 0.75, 0.5, None]
    assert values[0]
    assert values[0].low <= 0.875 <= values[0].high


def test_a_difference_of_nine_to_nothing_exceeds_noise_and_one_of_two_to_one_does_not() -> None:
    clear = paired_test({"a": [(True, False)] * 9 + [(True, True)]})
    assert clear
    assert (clear.worse, clear.better, round(clear.p_value, 5), clear.exceeds_noise) == (9, 0, 0.00391, True)
    assert clear.difference.value == -0.9
    unclear = paired_test({"a": [(True, False), (True, False), (False, True), (True, True)]})
    assert unclear
    assert (unclear.p_value, unclear.exceeds_noise) == (1.0, False)
    assert paired_test({}) is None


def talk(*calls: tuple[str, dict[str, object], int]) -> Conversation:
    """A conversation of one turn with these calls, each with its status code."""
    said = [Utterance(index=0, turn=1, role=Role.USER, text="Hello")]
    for name, arguments, status in calls:
        made = Utterance(index=len(said), turn=1, role=Role.BOT, action=name, action_input=arguments)
        said += [
            made,
            Utterance(
                index=len(said) + 1, turn=1, role=Role.API, action=name, action_input=arguments, status_code=status
            ),
        ]
    return Conversation(conversation_id="c", config=ConversationConfig(), utterances=tuple(said))


def test_a_call_counts_once_and_only_if_it_reached_the_api_with_the_expected_arguments() -> None:
    expectation = Expectation(calls=(("find", {"id": 1}), ("book", {"id": 1, "note": "x"})))
    calls = compare_calls(
        talk(("find", {"id": 1.0}, 200), ("find", {"id": 1}, 200), ("book", {"note": "x ", "id": 1}, 503)), expectation
    )
    assert (calls.made, calls.matched, calls.surplus) == (3, 1, (3, 5))
    assert calls.missing == ('book({"id": 1, "note": "x"})',)
    assert (calls.precision, calls.recall) == (1 / 3, 1 / 2)
    assert rule_success(calls, (), expectation) is False


def test_success_by_rule_needs_the_calls_and_the_state() -> None:
    expectation = Expectation(calls=(("find", {}),), state={"a": {"b": 1}})
    calls = compare_calls(talk(("find", {}, 200)), expectation)
    assert rule_success(calls, differences({"a": {"b": 1.0}}, expectation.state), expectation) is True
    found = list(differences({"a": {"b": 2, "c": None}}, expectation.state))
    assert [difference.text("en") for difference in found] == ["a.b: 2, expected 1"]
    assert rule_success(calls, found, expectation) is False
    assert rule_success(calls, (), Expectation()) is None


def test_tokens_and_cost_are_those_of_every_model_of_the_conversation() -> None:
    usages = (
        {"input": 10, "output": 1, "cost": 0.5, "currency": "USD"},
        {"input": 5, "output": 2, "cost": 0.0},
        {"cost": 0.25},
    )
    roles = (Role.USER, Role.BOT, Role.API)
    said = [
        Utterance(index=place, turn=1, role=role, usage=usage)
        for place, (role, usage) in enumerate(zip(roles, usages, strict=True))
    ]
    used = used_by(Conversation(conversation_id="c", config=ConversationConfig(), utterances=tuple(said)))
    assert used == Used(input_tokens=15, output_tokens=3, cost=0.75, currency="USD")
    assert used_by(talk()).cost is None


def test_a_cost_that_is_not_known_of_one_call_is_not_known_of_the_conversation_and_the_batch() -> None:
    known, unknown = {"input": 1, "output": 1, "cost": 0.5, "currency": "USD"}, {"input": 5, "output": 2}
    said = [Utterance(index=place, turn=1, role=Role.BOT, usage=usage) for place, usage in enumerate((known, unknown))]
    used = used_by(Conversation(conversation_id="c", config=ConversationConfig(), utterances=tuple(said)))
    assert (used.input_tokens, used.cost) == (6, None)
    some = [outcome("a", True, Calls(made=1, expected=1, matched=1), cost=cost) for cost in (0.5, None)]
    assert summary_of(some).cost is None


def outcome(scenario: str, success: bool | None, calls: Calls, cost: float | None = None) -> Outcome:
    name = f"{scenario}-{success}"
    return Outcome(
        conversation_id=name, scenario=scenario, trial=1, end_reason="user_ended", turns=calls.made, calls=calls,
        rule_success=success, judge_success=None if success is None else not success, cost=cost, seconds=2.0,
    )  # fmt: skip


def test_a_batch_sums_calls_up_before_it_divides_and_leaves_out_what_nothing_measures() -> None:
    summary = summary_of(
        [
            outcome("a", True, Calls(made=1, expected=4, matched=1), cost=0.5),
            outcome("a", False, Calls(made=9, expected=4, matched=3), cost=0.25),
            outcome("b", None, Calls(made=0, expected=0, matched=0), cost=0.0),
        ]
    )
    assert (summary.precision, summary.recall, summary.calls) == (4 / 10, 4 / 8, 10)
    assert summary.success and summary.success.value == 1 / 2
    assert summary.judge_agreement and summary.judge_agreement.value == 0
    assert (summary.cost, summary.turns_mean, summary.turns_median) == (0.75, 10 / 3, 1)
