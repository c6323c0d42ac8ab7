"""Approval: verdicts on tool calls, who may give them, and rules for calls that run without asking."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.json_schema import SkipJsonSchema

from .actor import SEGUE, Actor, person
from .decision import check_storable
from .errors import Clause, ConfigurationError, InvalidAnswer, NotAnApprover, together
from .reviews import DECISIONS, RESPOND, list_decisions, read_decisions
from .task import TENANT_NAME

MOST_BYTES: Final = 2_000
"""Of a rule as a text; it is part of a key in the database."""
PREFIX: Final = "prefix"
_ANYTHING: Final = {PREFIX: ""}
MOST_APPROVALS: Final = 9
_ROLE: Final = re.compile(TENANT_NAME)
_TERMS: Final = ("approvers", "approvals", "not_by_asker")


Flow = Mapping[str, Sequence[str]]
"""The untrusted sources of arguments, each as its kind and name: {"to": ["tool read_mail"]}."""
_FLOW: Final = "flow "


def flow_of(call: Mapping[str, Any]) -> dict[str, list[str]]:
    """What flows where in a call that a person is asked about: by which arguments, from which sources."""
    sources = call.get("sources", {})
    return {
        name: sorted({f"{of['kind']} {of['name']}".strip() for of in sources.get(name, ()) if not of["trusted"]})
        for name in call.get("doubted", ())
    }


@dataclass(frozen=True)
class PermissionRule:
    """All calls of a tool, those whose arguments match `only`, or those of a `flow`.

    As a text: `refund`, `refund {"order_id": 17}`, or `refund flow {"order_id": ["tool read_mail"]}`. With `only`, a
    call must have exactly the arguments that are named there, each equal, or beginning with `{"prefix": "…"}`; an empty
    prefix matches anything, and an argument that is left out. With `flow`, each argument by which a person would be
    asked must be named there, with all of its untrusted sources.
    """

    tool: str
    only: Mapping[str, Any] = field(default_factory=dict)
    flow: Flow = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule as `str` writes it."""
        tool, _, rest = text.partition(" ")
        if rest.startswith(_FLOW):
            return cls(tool, flow=json.loads(rest.removeprefix(_FLOW)))
        return cls(tool, json.loads(rest) if rest else {})

    def __str__(self) -> str:
        if self.flow:
            return f"{self.tool} {_FLOW}{_json(self.flow)}"
        return f"{self.tool} {_json(self.only)}" if self.only else self.tool

    def matches(self, call: Mapping[str, Any]) -> bool:
        """Whether a call is one of them: {name, arguments, sources?, doubted?, reason?}, defaults included.

        A value of a secret result goes nowhere but by a flow.
        """
        if call["name"] != self.tool:
            return False
        if self.flow:
            asked = flow_of(call)
            return bool(asked) and all({*sources} <= {*self.flow.get(name, ())} for name, sources in asked.items())
        return call.get("reason") != "secret" and not self.mismatches(call["arguments"])

    def mismatches(self, arguments: Mapping[str, Any]) -> list[str]:
        """The arguments for which a call of the tool is not one of them."""
        if not self.only:
            return []
        names = dict.fromkeys([*self.only, *arguments])
        return [name for name in names if not (name in self.only and _fits(self.only[name], name, arguments))]


@dataclass(frozen=True)
class Grant:
    """A rule that a person allowed in a task or session (`scope`); `version` is the digest of its tool then."""

    rule: PermissionRule
    scope: str
    version: str = ""


def _fits(pattern: Any, name: str, arguments: Mapping[str, Any]) -> bool:
    if pattern == _ANYTHING:
        return True
    if name not in arguments:
        return False
    value = arguments[name]
    if isinstance(pattern, Mapping) and pattern.keys() == {PREFIX}:
        prefix = pattern[PREFIX]
        return isinstance(value, str) and isinstance(prefix, str) and value.startswith(prefix)
    return _json(pattern) == _json(value)  # True is not 1


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


FORM: Final = (
    '{"verdicts": "approve" | "reject"}, or {"verdicts": [{"index": 0, "verdict": "approve" | "edit" | "reject", '
    '"arguments"?: {…}, "reason"?: "…", "always"?: "task" | "session", "only"?: {…}, "flow"?: true}]}'
)
MOST_PROBLEMS = 10
"""Problems that a refusal lists; the others are only counted."""


