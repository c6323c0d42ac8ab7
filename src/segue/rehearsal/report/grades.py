"""Outcomes of a batch's conversations, from their logs and the workflow's scenarios."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...core.conversation import Conversation, Role
from ..batch.manifest import Manifest, Planned, log_file
from ..log import read_log
from ..workflows.backends import find_backend
from ..workflows.loader import find_scenario, load_workflow
from .attribution import JUDGE, Case, attribute
from .judge import Verdict
from .outcome import Expectation, Fault, Outcome, compare_calls, differences, rule_success, used_by

BACKEND = "backend"
"""The API whose final state is in the log."""


def outcomes_of(folder: Path, manifest: Manifest, verdicts: Mapping[str, Verdict]) -> list[Outcome]:
    """The outcomes of the conversations that have ended, in the order of the batch."""
    found = []
    for planned in manifest.conversations():
        file = log_file(folder, planned)
        conversation = read_log(file) if file.is_file() else None
        if conversation and conversation.ending:
            found.append(outcome_of(conversation, planned, verdicts.get(planned.conversation_id)))
    return found


def outcome_of(conversation: Conversation, planned: Planned, verdict: Verdict | None) -> Outcome:
    """One conversation's outcome; a failure is attributed."""
    assert conversation.ending
    case = case_of(conversation)
    by_rule = rule_success(case.calls, case.state_differences, case.expectation)
    used = used_by(conversation)
    outcome = Outcome(
        conversation_id=planned.conversation_id,
        scenario=planned.scenario,
        trial=planned.trial,
        end_reason=conversation.ending.reason.value,
        turns=conversation.ending.turns,
        calls=case.calls,
        state_differences=case.state_differences,
        rule_success=by_rule,
        judge_success=verdict.success if verdict else None,
        judge_reason=verdict.reason if verdict else "",
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost=used.cost,
        currency=used.currency,
        seconds=conversation.ending.seconds,
    )
    return replace(outcome, fault=_fault(case, outcome, verdict))


def case_of(conversation: Conversation) -> Case:
    """A conversation beside what its scenario expects; one without a scenario expects nothing."""
    config = conversation.config
    if not config.workflow or not config.scenario:
        nothing = Expectation()
        return Case(conversation=conversation, calls=compare_calls(conversation, nothing), expectation=nothing)
    workflow, scenario = load_workflow(config.workflow), find_scenario(config.workflow, config.scenario)
    has_state = bool(workflow.backend) and config.api_mode == BACKEND
    initial = find_backend(workflow.backend).initial(config.seed or 0) if has_state else {}
    expectation = Expectation(
        calls=tuple((call.name, call.arguments) for call in scenario.expected_calls),
        state=scenario.expected_state(initial) if has_state else None,
    )
    final = conversation.state_of(Role.API)
    differ = () if expectation.state is None else tuple(differences(final, expectation.state))
    return Case(
        conversation=conversation,
        calls=compare_calls(conversation, expectation),
        expectation=expectation,
        state_differences=differ,
        workflow=workflow,
        scenario=scenario,
    )


def _fault(case: Case, outcome: Outcome, verdict: Verdict | None) -> Fault | None:
    """By rule where there is one; a judge who fails what the rules accept is itself in doubt."""
    if outcome.rule_success is False:
        return attribute(case)
    if verdict is None or verdict.success:
        return None
    if outcome.rule_success:
        return _by_judge(verdict, JUDGE, "judge_objects")
    return _by_judge(verdict, verdict.party, "judge_says")


def _by_judge(verdict: Verdict, party: str, rule: str) -> Fault:
    return Fault(party=party, turn=verdict.turn, index=-1, rule=rule, slots={"reason": verdict.reason})
