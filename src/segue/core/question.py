"""A person's answers to a flow's question, and the kinds of interrupt."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .decision import check_storable
from .errors import InvalidAnswer

MOST_BYTES = 32 * 1024
MOST_RESULT_BYTES = 256 * 1024
"""Of the result of a call that the task's client carried out."""
ANSWER_FORMS: Mapping[str, str] = {
    "approval": '{"verdicts": "approve" | "reject"}, or '
    '{"verdicts": [{"index": 0, "verdict": "approve" | "edit" | "reject"}]}',
    "question": '{"answer": "…"}, or {"manual_finish": true}',
    "utterance": '{"answer": "…"}',
    "interrupt": '{"answer": "…"}',
    "spend": '{"limit": 5.0}, or {"answer": "cancel"}',
}
"""How each kind of question is answered."""
API_CALL = "api_call"
"""The kind of interrupt that the conversation answers: an agent that is its bot calls the API."""
CLIENT_CALLS = "client_calls"
"""In a question: the calls {"id", "name", "arguments"} that the task's client carries out; the answer has results."""
WAIT = "wait"
"""The kind of interrupt that a moment ends (`until`), or a named `event`: no person is asked."""
PAUSE = "pause"
"""The kind of interrupt that is no question: a node stops, since a pause was requested."""
INTERRUPT = "interrupt"
"""The kind of interrupt of a graph of one's own, whose value may be anything."""
TEXTUAL = frozenset({"question", "utterance"})
"""The kinds of question whose answer is only read, by a model: any text is one."""
KINDS = {*ANSWER_FORMS, API_CALL, WAIT}
FORM = 'a text, {"answer": "…"}, or {"manual_finish": true} to end the task'


@dataclass(frozen=True)
class PersonsAnswer:
    """The text of an answer; with `manual_finish` the person ends the flow instead."""

    text: str
    manual_finish: bool = False

    def json(self) -> dict[str, Any]:
        """The form that is stored."""
        return {"answer": self.text, "manual_finish": self.manual_finish}


def read_question(value: Any) -> dict[str, Any]:
    """The value of an interrupt as a question; a value that is none of Segue's is answered with a text."""
    if isinstance(value, Mapping) and value.get("kind") in KINDS:
        return dict(value)
    asked = value.get("question", value) if isinstance(value, Mapping) else value
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)
    return {"kind": INTERRUPT, "question": text}


def read_answer(given: object, most: int = MOST_BYTES) -> PersonsAnswer:
    """Read a text, {"answer": text} or {"manual_finish": true}.

    Raises:
        InvalidAnswer: it is none of them, empty, or too long.
    """
    if isinstance(given, PersonsAnswer):
        return given
    if isinstance(given, str):
        given = {"answer": given}
    if not isinstance(given, Mapping):
        raise InvalidAnswer("The answer does not fit the question: give {form}.", form=FORM)
    text, ends = given.get("answer", ""), bool(given.get("manual_finish"))
    if not isinstance(text, str) or not (ends or text.strip()):
        raise InvalidAnswer("The answer does not fit the question: give {form}.", form=FORM)
    try:
        check_storable(text)
    except ValueError as error:
        raise InvalidAnswer("The answer cannot be stored: {error}.", error=error) from error
    if len(text.encode()) > most:
        raise InvalidAnswer("The answer is longer than {most} bytes: shorten it.", most=most)
    return PersonsAnswer(text.strip(), ends)


def read_results(given: object, calls: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """The results of calls by their ids: {"results": {id: text}}, or an answer, which is the result of the first call.

    A call that was not carried out has None: those of `manual_finish`.

    Raises:
        InvalidAnswer: they are not of these calls, or one is not text, empty, or too long.
    """
    ids = [call["id"] for call in calls]
    if not isinstance(given, Mapping) or "results" not in given:
        answer = read_answer(given, MOST_RESULT_BYTES)
        return dict.fromkeys(ids) if answer.manual_finish else {ids[0]: answer.text}
    results = given["results"]
    if not isinstance(results, Mapping) or not results or not results.keys() <= set(ids):
        raise InvalidAnswer("The results do not match the waiting calls: {calls}.", calls=", ".join(ids))
    return {call_id: read_answer({"answer": text}, MOST_RESULT_BYTES).text for call_id, text in results.items()}
