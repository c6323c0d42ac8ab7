"""Attribution of a failed conversation to the agent, the simulated user, a tool or the judge, by rules.

The first rule that applies decides; docs/rehearsal.md lists them in the same order.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ...core.conversation import Conversation, EndReason, Role, Utterance
from ..workflows.questions import Questions
from ..workflows.scenario import Scenario
from ..workflows.slot_values import value_in
from ..workflows.workflow import Slot, Workflow
from .outcome import SERVER_ERROR, Calls, Expectation, Fault, canonical

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
    state_differences: tuple[str, ...] = ()
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
        return _cite(USER, last[0], f"the simulated user wrote nothing that could be used: {last[0].error}")
    return None


def _tool_failed(case: Case) -> Fault | None:
    for result in case.conversation.results:
        if (result.status_code or 0) >= SERVER_ERROR:
            return _cite(TOOL, result, f"{result.action} failed with status {result.status_code}")
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
                    return _cite(
                        USER, utterance, f"the simulated user said {name} {value}, which its persona does not know"
                    )
    return None


def _recognised(text: str, workflow: Workflow, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The numbers, dates and codes in a text that are values of slots; a word may be anything."""
    for name in names:
        slot: Slot | None = workflow.slots.get(name)
        if slot and slot.pattern and _DIGIT.search(value := value_in(text, slot) or ""):
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
    return _cite(USER, spoken[-1], "the simulated user ended the conversation instead of answering the question")


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
    return _cite(USER, utterances[-1], f"the simulated user said the same {_STUCK} times to different answers")


def _refused(case: Case) -> Fault | None:
    for result in case.conversation.results:
        if result.controller:
            return _cite(AGENT, result, f"{result.action} was refused by {result.controller}: {result.data}")
    return None


def _wrong_call(case: Case) -> Fault | None:
    """A call that changed what should not be changed, or was made with other arguments than expected."""
    expected = {name for name, _ in case.expectation.calls}
    surplus = [case.conversation.utterances[index] for index in case.calls.surplus]
    for call in surplus:
        if call.action in expected and any(m.startswith(f"{call.action}(") for m in case.calls.missing):
            made = f"{call.action}({canonical(call.action_input)})"
            missing = next(m for m in case.calls.missing if m.startswith(f"{call.action}("))
            return _cite(AGENT, call, f"it called {made}, expected {missing}")
    if case.state_differences and surplus:
        call = surplus[0]
        return _cite(AGENT, call, f"it called {call.action}, which was not expected; {case.state_differences[0]}")
    return None


def _unmet(case: Case) -> Fault:
    """What is left: an expected call was never made, or the state is wrong."""
    spoken = [u for u in case.conversation.utterances if u.role is Role.BOT] or list(case.conversation.utterances)
    why = f"{case.calls.missing[0]} was never called" if case.calls.missing else "; ".join(case.state_differences[:1])
    last = spoken[-1] if spoken else Utterance(index=0, turn=0, role=Role.BOT)
    return _cite(AGENT, last, why or "the conversation did not reach its goal")


def _cite(party: str, utterance: Utterance, reason: str) -> Fault:
    return Fault(party=party, turn=utterance.turn, index=utterance.index, reason=reason)


RULES: tuple[Rule, ...] = (_user_failed, _tool_failed, _false_fact, _ended_early, _stuck, _refused, _wrong_call)
