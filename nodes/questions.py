"""What graphs ask a person in the middle of a task."""

from collections.abc import Sequence
from typing import Any

from langgraph.types import interrupt

from segue.core.calls import BY_SEGUE, PersonsAnswer, read_answer
from segue.core.errors import InvalidAnswer
from segue.prompts.catalogue import error_text


def ask_question(question: str, choices: Sequence[str], language: str) -> PersonsAnswer:
    """The answer to a question; the graph is interrupted until there is one that can be read."""
    asked: dict[str, Any] = {"kind": "question", "question": question, BY_SEGUE: True}
    if choices:
        asked["choices"] = [*choices]
    while True:
        try:
            return read_answer(interrupt(asked))
        except InvalidAnswer as error:
            asked = {**asked, "problem": error_text(error, language)}
