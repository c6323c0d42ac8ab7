"""The outcome of one conversation: what came of it, by rule, as its log shows."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.conversation import Conversation, Utterance
from ...core.records import Json
from ...core.usage import add_usages
from ...prompts.catalogue import report_text

SERVER_ERROR = 500


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a scenario asks for: calls in any order, and the backend's state at the end (None: any)."""

    calls: tuple[tuple[str, Json], ...] = ()
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The bot's calls beside the expected ones.

    A call counts as expected if it has the expected name and arguments and reached the API, whatever the API answered:
    no controller refused it, and it did not end in a server error. Each expected call counts once.
    """

    made: int = 0
    expected: int = 0
    matched: int = 0
    missing: tuple[str, ...] = ()
    """Expected calls that were not made."""
    surplus: tuple[int, ...] = ()
    """The indices of the calls that no expected one accounts for."""

    @property
    def precision(self) -> float | None:
        """The share of the bot's calls that were expected; None if it made none."""
        return self.matched / self.made if self.made else None

    @property
    def recall(self) -> float | None:
        """The share of the expected calls that were made; None if none was expected."""
        return self.matched / self.expected if self.expected else None


@dataclass(frozen=True)
class StateDifference:
    """A path at which the backend's state is not the expected one; the values are JSON."""

    path: str
    actual: str
    expected: str

    def text(self, language: str) -> str:
        """Path and values."""
        return report_text("difference", language, **vars(self))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Who a failure is attributed to (agent, user, tool or judge), in which turn and utterance, and why.

    `rule` is the text that says why, and `slots` are its values; `index` is -1 where only the turn is known.
    """

    party: str
    turn: int
    index: int
    rule: str
    slots: Mapping[str, Any] = field(default_factory=dict)

    def reason(self, language: str = "en") -> str:
        """Why, as a clause."""
        texts = {name: v.text(language) if isinstance(v, StateDifference) else v for name, v in self.slots.items()}
        return report_text(self.rule, language, **texts)

    def json(self, language: str) -> Json:
        """The form of the report."""
        form = {"party": self.party, "turn": self.turn, "index": self.index, "rule": self.rule}
        return {**form, "reason": self.reason(language)}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One conversation's row of the report."""

    conversation_id: str
    scenario: str
    trial: int
    end_reason: str
    turns: int
    calls: Calls
    state_differences: tuple[StateDifference, ...] = ()
    rule_success: bool | None = None
    """None where the scenario expects nothing."""
    judge_success: bool | None = None
    judge_reason: str = ""
    fault: Fault | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    currency: str = ""
    seconds: float = 0.0

    @property
    def success(self) -> bool | None:
        """By rule, else by the judge; None where neither decides."""
        return self.judge_success if self.rule_success is None else self.rule_success


def compare_calls(conversation: Conversation, expectation: Expectation) -> Calls:
    """Match the calls that reached the API with the expected ones, each at most once."""
    made = [utterance for utterance in conversation.utterances if utterance.is_action]
    arrived = {_place(result, conversation) for result in conversation.results if _arrived(result)}
    open_calls = [(name, canonical(arguments)) for name, arguments in expectation.calls]
    surplus = []
    for call in made:
        key = (call.action, canonical(call.action_input))
        if call.index in arrived and key in open_calls:
            open_calls.remove(key)
        else:
            surplus.append(call.index)
    return Calls(
        made=len(made),
        expected=len(expectation.calls),
        matched=len(made) - len(surplus),
        missing=tuple(f"{name}({arguments})" for name, arguments in open_calls),
        surplus=tuple(surplus),
    )


def _arrived(result: Utterance) -> bool:
    return not result.controller and (result.status_code or 0) < SERVER_ERROR


def _place(result: Utterance, conversation: Conversation) -> int:
    """The index of the call that a result belongs to, which is the utterance before it."""
    return next(u.index for u in reversed(conversation.utterances[: result.index]) if u.is_action)


def canonical(value: Any) -> str:
    """JSON in which equal values are equal text: keys in order, 3.0 as 3, text without space around it."""
    return json.dumps(_canonical(value), ensure_ascii=False, sort_keys=True)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.strip() if isinstance(value, str) else value


def differences(actual: Any, expected: Any, path: str = "") -> Iterable[StateDifference]:
    """The paths at which two JSON values differ."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in sorted({*actual, *expected}, key=str):
            yield from differences(actual.get(key), expected.get(key), f"{path}.{key}" if path else str(key))
    elif _canonical(actual) != _canonical(expected):
        yield StateDifference(path, json.dumps(actual, ensure_ascii=False), json.dumps(expected, ensure_ascii=False))


def rule_success(calls: Calls, state_differences: Iterable[StateDifference], expectation: Expectation) -> bool | None:
    """Success by rule: every expected call was made and the state is the expected one; None if nothing is expected."""
    if not expectation.calls and expectation.state is None:
        return None
    return not calls.missing and not tuple(state_differences)


@dataclass(frozen=True, kw_only=True)
class Used:
    """Tokens, and cost where that of each call is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    currency: str = ""


def used_by(conversation: Conversation) -> Used:
    """What all models of the conversation used."""
    usages = [u.usage for u in conversation.utterances if u.usage]
    total = add_usages(usages)
    return Used(
        input_tokens=total.get("input", 0),
        output_tokens=total.get("output", 0),
        cost=total.get("cost"),
        currency=total.get("currency", ""),
    )
