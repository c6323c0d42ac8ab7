"""Error messages in a reader's language; the message of an error itself is in English."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ..core.clause import Clause
from ..core.errors import SegueError
from .catalogue import Texts, catalogue
from .language import Language
from .words import word

problem_sentence = Texts("http")
_WORDS = ("status", "state", "known", "reason")
"""The values that may be names: of a status, of the state of a file, of why a checkpoint is damaged, or "none"."""


def template_of(error: SegueError) -> str:
    """The Chinese template of an error; a class without one has that of the nearest class above it."""
    known = catalogue("zh")["errors"]
    named = next(known[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in known)
    return known.get(error.template, named)


def render(error: SegueError, language: str) -> str:
    """The error's sentence in a language; free text from elsewhere stays as it is."""
    if language != "zh":
        return str(error)
    slots = {name: rendered(value, language) for name, value in error.params.items()}
    slots |= {name: word(slots[name], language) for name in _WORDS if name in slots}
    return template_of(error).format(**slots, sentence=str(error))


def sentence_of(error: BaseException, language: str) -> str:
    """The sentence of an error of Segue in a language; of any other error its type and its text."""
    return render(error, language) if isinstance(error, SegueError) else f"{type(error).__name__}: {error}"


def rendered(value: object, language: str) -> str:
    """A value of a sentence: of a clause its translation, of anything else its text."""
    if not isinstance(value, Clause) or language != "zh":
        return str(value)
    template = catalogue(language)["clauses"].get(value.template, value.template)
    slots = {name: rendered(inner, language) for name, inner in value.values.items()}
    return template.format(**slots) if slots else template


def invalid_request(errors: Sequence[Mapping[str, Any]], language: Language, known: Collection[str] = ()) -> str:
    """Where a request is invalid and why, but not what it held.

    `errors` are pydantic's, `known` the fields that its body may have.
    """
    if errors[0]["type"] == "json_invalid":
        return problem_sentence("InvalidJson", language, position=errors[0]["loc"][-1], why=errors[0]["ctx"]["error"])
    reasons = [f"{'.'.join(str(part) for part in error['loc'])}: {_reason(error, language, known)}" for error in errors]
    return problem_sentence("InvalidRequest", language, reasons="; ".join(reasons)[:1000])


def _reason(error: Mapping[str, Any], language: Language, known: Collection[str]) -> str:
    if error["type"] == "model_attributes_type" and tuple(error["loc"]) == ("body",):
        return problem_sentence("NotAnObject", language)
    template = catalogue(language)["validation"].get(error["type"])
    reason = template.format(**error.get("ctx", {})) if template else str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden" and (near := get_close_matches(str(error["loc"][-1]), known, 1)):
        return problem_sentence("MeantField", language, reason=reason, name=near[0])
    return reason


def render_over_http(error: SegueError, language: Language) -> str:
    """The error's sentence for a client of the service."""
    known = catalogue(language)["errors_over_http"]
    template = known.get(error.template) or known.get(type(error).__name__)
    if template is None:
        return render(error, language)
    return template.format(**{name: rendered(value, language) for name, value in error.params.items()})