@dataclass(frozen=True)
class ApprovalTerms:
    """Who may approve the calls of a tool.

    `approvers` are roles, of which one is enough; without any everybody may. `approvals` is how many different persons
    have to. With `not_by_asker` none of them may be the one who asked for the task.
    """

    approvers: tuple[str, ...] = ()
    approvals: int = 1
    not_by_asker: bool = False

    def __post_init__(self) -> None:
        if wrong := [role for role in self.approvers if not _ROLE.fullmatch(role)]:
            raise ConfigurationError(
                "The role {role} cannot be used: up to 32 letters, digits, - or _.", role=repr(wrong[0])
            )
        if not 1 <= self.approvals <= MOST_APPROVALS:
            raise ConfigurationError(
                "A tool's approvals are {approvals}: use a number from 1 to {most}.",
                approvals=self.approvals,
                most=MOST_APPROVALS,
            )

    @classmethod
    def of(cls, call: Mapping[str, Any]) -> Self:
        """The terms that a question shows of a call."""
        given = {name: call[name] for name in _TERMS if name in call}
        return cls(**{**given, "approvers": tuple(given.get("approvers", ()))})

    def json(self) -> dict[str, Any]:
        """The form in a question: what is asked for."""
        form = {"approvers": [*self.approvers], "approvals": self.approvals, "not_by_asker": self.not_by_asker}
        return {name: value for name, value in form.items() if value != getattr(ANYBODY, name) and value != []}

    @property
    def each_call(self) -> bool:
        """Whether each call needs approvals of its own, so that its tool cannot be allowed always."""
        return self.approvals > 1 or self.not_by_asker


ANYBODY: Final = ApprovalTerms()


class Verdict(BaseModel):
    """What a person decided about one call; the `arguments` of an edit take the place of the call's own.

    With `always` its tool needs no further approval in this task, or in this session; with `only` just for calls whose
    arguments match: each is named there, with its value or with `{"prefix": "…"}`; with `flow` just for calls whose
    doubted arguments come from the same sources as this one's. To `respond` is to give the result in place of the tool,
    as the `reason`, where the graph that asks takes that. `by` is who decided so, which Segue notes itself.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: int = Field(strict=True)
    verdict: Literal["approve", "edit", "reject", "respond"]
    arguments: dict[str, Any] | None = None
    reason: str = ""
    always: Literal["task", "session"] | None = None
    only: dict[str, Any] | None = None
    flow: bool = False
    by: SkipJsonSchema[tuple[dict[str, Any], ...]] = ()

    def rule(self, call: Mapping[str, Any]) -> PermissionRule:
        """The calls that are allowed always, of which the one that was asked about is one."""
        return PermissionRule(call["name"], self.only or {}, flow_of(call) if self.flow else {})

    @field_validator("reason", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return "" if value is None else value


class ApprovalAnswer(BaseModel):
    """A person's whole answer: one verdict for each call that was asked about; with `partial` the others stay open."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    verdicts: tuple[Verdict, ...]
    partial: bool = False


def settled(calls: Sequence[Mapping[str, Any]], answer: object) -> tuple[Verdict, ...]:
    """The verdicts in the order of the calls, each {index, name, arguments}.

    The answer is an `ApprovalAnswer` or its JSON, a bare list of verdicts, or "approve" or "reject" for all calls.
    """
    verdicts = read_verdicts(calls, answer)
    if found := _problems(calls, verdicts):
        raise unfit(found)
    given = {verdict.index: verdict for verdict in verdicts}
    return tuple(given[call["index"]] for call in calls)


def unfit(problems: Sequence[Clause]) -> InvalidAnswer:
    """The error that lists these problems."""
    more = len(problems) - MOST_PROBLEMS
    shown = [*problems[:MOST_PROBLEMS], *([Clause("and {more} more", more=more)] if more > 0 else [])]
    return InvalidAnswer("The answer does not fit the question: {problems}.", problems=together(shown))


def word_of(answer: object) -> str:
    """The word that an answer is for all calls, "approve" or "reject"; empty for one that names them."""
    if isinstance(answer, Mapping):
        answer = answer.get("verdicts")
    word = answer.strip().lower() if isinstance(answer, str) else ""
    return word if word in ("approve", "reject") else ""


