"""Grades of a batch's conversations, the party that each failure is attributed to, and the judge."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from ...core.agents import Agent
from ...core.conversation import Conversation, EndReason, Role, Utterance, transcript
from ...core.decision import read_object
from ...core.errors import ConfigurationError, UnreadableReply
from ...core.json import object_schema
from ...core.models import Model, ModelRequest
from ...models.transcript import whole_reply
from ...nodes.model_call import MOST_ASKS, refuse_unreadable
from ...prompts.catalogue import render, task_text
from ...registry import Registry
from .backends import find_backend
from .batch import Manifest, Planned, log_file
from .participants import Questions, find_scenario, load_workflow
from .report import (
    SERVER_ERROR,
    Calls,
    Expectation,
    Fault,
    Outcome,
    StateDifference,
    canonical,
    compare_calls,
    differences,
    rule_success,
    used_by,
)
from .simulate import read_log, replace_text
from .workflow import Scenario, Slot, Workflow

# The judge: a language model that reads a transcript and says whether the user's goal was reached.

T = TypeVar("T")
PARTIES = ("agent", "user", "tool")
_REPLY = object_schema(
    *("reason", "success", "party", "turn"),
    reason={"type": "string"},
    success={"type": "boolean"},
    party={"enum": ["none", *PARTIES]},
    turn={"type": "integer"},
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the judge says; `party` and `turn` cite what went wrong."""

    success: bool
    reason: str
    party: str = "agent"
    turn: int = 0


def read_verdicts(folder: Path, model: str) -> dict[str, Verdict]:
    """The verdicts that a judge gave on a batch, by conversation."""
    file = _file(folder, model)
    if not file.is_file():
        return {}
    try:
        return {name: Verdict(**form) for name, form in json.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(
            "The verdicts {file} cannot be read: {error}. Delete the file to ask again.", file=file, error=error
        ) from error


def judge_named(model: str) -> Model:
    """The model that judges.

    Raises:
        ConfigurationError: it is no language model, or is not there.
    """
    return judge_of(Agent(agent_id="judge", description="The judge of a rehearsal"), model)


def judge_of(agent: Agent, model: str = "") -> Model:
    """The model of an agent, or another by its endpoint, as a judge.

    Raises:
        ConfigurationError: it is no language model, or is not there.
    """
    agent = agent.model_copy(update={"temperature": 0.0})
    judge = Registry((agent,)).model_for(agent, model)
    if not judge.is_language_model:
        raise ConfigurationError(
            "{name} cannot judge: name a language model, such as --judge openai:<name>.", name=judge.name
        )
    return judge


async def judge_batch(folder: Path, manifest: Manifest, model: str) -> dict[str, Verdict]:
    """Have a model judge every conversation that has ended; one that it judged before is not asked about again.

    Raises:
        ConfigurationError: the model is no language model, or is not there.
        ModelError: a call failed; the verdicts until then are kept.
    """
    judge = judge_named(model)
    verdicts = read_verdicts(folder, model)
    for planned in manifest.conversations():
        file = log_file(folder, planned)
        if planned.conversation_id in verdicts or not file.is_file():
            continue
        conversation = read_log(file)
        if conversation.ending:
            verdicts[planned.conversation_id] = await judge_one(judge, conversation)
            forms = {name: asdict(verdict) for name, verdict in verdicts.items()}
            replace_text(_file(folder, model), json.dumps(forms, ensure_ascii=False, indent=2) + "\n")
    return verdicts


async def judge_one(judge: Model, conversation: Conversation) -> Verdict:
    """Ask about one conversation; a reply that cannot be read is asked for again, with the reason.

    Raises:
        UnreadableReply: no attempt could be read.
    """
    messages = [SystemMessage(_instructions(conversation)), HumanMessage(transcript(conversation))]
    request = ModelRequest(purpose="converse", messages=messages, schema=_REPLY, seed=conversation.config.seed)
    return await ask_judge(judge, request, _read, conversation.conversation_id, conversation.language)


async def ask_judge(
    judge: Model, request: ModelRequest, read: Callable[[str], T], about: str, language: str = "en"
) -> T:
    """Ask until a reply can be read; each time with the reason why the one before could not.

    Raises:
        UnreadableReply: no attempt could be read.
    """
    messages, why = [*request.messages], ""
    for _ in range(MOST_ASKS):
        reply = await whole_reply(judge, replace(request, messages=messages))
        try:
            refuse_unreadable(reply)
            return read(reply.text)
        except UnreadableReply as error:
            why = str(error)
            messages += [AIMessage(reply.text or "…"), HumanMessage(task_text("reply_unread", language, why=why))]
    raise UnreadableReply(
        "The judge {judge} gave no verdict on {conversation}: {why}", judge=judge.name, conversation=about, why=why
    )


def _instructions(conversation: Conversation) -> str:
    config = conversation.config
    goal, policy = config.goal, ""
    if config.workflow:
        workflow = load_workflow(config.workflow)
        policy = "\n".join(
            [workflow.description, *(f"- {step.description}" for step in workflow.procedure), workflow.policy]
        )
        if config.scenario:
            goal = find_scenario(config.workflow, config.scenario).persona.goal
    return render("judge", conversation.language, goal=goal or "-", policy=policy or "-")


def _read(text: str) -> Verdict:
    """The verdict in a reply."""
    form: Mapping[str, Any] = read_object(text)
    if not isinstance(form.get("success"), bool):
        raise UnreadableReply("`success` is not true or false.")
    party = form.get("party") if form.get("party") in PARTIES else "agent"
    turn = form.get("turn")
    return Verdict(
        success=form["success"],
        reason=str(form.get("reason", "")),
        party=str(party),
        turn=turn if isinstance(turn, int) else 0,
    )


def _file(folder: Path, model: str) -> Path:
    name = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in model)
    return folder / "verdicts" / f"{name}.json"


# Outcomes of a batch's conversations, and the party that each failure is attributed to.

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
    # What is left: an expected call was never made, or the state is wrong.
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
    if not case.calls.missing or not _is_answerable(asked, case) or any(u.text == asked for u in spoken[:-2]):
        return None
    return _cite(USER, spoken[-1], "ended_early")


def _is_answerable(question: str, case: Case) -> bool:
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


def _cite(party: str, utterance: Utterance, rule: str, **slots: object) -> Fault:
    return Fault(party=party, turn=utterance.turn, index=utterance.index, rule=rule, slots=slots)


RULES: tuple[Rule, ...] = (_user_failed, _tool_failed, _false_fact, _ended_early, _stuck, _refused, _wrong_call)


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
