"""Who may approve calls: the roles, how many persons, and what they have decided so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from .actor import SEGUE, Actor, person
from .approval import ApprovalTerms, Verdict, read_verdicts, word_of
from .errors import NotAnApprover

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
    """The calls that somebody decides about with this answer: those that they may decide about.

    Raises:
        InvalidAnswer: it cannot be read.
        NotAnApprover: it names another call, or there is none that they may decide about.
    """
    given: dict[int, Verdict] = {verdict.index: verdict for verdict in read_verdicts(calls, answer)}
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