def read_verdicts(calls: Sequence[Mapping[str, Any]], answer: object) -> tuple[Verdict, ...]:
    """The verdicts of an answer, whether they fit the calls or not."""
    if isinstance(answer, ApprovalAnswer):
        return answer.verdicts
    answer = read_decisions(answer)
    if word := word_of(answer):
        return tuple(Verdict.model_validate({"index": call["index"], "verdict": word}) for call in calls)
    if isinstance(answer, Mapping) and isinstance(answer.get("verdicts"), str):
        answer = answer["verdicts"]
    if isinstance(answer, str):
        answer = _typed(answer)
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        answer = {"verdicts": answer}
    if not isinstance(answer, Mapping) or "verdicts" not in answer:
        raise unfit([Clause("write {form}", form=FORM)])
    try:
        return ApprovalAnswer.model_validate(dict(answer)).verdicts
    except ValidationError as error:
        found = [(".".join(str(part) for part in e["loc"]), e["msg"]) for e in error.errors()]
        raise unfit([Clause("{place}: {why}", place=place, why=why) for place, why in found]) from error


def _typed(text: str) -> object:
    """What a person typed as JSON; None if it is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _problems(calls: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict]) -> list[Clause]:
    asked = {call["index"]: call for call in calls}
    given = [verdict.index for verdict in verdicts]
    there = ", ".join(str(index) for index in asked)
    found: list[Clause] = []
    for index in dict.fromkeys(given):
        if index not in asked:
            found.append(Clause("call {index} was not asked about, the calls are {there}", index=index, there=there))
        elif (count := given.count(index)) > 1:
            found.append(Clause("call {index} has {count} verdicts", index=index, count=count))
    for index, call in asked.items():
        if index not in given:
            found.append(Clause("call {index} ({tool}) has no verdict", index=index, tool=call["name"]))
    for verdict in verdicts:
        if verdict.index in asked and (why := _misfit(verdict, asked[verdict.index])):
            found.append(Clause("call {index}: {why}", index=verdict.index, why=why))
    return found


def _misfit(verdict: Verdict, call: Mapping[str, Any]) -> Clause | None:
    """What is wrong with one verdict, if anything is."""
    allowed = list_decisions(call)
    if verdict.verdict not in allowed:
        return Clause("{verdict} is not possible: use {allowed}", verdict=verdict.verdict, allowed=", ".join(allowed))
    if verdict.verdict == RESPOND and not verdict.reason.strip():
        return Clause("a response needs its text as the reason")
    changed = verdict.arguments is not None and verdict.arguments != call["arguments"]
    if verdict.verdict == "edit" and verdict.arguments is None:
        return Clause("an edit needs arguments")
    if verdict.verdict == "approve" and changed:
        return Clause("it is approved with different arguments: use edit to change arguments")
    if verdict.always and verdict.verdict != "approve":
        return Clause("only a call that is approved unchanged can be always allowed")
    if verdict.always and (DECISIONS in call or ApprovalTerms.of(call).each_call):
        return Clause("its tool cannot be always allowed: each call needs its own approval")
    try:
        check_storable([verdict.arguments, verdict.reason, verdict.only])
    except (TypeError, ValueError, RecursionError) as error:
        return Clause("its arguments or its reason cannot be stored: {error}", error=error)
    return _bad_rule(verdict, call)


def _bad_rule(verdict: Verdict, call: Mapping[str, Any]) -> Clause | None:
    """What is wrong with the calls that are to be allowed always, if anything is."""
    if verdict.flow and (not verdict.always or verdict.only is not None):
        return Clause('"flow" goes with "always", and without "only"')
    if verdict.flow and not (flow_of(call) and all(flow_of(call).values())):
        return Clause('"flow" applies to calls with values from known sources: this call is asked about as a whole')
    if verdict.only is None:
        return None
    if not (verdict.always and verdict.only):
        return Clause('"only" names arguments, and goes with "always"')
    rule = verdict.rule(call)
    if len(str(rule).encode()) > MOST_BYTES:
        return Clause('"only" is longer than {most} bytes: name a prefix of the long arguments', most=MOST_BYTES)
    if names := rule.mismatches(call["arguments"]):
        return Clause(
            '"only" does not match this call in {names}: name each of its arguments, with its value or, for a text, '
            "{form}",
            names=", ".join(names),
            form='{"prefix": "…"}',
        )
    return None


# Who may approve calls: the roles, how many persons, and what they have decided so far.

NOBODY_ASKED: Final = "default"
"""The user of messages that name none."""

Call = Mapping[str, Any]
"""A call as a question shows it."""
Decision = Mapping[str, Any]
"""What one person decided about a call: a verdict's fields, `by` whom, when (`at`), and the digest of what they saw."""


