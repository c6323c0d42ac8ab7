"""Prompts by name and language, filled in one pass: a value is never read as a template."""

import re
from functools import cache
from pathlib import Path

from segue.core.agents import Agent
from segue.core.errors import ConfigurationError

from .catalogue import language_of, phrase

FOLDER = Path(__file__).parent
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@cache
def template(name: str, language: str) -> str:
    """The text of `<name>.<language>.md`.

    Raises:
        ConfigurationError: there is no such prompt.
    """
    file = FOLDER / f"{name}.{language}.md"
    if not file.is_file():
        raise ConfigurationError("There is no prompt {name}.", name=file.name)
    return file.read_text(encoding="utf-8").strip()


def bilingual(name: str) -> str:
    """A prompt in both languages, for an agent that answers in either."""
    return f"{template(name, 'zh')}\n{template(name, 'en')}"


def fill(text: str, **slots: str) -> str:
    """Put values into `{{slots}}`; a slot that is not given stays as it is, and values are not searched for slots."""
    return _SLOT.sub(lambda found: slots.get(found[1], found[0]), text)


def has_slot(text: str, slot: str) -> bool:
    """Whether a text has a place for that slot."""
    return any(found[1] == slot for found in _SLOT.finditer(text))


def render(name: str, language: str, **slots: str) -> str:
    """A prompt with its values; every slot of the prompt must be given.

    Raises:
        ConfigurationError: a slot has no value.
    """
    text = template(name, language)
    if missing := {found[1] for found in _SLOT.finditer(text)} - slots.keys():
        raise ConfigurationError(
            "The prompt {name}.{language}.md needs values for: {missing}.",
            name=name,
            language=language,
            missing=", ".join(sorted(missing)),
        )
    return fill(text, **slots)


def agent_prompt(agent: Agent, language: str, message: str, *, current_state: str = "", tools: str = "") -> str:
    """The agent's own prompt or the default one, and the language that the message is to be answered in."""
    own = fill(agent.prompt or template("agent", language), current_state=current_state, tools=tools)
    chosen = agent.language or language_of(message) != language
    return f"{own}\n\n{phrase('answer_in' if chosen else 'answer_alike', language)}"
