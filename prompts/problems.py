"""Error messages of the HTTP service."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import SegueError
from .catalogue import Texts, catalogue
from .errors import render
from .language import Language

problem_sentence = Texts("http")


def invalid_request(errors: Sequence[Mapping[str, Any]], language: Language) -> str:
    """Where a request is invalid and why, but not what it held; `errors` are pydantic's."""
    reasons = [f"{'.'.join(str(part) for part in error['loc'])}: {_reason(error, language)}" for error in errors]
    return problem_sentence("InvalidRequest", language, reasons="; ".join(reasons)[:1000])


def _reason(error: Mapping[str, Any], language: Language) -> str:
    if error["type"] == "model_attributes_type" and tuple(error["loc"]) == ("body",):
        return problem_sentence("NotAnObject", language)
    template = catalogue(language).get("validation", {}).get(error["type"])
    return template.format(**error.get("ctx", {})) if template else str(error["msg"]).removeprefix("Value error, ")


def render_over_http(error: SegueError, language: Language) -> str:
    """The error's sentence for a client of the service."""
    known = catalogue(language)["errors_over_http"]
    template = known.get(error.template) or known.get(type(error).__name__)
    if template is None:
        return render(error, language)
    slots = {name: str(value) for name, value in error.params.items()}
    return template.format(**slots)
