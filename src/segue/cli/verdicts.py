"""What the options of `segue answer` say about the calls that wait, as the answer that the app takes."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import InvalidAnswer
from ..core.json import DEEPEST, is_too_deep
from ..core.reviews import RESPOND
from .views.console import one_line

Call = Mapping[str, Any]
Verdict = dict[str, Any]
Answer = dict[str, Any]
"""{"verdicts": […]}, or to a question {"answer": text} or {"manual_finish": True}."""

_NUMBERED = re.compile(r"(\d+|all)=(.*)", re.DOTALL)
_NUMBERS = re.compile(r"\d{1,3}(,\d{1,3})*|all")
ALL = "all"
TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


def with_bare_approvals(arguments: Sequence[str]) -> list[str]:
    """Give an --approve without a value the value `all`."""
    filled: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            return [*filled, *arguments[place:]]
        filled.append(word)
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if word == "--approve" and not _NUMBERS.fullmatch(following):
            filled.append(ALL)
    return filled


@dataclass(frozen=True)
class Decisions:
    """What the options say: the texts of --approve, --edit, --reject and --respond, and where approved tools stay
    allowed.
    """

    approve: Sequence[str] = ()
    edit: Sequence[str] = ()
    reject: Sequence[str] = ()
    respond: Sequence[str] = ()
    always: str = ""
    only: Sequence[str] = ()
    """NAME=VALUE, or NAME=PREFIX*: the arguments for which they stay allowed."""
    flow: bool = False
    """They stay allowed where the same sources go into the same arguments."""

    def __bool__(self) -> bool:
        return any((self.approve, self.edit, self.reject, self.respond, self.always, self.only, self.flow))


def answer_of(calls: Sequence[Call], decisions: Decisions) -> Answer:
    """One verdict for each call, in their order; what is said of all calls is for those that no other option names."""
    given = _Given(calls)
    for text in decisions.edit:
        given.edit(text)
    for text in decisions.reject:
        given.decide(text, "reject")
    for text in decisions.respond:
        given.decide(text, RESPOND)
    approved: Verdict = {"verdict": "approve", **({"always": decisions.always} if decisions.always else {})}
    if decisions.only:
        approved["only"] = dict(map(_pattern, decisions.only))
    if decisions.flow:
        approved["flow"] = True
    for text in decisions.approve or ([ALL] if decisions.always else []):
        for target in text.split(","):
            given.put(target.strip() or ALL, approved)
    return {"verdicts": given.verdicts()}


def _pattern(text: str) -> tuple[str, Any]:
    """An argument and the value that it must have, as JSON or a text; with a star at its end, what it begins with."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise InvalidAnswer("--only {text} has no value: use --only NAME=VALUE or NAME='PREFIX*'.", text=one_line(text))
    from ..core.approval import PREFIX

    if value.endswith("*"):
        return name, {PREFIX: value[:-1]}
    try:
        return name, json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return name, value


def arguments_of(text: str) -> dict[str, Any]:
    """Read edited arguments."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_too_deep(value):
        raise ValueError(TOO_DEEP)
    if not isinstance(value, dict):
        raise ValueError(f"it is {_KINDS[type(value)]}")
    return value


_KINDS = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


class _Given:
    """The verdicts so far."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._names = {int(call["index"]): str(call["name"]) for call in calls}
        self._of_others = {int(call["index"]) for call in calls if call.get("refused")}
        self._by_call: dict[int, Verdict] = {}
        self._of_the_rest: Verdict | None = None

    def edit(self, text: str) -> None:
        numbered = _NUMBERED.fullmatch(text)
        if not numbered and len(self._names) > 1:
            raise InvalidAnswer(
                "--edit {text} names no call: use --edit '0={{…}}'; the calls are {calls}.",
                text=one_line(text, 40),
                calls=self._position(),
            )
        target, written = numbered.groups() if numbered else (str(next(iter(self._names))), text)
        if target == ALL:
            raise InvalidAnswer(
                "--edit applies to one call: use --edit '0={{…}}'; the calls are {calls}.", calls=self._position()
            )
        try:
            arguments = arguments_of(written)
        except ValueError as error:
            raise InvalidAnswer(
                "--edit {text} is not a JSON object ({error}).", text=one_line(text, 40), error=error
            ) from error
        self.put(target, {"verdict": "edit", "arguments": arguments})

    def decide(self, text: str, verdict: str) -> None:
        """Decide so about the call that a text names, or about all, with the rest of it as the reason."""
        if numbered := _NUMBERED.fullmatch(text):
            target, reason = numbered.groups()
        elif text == ALL or (text.isdecimal() and int(text) in self._names):
            target, reason = text, ""
        else:
            target, reason = ALL, text
        self.put(target, {"verdict": verdict, "reason": reason})

    def put(self, target: str, verdict: Verdict) -> None:
        if target == ALL:
            if self._of_the_rest:
                raise InvalidAnswer(
                    "Two options apply to all calls: name the calls by their numbers; the calls are {calls}.",
                    calls=self._position(),
                )
            self._of_the_rest = verdict
            return
        if not target.isdecimal() or int(target) not in self._names:
            raise InvalidAnswer(
                "There is no call '{target}'; the calls are {calls}.",
                target=one_line(target, 40),
                calls=self._position(),
            )
        if int(target) in self._by_call:
            raise InvalidAnswer("Two options decide on call {target}: leave one out.", target=target)
        self._by_call[int(target)] = verdict

    def verdicts(self) -> list[Verdict]:
        """Those of the calls that are named, and of the others as far as this person may decide about any."""
        left = [index for index in self._names if index not in self._of_others or index in self._by_call]
        return [{"index": index, **self._verdict(index)} for index in left or self._names]

    def _verdict(self, index: int) -> Verdict:
        verdict = self._by_call.get(index) or self._of_the_rest
        if verdict is None:
            raise InvalidAnswer(
                "No decision on call {index} ({name}): add --approve {index}, --reject {index}=REASON or --edit "
                "'{index}={{…}}'.",
                index=index,
                name=self._names[index],
            )
        return verdict

    def _position(self) -> str:
        return ", ".join(f"{index} ({name})" for index, name in self._names.items())
