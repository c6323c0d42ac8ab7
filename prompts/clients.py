"""Progress of tasks for clients of other protocols, and the results of calls that they carry out."""

import json
from collections.abc import Mapping
from typing import Any

from .catalogue import Texts
from .language import Language

_text = Texts("protocols")


def progress(kind: str, language: Language, **slots: object) -> str:
    """The sentence on how far a task is; empty for what is not worth one."""
    name = f"progress_{kind.lower()}"
    return _text(name, language, **slots) if name in _text else ""


def client_call_notice(name: str, arguments: Mapping[str, Any], language: Language) -> str:
    """The question of a call that the client carries out."""
    shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return _text("client_call", language, name=name, arguments=shown)


def client_result(content: str | None, error: str, language: Language) -> str:
    """The result of a client's call: its content, None where it sent none, or error."""
    if error:
        return _text("client_error", language, error=error)
    if content is None:
        return _text("no_result", language)
    return content.strip() or _text("carried_out", language)


def with_message(result: str, message: str, language: Language) -> str:
    """The result of a client's call, and what the user wrote since."""
    return f"{result}\n\n{_text('user_wrote', language, message=message)}"


def not_carried_out(language: Language) -> str:
    """The error of a call that a person ended."""
    return _text("not_carried_out", language)


def no_answer(language: Language) -> str:
    """The sentence on a task that stopped without an answer."""
    return _text("no_answer", language)
