"""Error messages in Chinese; the message of an error itself is in English."""

from ..core.errors import SegueError
from .catalogue import catalogue
from .language import Language
from .words import described

_TRANSLATED = ("kind", "kinds", "role", "status", "state", "choices", "known", "fault", "reason", "advice")


def template_of(error: SegueError) -> str:
    """The Chinese template of an error; a class without one has that of the nearest class above it."""
    known = catalogue("zh")["errors"]
    named = next(known[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in known)
    return known.get(error.template, named)


def render(error: SegueError, language: Language) -> str:
    """The error's sentence in a language; free text from elsewhere stays as it is."""
    if language == "en":
        return str(error)
    slots = {name: str(value) for name, value in error.params.items()}
    slots |= {name: described(slots[name], language) for name in _TRANSLATED if name in slots}
    return template_of(error).format(**slots, sentence=str(error))