@dataclass(frozen=True)
class Approvals:
    """What was decided of a call so far: the arguments that it would run with, and the decisions that count for these.

    An edit begins anew: its arguments need everybody else's approval.
    """

    call: Call
    arguments: Mapping[str, Any]
    given: Sequence[Decision] = ()
    edited: bool = False

    @classmethod
    def of(cls, call: Call, decisions: Sequence[Decision]) -> Self:
        """Fold the decisions about a call, in their order."""
        so_far = cls(call, call["arguments"])
        for each in decisions:
            if each["index"] == call["index"]:
                so_far = so_far._with(each)
        return so_far

    def _with(self, decision: Decision) -> Self:
        if decision["verdict"] == "edit":
            return type(self)(self.call, decision["arguments"], [decision], True)
        return type(self)(self.call, self.arguments, [*self.given, decision], self.edited)

    @property
    def persons(self) -> set[str]:
        """Those who approved these arguments."""
        return {person(each["by"]) for each in self.given}

    @property
    def is_rejected(self) -> bool:
        return any(each["verdict"] == "reject" for each in self.given)

    @property
    def missing(self) -> int:
        """How many more persons have to approve it."""
        enough = self.is_rejected or any(each["by"] == SEGUE for each in self.given)  # in a replay, for everybody
        return 0 if enough else max(0, ApprovalTerms.of(self.call).approvals - len(self.persons))

    @property
    def question(self) -> dict[str, Any]:
        """The call as the next person is shown it."""
        if not self.given:
            return {**self.call}
        edited = {"arguments": self.arguments, "original": self.call["arguments"]} if self.edited else {}
        known = [{name: each[name] for name in ("by", "at", "verdict")} for each in self.given]
        return {**self.call, **edited, "approved_by": known}

    @property
    def verdict(self) -> dict[str, Any]:
        """What was decided in the end: a verdict with all the persons that it is from."""
        final = self.given[-1] if self.is_rejected or not self.edited else self.given[0]
        counted = [final] if self.is_rejected else self.given
        by = [{name: each[name] for name in ("by", "at", "shown", "verdict")} for each in counted]
        return {**{name: value for name, value in final.items() if name not in ("at", "shown")}, "by": by}


def refusal(call: Call, verdict: str, who: Actor, asked_by: Sequence[str], user: str) -> NotAnApprover | None:
    """Why somebody may not decide so about a call; `asked_by` are those who asked for its task, and its `user`."""
    if who.name == SEGUE:
        return None
    terms, index, tool = ApprovalTerms.of(call), call["index"], call["name"]
    about = {"who": person(who.name), "index": index, "tool": tool}
    if not who.has_one_of(terms.approvers):
        return NotAnApprover(
            "Call {index} ({tool}) needs the role {roles}, which {who} does not have: nothing was changed.",
            roles=" or ".join(terms.approvers),
            **about,
        )
    if verdict == "reject":
        return None
    if terms.not_by_asker and _is_asker(who, asked_by, user):
        return NotAnApprover(
            "Call {index} ({tool}) was requested by {who}, so another person must approve it: nothing was changed.",
            **about,
        )
    if verdict == "approve" and any(person(each["by"]) == person(who.name) for each in call.get("approved_by", ())):
        return NotAnApprover(
            "Call {index} ({tool}) is already approved by {who}: another person must approve it, too.", **about
        )
    return None


def _is_asker(who: Actor, asked_by: Sequence[str], user: str) -> bool:
    """Whether somebody sent the message of a task, or is the user in whose name it was sent."""
    named = user.rpartition(":")[2]
    askers = {person(each) for each in asked_by} | ({named} - {NOBODY_ASKED})
    return person(who.name) in askers


def decided_by(
    calls: Sequence[Call], answer: object, refuse: Callable[[Call, str], NotAnApprover | None]
) -> Sequence[Call]:
    """The calls that somebody decides about with this answer: those that it names, or that they may decide about."""
    given: dict[int, Verdict] = {verdict.index: verdict for verdict in read_verdicts(calls, answer)}
    if isinstance(answer, ApprovalAnswer) and answer.partial:
        calls = [call for call in calls if call["index"] in given]
    refused = {
        call["index"]: error
        for call in calls
        if (error := refuse(call, given[call["index"]].verdict if call["index"] in given else "approve"))
    }
    named = [index for index in refused if index in given]
    if named and not (word_of(answer) and len(refused) < len(calls)):
        raise refused[named[0]]
    if len(refused) == len(calls):
        raise next(iter(refused.values()))
    return [call for call in calls if call["index"] not in refused]
