"""Attribution of a failed conversation to the agent, the simulated user, a tool or the judge, by rules.

The first rule that applies decides; docs/rehearsal.md lists them in the same order.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ...core.conversation import Conversation, EndReason, Role, Utterance
from ..workflows.questions import Questions
from ..workflows.scenario import Scenario
from ..workflows.workflow import Slot, Workflow
from .outcome import SERVER_ERROR, Calls, Expectation, Fault, StateDifference, canonical

AGENT, USER, TOOL, JUDGE = "agent", "user", "tool", "judge"
_DIGIT = re.compile(r"\d")
_STUCK = 3
"""Equal messages in a row after which the simulated user counts as stuck."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A failed conversation, with what it should have come to."""

    conversation: Conversation
    calls: Calls
    expectation: Expectation
    state_differences: tuple[StateDifference, ...] = ()
    workflow: Workflow | None = None
    scenario: Scenario | None = None


Rule = Callable[[Case], Fault | None]


def attribute(case: Case) -> Fault:
    """Who a failed conversation is attributed to, citing the turn; the agent where no other rule applies."""
    for rule in RULES:
        if fault := rule(case):
            return fault
    return _unmet(case)


def _user_failed(case: Case) -> Fault | None:
    ending, last = case.conversation.ending, case.conversation.utterances[-1:]
    if last and ending and ending.reason is EndReason.USER_FAILED:
        return _cite(USER, last[0], "user_wrote_nothing", error=last[0].error)
    return None


def _tool_failed(case: Case) -> Fault | None:
    for result in case.conversation.results:
        if (result.status_code or 0) >= SERVER_ERROR:
            return _cite(TOOL, result, "tool_failed", call=result.action, status=result.status_code)
    return None


def _false_fact(case: Case) -> Fault | None:
    """The user says a value that its persona does not know, of a kind that the persona knows another value of."""
    if not case.scenario or not case.workflow:
        return None
    facts = {name: list(_listed(value)) for name, value in case.scenario.persona.facts.items()}
    known = {fact.strip().casefold() for values in facts.values() for fact in values}
    for utterance in case.conversation.utterances:
        if utterance.role is Role.USER:
            for name, value in _recognised(utterance.text, case.workflow, facts):
                if value.casefold() not in known:
                    return _cite(USER, utterance, "false_fact", slot=name, value=value)
    return None


def _recognised(text: str, workflow: Workflow, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The numbers, dates and codes in a text that are values of slots; a word may be anything."""
    for name in names:
        slot: Slot | None = workflow.slots.get(name)
        if slot and slot.pattern and _DIGIT.search(value := slot.value_in(text) or ""):
            yield name, value


def _listed(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _ended_early(case: Case) -> Fault | None:
    """The user ends the conversation instead of answering a question to which its persona knows the answer."""
    spoken = [u for u in case.conversation.utterances if not u.is_action and u.role is not Role.API]
    if len(spoken) < 2 or not spoken[-1].ends:
        return None
    asked = spoken[-2].text
    if not case.calls.missing or not _knows(asked, case) or any(u.text == asked for u in spoken[:-2]):
        return None
    return _cite(USER, spoken[-1], "ended_early")


def _knows(question: str, case: Case) -> bool:
    if not case.scenario or not case.workflow:
        return False
    return any(name in case.scenario.persona.facts for name in Questions(case.workflow).asked(question))


def _stuck(case: Case) -> Fault | None:
    """The user repeats itself though the bot does not."""
    utterances = [u for u in case.conversation.utterances if u.role is Role.USER][-_STUCK:]
    answers = [u.text for u in case.conversation.utterances if u.role is Role.BOT and not u.is_action][-_STUCK:]
    if len(utterances) < _STUCK or len({u.text for u in utterances}) > 1 or len(set(answers)) < len(answers):
        return None
    return _cite(USER, utterances[-1], "stuck", n=_STUCK)


def _refused(case: Case) -> Fault | None:
    for result in case.conversation.results:
        if result.controller:
            return _cite(AGENT, result, "refused", call=result.action, controller=result.controller, hint=result.data)
    return None


def _wrong_call(case: Case) -> Fault | None:
    """A call that changed what should not be changed, or was made with other arguments than expected."""
    expected = {name for name, _ in case.expectation.calls}
    surplus = [case.conversation.utterances[index] for index in case.calls.surplus]
    for call in surplus:
        if call.action in expected and any(m.startswith(f"{call.action}(") for m in case.calls.missing):
            made = f"{call.action}({canonical(call.action_input)})"
            missing = next(m for m in case.calls.missing if m.startswith(f"{call.action}("))
            return _cite(AGENT, call, "wrong_arguments", call=made, expected=missing)
    if case.state_differences and surplus:
        call = surplus[0]
        return _cite(AGENT, call, "unexpected_call", call=call.action, difference=case.state_differences[0])
    return None


def _unmet(case: Case) -> Fault:
    """What is left: an expected call was never made, or the state is wrong."""
    spoken = [u for u in case.conversation.utterances if u.role is Role.BOT] or list(case.conversation.utterances)
    last = spoken[-1] if spoken else Utterance(index=0, turn=0, role=Role.BOT)
    ending = case.conversation.ending
    if case.calls.missing and ending and ending.reason is EndReason.TURN_LIMIT:
        return _cite(AGENT, last, "never_called_in_turns", call=case.calls.missing[0], n=ending.turns)
    if case.calls.missing:
        return _cite(AGENT, last, "never_called", call=case.calls.missing[0])
    if case.state_differences:
        return _cite(AGENT, last, "wrong_state", difference=case.state_differences[0])
    return _cite(AGENT, last, "goal_missed")


def _cite(party: str, utterance: Utterance, rule: str, **slots: object) -> Fault:
    return Fault(party=party, turn=utterance.turn, index=utterance.index, rule=rule, slots=slots)


RULES: tuple[Rule, ...] = (_user_failed, _tool_failed, _false_fact, _ended_early, _stuck, _refused, _wrong_call)
