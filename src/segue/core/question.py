"""A person's answers to a flow's question, and the kinds of interrupt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .decision import check_storable
from .errors import InvalidAnswer

MOST_BYTES = 32 * 1024
ANSWER_FORMS: Mapping[str, str] = {
    "approval": '{"verdicts": [{"index": 0, "verdict": "approve" | "edit" | "reject"}]}, or "approve" or "reject"',
    "question": '{"answer": "…"}, or {"manual_finish": true}',
    "utterance": '{"answer": "…"}',
}
"""How each kind of question is answered."""
API_CALL = "api_call"
"""The kind of interrupt that the conversation answers: an agent that is its bot calls the API."""
CLIENT_CALL = "client_call"
"""In a question: the call {"id", "name", "arguments"} that the task's client carries out; the answer is its result."""
PAUSE = "pause"
"""The kind of interrupt that is no question: a node stops, since a pause was requested."""
FORM = 'a text, {"answer": "…"}, or {"manual_finish": true} to end the task'


@dataclass(frozen=True)
class PersonsAnswer:
    """The text of an answer; with `manual_finish` the person ends the flow instead."""

    text: str
    manual_finish: bool = False

    def json(self) -> dict[str, Any]:
        """The form that is stored."""
        return {"answer": self.text, "manual_finish": self.manual_finish}


def read_answer(given: object) -> PersonsAnswer:
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
    if len(text.encode()) > MOST_BYTES:
        raise InvalidAnswer("The answer is longer than {most} bytes: shorten it.", most=MOST_BYTES)
    return PersonsAnswer(text.strip(), ends)
