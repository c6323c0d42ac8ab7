"""The deterministic policy of a workflow: fills slots from what the user says, calls APIs, answers by templates.

What it does next is a function of the workflow and the conversation so far, so that an interrupted conversation
continues where it was.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...core.conversation import Role, Utterance
from ...core.records import Json
from .workflow import MISSING, Step, Workflow, fill, look_up, references

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
        self._slots |= {name: value for name, value in values.items() if name in self._last.asks or self._open_to(name)}

    def _open_to(self, name: str) -> bool:
        """Whether a slot takes a value that nobody asked for: one that is filled changes only with a new request."""
        return name not in self._slots

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
