"""Workflows and scenarios, the `{references}` in their templates, and their policy."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ...core.conversation import Role, Utterance
from ...core.errors import Clause, listed
from ...core.records import Json
from ...core.task import Language

_REFERENCE = re.compile(r"\{([\w.|]+)\}")
MISSING = object()


def references(text: str) -> list[str]:
    """The references of a template."""
    return _REFERENCE.findall(text)


def look_up(reference: str, values: Mapping[str, Any]) -> Any:
    """The value of the first alternative that has one, or `MISSING`."""
    for alternative in reference.split("|"):
        value = _path(alternative.split("."), values)
        if value is not MISSING:
            return value
    return MISSING


def _path(path: list[str], value: Any) -> Any:
    for key in path:
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its references filled in; one that is a single reference keeps the value's type."""
    if not isinstance(template, str):
        return template
    if whole := _REFERENCE.fullmatch(template):
        value = look_up(whole[1], values)
        return template if value is MISSING else value
    return _REFERENCE.sub(lambda found: text_of(look_up(found[1], values), found[0]), template)


def text_of(value: Any, default: str = "") -> str:
    """A value as a person reads it: the items of lists and the values of objects in their order."""
    if value is MISSING or value is None:
        return default
    if isinstance(value, list):
        return "; ".join(text_of(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(text_of(item) for item in value.values())
    return str(value)


Location = tuple[str | int, ...]
"""The path of a value in a document: keys and list indexes."""


class Mismatch(NamedTuple):
    """A name that does not fit the rest of a workflow; `reason` is a template of the values."""

    at: Location
    reason: str
    values: Mapping[str, object]


class Record(BaseModel):
    """A frozen record that takes no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Slot(Record):
    """Something that only the user knows."""

    description: str = Field(min_length=1)
    ask: str = Field(min_length=1)
    """The question; `{references}` are filled in."""
    keywords: tuple[str, ...] = ()
    """Words by which a simulated user recognises a question about it; without any, by the description."""
    pattern: str = ""
    """A regular expression for its value in the user's text: its first group, or the whole match."""
    choices: Mapping[str, tuple[str, ...]] = {}
    """Values, and the words that stand for each."""
    case: Literal["", "upper", "lower"] = ""
    volunteered: bool = False
    """Whether it is also read where the user says it unasked."""
    replies: tuple[str, ...] = ("{value}",)
    """How a simulated user may say it."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"should be a regular expression ({error})") from None
        return pattern

    def value_in(self, text: str) -> str | None:
        """The slot's value in a text; None if there is none.

        The longest word of a choice wins, a pattern comes next, and a slot with neither takes the whole text.
        """
        found = max(self._choices_in(text), default=None)
        if found:
            return found[1]
        if self.pattern:
            match = re.search(self.pattern, text)
            return self._cased(match[1] if match.re.groups else match[0]) if match else None
        return None if self.choices else self._cased(text.strip()) or None

    def _choices_in(self, text: str) -> Iterator[tuple[int, str]]:
        for value, words in self.choices.items():
            for word in words:
                # whole words in scripts that separate them; Chinese has no spaces between words
                pattern = rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word)
                if re.search(pattern, text, re.IGNORECASE):
                    yield len(word), value

    def _cased(self, value: str) -> str:
        return {"upper": value.upper, "lower": value.lower}.get(self.case, lambda: value)()


class Api(Record):
    """A function of the system behind the workflow; `requires` names those that must have succeeded before."""

    description: str = Field(min_length=1)
    parameters: Json = Field(default_factory=lambda: {"type": "object", "properties": {}})
    requires: tuple[str, ...] = ()


class Failure(Record):
    """What to do when a call fails: tell an answer, and ask again for what may have been wrong."""

    answer: str
    ask: tuple[str, ...] = ()


class Step(Record):
    """One step of the procedure: collect slots, call an API, tell an answer; any of them may be missing.

    `when` names slots and results (`api.field`) with the values that they must have for the step to apply: one, a list
    of alternatives, `present` or `missing`.
    """

    name: str = Field(min_length=1)
    description: str = Field(min_length=1)
    when: Mapping[str, Any] = {}
    collect: tuple[str, ...] = ()
    call: str = ""
    arguments: Mapping[str, Any] = {}
    failures: Mapping[int, Failure] = {}
    answer: str = ""


class Workflow(Record):
    """What a bot has to follow. `policy` is the text of the document below its front matter."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str = Field(min_length=1)
    language: Language = "en"
    backend: str = ""
    scenarios: str = ""
    slots: Mapping[str, Slot]
    apis: Mapping[str, Api]
    procedure: tuple[Step, ...] = Field(min_length=1)
    repeat_from: str = ""
    """The step that a further request of the user begins with."""
    answers: Mapping[str, str]
    policy: str = ""

    def faults(self) -> Iterator[Mismatch]:
        """Every name that is used and not defined, with its place."""
        for name, api in self.apis.items():
            yield from self._unknown(("apis", name, "requires"), api.requires, self.apis, "API")
            if name in api.requires:
                yield Mismatch(("apis", name, "requires"), "'{name}' cannot require itself", {"name": name})
        names = [step.name for step in self.procedure]
        for place, step in enumerate(self.procedure):
            if step.name in names[:place]:
                yield Mismatch(("procedure", place, "name"), "there are two steps '{name}'", {"name": step.name})
            yield from self._faults_of_step(("procedure", place), step)
        if self.repeat_from:
            yield from self._unknown(("repeat_from",), [self.repeat_from], names, "step")
        yield from self._faults_of_templates()
        for required in ("closing", "failed"):
            if required not in self.answers:
                yield Mismatch(("answers",), "the answer '{name}' is missing", {"name": required})

    def _faults_of_step(self, at: Location, step: Step) -> Iterator[Mismatch]:
        yield from self._unknown((*at, "collect"), step.collect, self.slots, "slot")
        if step.call:
            yield from self._unknown((*at, "call"), [step.call], self.apis, "API")
        if step.answer:
            yield from self._unknown((*at, "answer"), [step.answer], self.answers, "answer")
        for status, failure in step.failures.items():
            yield from self._unknown((*at, "failures", status), [failure.answer], self.answers, "answer")
            yield from self._unknown((*at, "failures", status), failure.ask, self.slots, "slot")
        known = [*self.slots, *self.apis]
        for reference in step.when:
            yield from self._unknown((*at, "when"), [reference.split(".")[0]], known, "slot or API")
        if api := self.apis.get(step.call):
            parameters = api.parameters.get("properties", {})
            yield from self._unknown((*at, "arguments"), step.arguments, parameters, "parameter")

    def _faults_of_templates(self) -> Iterator[Mismatch]:
        """References that nothing fills in: to neither a slot nor a result."""
        known = [*self.slots, *self.apis]
        for name, slot in self.slots.items():
            yield from self._unfilled(("slots", name, "ask"), slot.ask, known)
            for reply in slot.replies:
                yield from self._unfilled(("slots", name, "replies"), reply, ["value"])
        for name, answer in self.answers.items():
            yield from self._unfilled(("answers", name), answer, [*known, "error"])
        for place, step in enumerate(self.procedure):
            for name, template in step.arguments.items():
                yield from self._unfilled(("procedure", place, "arguments", name), str(template), known)

    def _unfilled(self, at: Location, template: str, known: Sequence[str]) -> Iterator[Mismatch]:
        names = [part.split(".")[0] for reference in references(template) for part in reference.split("|")]
        yield from self._unknown(at, names, known, "slot or API")

    def _unknown(self, at: Location, names: Any, known: Any, kind: str) -> Iterator[Mismatch]:
        for name in names:
            if name not in known:
                values = {"name": name, "kind": Clause(kind), "known": listed(known)}
                yield Mismatch(at, "'{name}' is not a known {kind}; use one of: {known}", values)


class Persona(Record):
    """Who a simulated user is.

    `facts` are the values of the workflow's slots that the persona knows; a list is what it says the first time, the
    second time and so on. `volunteers` are the facts that its opening includes. `script` is the same conversation
    for a scripted user.
    """

    profile: str = Field(min_length=1)
    goal: str = Field(min_length=1)
    style: str = ""
    opening: tuple[str, ...] = Field(min_length=1)
    """Variants of the first message; the seed picks one."""
    requests: tuple[str, ...] = ()
    """What it asks for once the first request is settled."""
    facts: Mapping[str, str | tuple[str, ...]] = {}
    volunteers: tuple[str, ...] = ()
    script: tuple[str, ...] = ()


class ExpectedCall(Record):
    """A call that the persona's goal needs; without `arguments`, with any."""

    name: str
    arguments: Json | None = None


class Scenario(Record):
    """A persona, and what should come of the conversation; `changes` are the paths of the state that it changes."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    persona: Persona
    expected_calls: tuple[ExpectedCall, ...] = ()
    changes: Mapping[str, Any] = {}

    def expected_state(self, initial: Mapping[str, Any]) -> Json:
        """The backend's state after the conversation: the initial one with the changes made."""
        state: Json = deepcopy(dict(initial))
        for path, value in self.changes.items():
            *parents, last = path.split(".")
            inner = state
            for key in parents:
                inner = inner.setdefault(key, {})
            inner[last] = deepcopy(value)
        return state


# The deterministic policy of a workflow: fills slots from what the user says, calls APIs, answers by templates.
#
# What it does next is a function of the workflow and the conversation so far, so that an interrupted conversation
# continues where it was.

PRESENT, ABSENT = "present", "missing"
"""Conditions on whether there is a value at all."""


@dataclass(frozen=True)
class Call:
    """The next move is a call."""

    name: str
    arguments: Json


@dataclass(frozen=True)
class Reply:
    """The next move is a reply; `asks` are the slots that it asks for, `tells` the step whose answer it gives."""

    text: str
    asks: tuple[str, ...] = ()
    tells: str = ""
    settles: bool = False
    """Whether the user's request is settled with it, one way or the other."""


class DialogueState:
    """What a conversation has established so far."""

    def __init__(self, workflow: Workflow, utterances: Iterable[Utterance] = ()) -> None:
        self._workflow = workflow
        self._slots: dict[str, str] = {}
        self._results: dict[str, Any] = {}
        self._calls: dict[str, dict[str, Utterance]] = {}
        self._answered: set[str] = set()
        self._last = Reply("")
        for utterance in utterances:
            self._record(utterance)

    @property
    def asked(self) -> tuple[str, ...]:
        """The slots that the last reply asks for."""
        return self._last.asks

    def move(self) -> Call | Reply:
        """What to do next."""
        for step in self._workflow.procedure:
            move = self._move_of(step)
            if move:
                return move
        return Reply(self._answer("closing"), settles=True)

    def _record(self, utterance: Utterance) -> None:
        if utterance.role is Role.USER:
            self._read_slots(utterance.text)
        elif utterance.role is Role.API:
            calls = self._calls.setdefault(utterance.action, {})
            calls[_key(utterance.action_input)] = utterance
            if utterance.ok:
                self._results[utterance.action] = utterance.data
        elif not utterance.is_action:
            move = self.move()
            if isinstance(move, Reply):
                self._last = move
                self._answered |= {move.tells} - {""}

    def _read_slots(self, text: str) -> None:
        values = {
            name: value
            for name, slot in self._workflow.slots.items()
            if (name in self._last.asks or slot.volunteered) and (value := slot.value_in(text)) is not None
        }
        if self._last.settles and values.keys() & self._requests:
            self._start_request()
        # one that is filled changes only where it was asked for, or with a new request
        self._slots |= {
            name: value for name, value in values.items() if name in self._last.asks or name not in self._slots
        }

    @cached_property
    def _requests(self) -> frozenset[str]:
        """The slots that open a new request."""
        steps = {step.name: step for step in self._workflow.procedure}
        first = steps.get(self._workflow.repeat_from)
        return frozenset(first.collect if first else ())

    def _start_request(self) -> None:
        """Forget what belongs to the request that is settled."""
        names = [step.name for step in self._workflow.procedure]
        place = names.index(self._workflow.repeat_from)
        kept = {slot for step in self._workflow.procedure[:place] for slot in self._slots_of(step)}
        for step in self._workflow.procedure[place:]:
            self._results.pop(step.call, None)
            self._calls.pop(step.call, None)
            self._answered.discard(step.name)
        self._slots = {name: value for name, value in self._slots.items() if name in kept}

    def _slots_of(self, step: Step) -> list[str]:
        """The slots that a step uses, in the order in which it asks for them."""
        used = [*step.collect]
        for template in self._templates(step).values():
            used += [name for text in references(str(template)) for name in text.split("|")]
        return [name for name in dict.fromkeys(used) if name in self._workflow.slots]

    def _templates(self, step: Step) -> Mapping[str, Any]:
        """The arguments of a step's call; a required parameter that it does not name is the slot of that name."""
        if not step.call:
            return {}
        required = self._workflow.apis[step.call].parameters.get("required", ())
        return {name: f"{{{name}}}" for name in required} | dict(step.arguments)

    def _move_of(self, step: Step) -> Call | Reply | None:
        """What a step still has to do; None if it is done or does not apply."""
        applies = self._applies(step)
        if isinstance(applies, str):
            return self._ask(applies)
        if not applies or step.name in self._answered:
            return None
        missing = [name for name in self._slots_of(step) if name not in self._slots]
        if missing:
            return self._ask(missing[0])
        if step.call and (move := self._call(step)):
            return move
        return Reply(self._answer(step.answer), tells=step.name, settles=True) if step.answer else None

    def _applies(self, step: Step) -> bool | str:
        """Whether a step's conditions hold; the slot to ask for where that is still open."""
        for reference, expected in step.when.items():
            value = look_up(reference, self._values)
            if expected in (PRESENT, ABSENT):
                if (value is MISSING) is (expected == PRESENT):
                    return False
            elif value is MISSING:
                return reference if reference in self._workflow.slots else False
            elif value not in (expected if isinstance(expected, list | tuple) else [expected]):
                return False
        return True

    def _call(self, step: Step) -> Call | Reply | None:
        arguments = {name: fill(template, self._values) for name, template in self._templates(step).items()}
        made = self._calls.get(step.call, {}).get(_key(arguments))
        if made is None:
            return Call(step.call, arguments)
        return None if made.ok else self._failed(step, made)

    def _failed(self, step: Step, made: Utterance) -> Reply:
        failure = step.failures.get(made.status_code or 0)
        answer = self._answer(failure.answer if failure else "failed", error=_error(made.data))
        asks = failure.ask if failure else ()
        text = " ".join([answer, *(self._question(name) for name in asks)])
        return Reply(text, asks=asks, settles=not asks)

    def _ask(self, name: str) -> Reply:
        return Reply(self._question(name), asks=(name,))

    def _question(self, name: str) -> str:
        return str(fill(self._workflow.slots[name].ask, self._values))

    def _answer(self, name: str, **values: str) -> str:
        return str(fill(self._workflow.answers[name], self._values | values))

    @property
    def _values(self) -> Json:
        return self._results | self._slots


def next_move(workflow: Workflow, utterances: Iterable[Utterance]) -> Call | Reply:
    """What a bot that follows the workflow does next in a conversation."""
    return DialogueState(workflow, utterances).move()


def _key(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def _error(data: Any) -> str:
    found = data.get("error") if isinstance(data, Mapping) else data
    return re.sub(r"(?<![.\s])[.\s]*$", ".", str(found))
