"""The texts that people read, by language: sentences, words, labels and errors; and the prompts of models.

A text has an id in a section. English sentences of errors, and words inside them, are in the code: their sections are
in the Chinese catalogue only, by the error's class or template, or by the English word.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.core.errors import Clause, ConfigurationError, SegueError
from segue.core.task import LANGUAGES
from segue.core.task import Language as Language

if TYPE_CHECKING:
    from segue.core.agents import Agent

_LOCALES = Path(__file__).parent / "locales"


@cache
def catalogue(language: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of a language's catalogue; every language that has none reads English."""
    file = _LOCALES / f"{language if language in LANGUAGES else 'en'}.json"
    sections: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return sections


@dataclass(frozen=True)
class Texts:
    """The texts of one section."""

    section: str

    def __call__(self, name: str, language: str, /, **values: object) -> str:
        """A text in a language; braces in the values stay as they are."""
        return catalogue(language)[self.section][name].format(**values)

    def __contains__(self, name: str) -> bool:
        return name in catalogue("en")[self.section]


task_text = Texts("task")
terminal_text = Texts("terminal")
report_text = Texts("report")
backtest_text = Texts("backtest")
chaos_text = Texts("chaos")
rehearsal_text = Texts("rehearsal")
_mode_text = Texts("modes")


def mode_label(name: str, language: str) -> str:
    """What a mode is called; a mode of one's own by its name."""
    return _mode_text(name, language) if name in _mode_text else name


def mode_description(name: str, language: str) -> str:
    """What a mode does."""
    described = f"{name}_description"
    return _mode_text(described if described in _mode_text else "own_description", language)


# The language that a person writes in, and that they are answered in.

_QUOTED = re.compile(
    r"```.*?(?:```|$)|`[^`]*`|“[^”]*”|\"[^\"]*\"|「[^」]*」|『[^』]*』|《[^》]*》|(?<!\w)'[^']*'(?!\w)"
    r"|(?<!\w)\w+://\S+|(?<![\w/\\.~-])[\w/\\.~-]*\w\.[A-Za-z][A-Za-z0-9]{0,5}(?![A-Za-z0-9])",
    re.DOTALL,
)
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = re.compile(r"[\u3041-\u30ff\u31f0-\u31ff\uac00-\ud7af\u1100-\u11ff]")
_WORD = re.compile(r"[^\W\d_\u1100-\u11ff\u3041-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_QUALITY = re.compile(r"\s*q=([01](?:\.\d{0,3})?)\s*")
_NAME = re.compile(r"[^A-Z]*[A-Z].*|.")
"""A word with a capital, or a single letter."""


def without_quotations(text: str) -> str:
    """The text without code, quotations, titles, addresses and file names."""
    kept, start = list[str](), 0
    for other in _QUOTED.finditer(only_closed(text)):
        kept.append(text[start : other.start()])
        start = other.end()
    return " ".join([*kept, text[start:]])


def only_closed(text: str) -> str:
    """The text with a null character for each opening quotation mark that is never closed.

    A search for quotations would read to the end of the text from each of them.
    """
    for opening, closing in ("“”", "「」", "『』", "《》"):
        last = text.rfind(closing) + 1
        text = text[:last] + text[last:].replace(opening, "\0")
    return text


def language_of(text: str) -> Language:
    """Chinese where most of the person's own words are.

    A Chinese character counts one, a Latin word one and a half, a name in Latin letters a half, since a Chinese
    sentence has them too. Among kana or hangul, Chinese characters are Japanese or Korean.
    """
    own = without_quotations(text).lstrip()
    counted = own[:1].lower() + own[1:] if _HAN.search(own) or _WORD.search(own) else text
    han = len(_HAN.findall(counted))
    foreign = 2 * len(_KANA_OR_HANGUL.findall(counted))
    words = sum(0.5 if _NAME.fullmatch(word) else 1.5 for word in _WORD.findall(counted))
    return "zh" if han > foreign and han >= words else "en"


def accepted_language(header: str) -> Language:
    """The language that an Accept-Language header prefers; English where it names neither."""
    ranges = sorted((part.partition(";") for part in header.split(",")), key=lambda part: _weight(part[2]))
    return next(filter(None, (language_named(tag) for tag, _, _ in ranges)), "en")


def _weight(parameter: str) -> float:
    """The quality of a range, negated, so that the best sorts first."""
    found = _QUALITY.fullmatch(parameter)
    return -float(found[1]) if found else -1.0


def language_named(tag: str) -> Language | None:
    """The language of a tag or locale such as zh, zh-Hans, en_GB.UTF-8; None where it is another one or none."""
    name = re.split(r"[-_.@]", tag.strip().lower())[0]
    return next((language for language in LANGUAGES if language == name), None)


# Single words in tables and messages, by the English word; and what stands between words.

_separator = Texts("separators")


def colon(language: str) -> str:
    """The separator between a label and its text."""
    return _separator("colon", language)


def comma(language: str) -> str:
    """The separator between parts of a sentence, where those of `joined` would be items of a list."""
    return _separator("comma", language)


def label(english: str, language: str) -> str:
    """A label of an entry, with its colon."""
    labels = catalogue(language).get("labels")
    return (labels[english] if labels else english) + colon(language)


def joined(items: Iterable[str], language: str) -> str:
    """The items in a row: a, b, c."""
    return _separator("items", language).join(items)


def clauses(items: Iterable[str], language: str) -> str:
    """The items as clauses in a row: a; b; c."""
    return _separator("clauses", language).join(items)


def with_more(text: str, more: str, language: str) -> str:
    """The text, and more in brackets."""
    return _separator("in_brackets", language, text=text, more=more)


def enumerated(items: Sequence[str], language: str) -> str:
    """The items as a list in a sentence: a, b and c."""
    *others, last = items
    return f"{joined(others, language)}{word(' and ', language)}{last}" if others else last


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return catalogue(language).get("words", {}).get(english, english)


# Sentences of the data tools.

data_text = Texts("data")
MOST_NAMES = 30
"""Names that a sentence lists at most."""


def listing(names: Sequence[str], language: Language) -> str:
    """The first `MOST_NAMES` names in a row, and how many more there are; "none" if there is no name."""
    shown = joined(names[:MOST_NAMES], language) or data_text("none", language)
    more = len(names) - MOST_NAMES
    return shown + data_text("and_more", language, n=more) if more > 0 else shown


# Error messages in a reader's language; the message of an error itself is in English.

http_text = Texts("http")
_WORDS = ("status", "state", "known", "reason")
"""The values that may be names: of a status, of the state of a file, of why a checkpoint is damaged, or "none"."""


def template_of(error: SegueError, language: str) -> str:
    """The template of an error in a language other than English; a class without one has that of its parent."""
    known = catalogue(language)["errors"]
    named = next(known[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in known)
    return known.get(error.template, named)


def error_text(error: SegueError, language: str) -> str:
    """The error's sentence in a language; free text from elsewhere stays as it is."""
    if "errors" not in catalogue(language):
        return str(error)
    slots = {name: rendered(value, language) for name, value in error.params.items()}
    slots |= {name: word(slots[name], language) for name in _WORDS if name in slots}
    return template_of(error, language).format(**slots, sentence=str(error))


def sentence_of(error: BaseException, language: str) -> str:
    """The sentence of an error of Segue in a language; of any other error its type and its text."""
    return error_text(error, language) if isinstance(error, SegueError) else f"{type(error).__name__}: {error}"


def rendered(value: object, language: str) -> str:
    """A value of a sentence: of a clause its translation, of anything else its text."""
    if not isinstance(value, Clause):
        return str(value)
    template = catalogue(language).get("clauses", {}).get(value.template, value.template)
    slots = {name: rendered(inner, language) for name, inner in value.values.items()}
    return template.format(**slots) if slots else template


def invalid_request(errors: Sequence[Mapping[str, Any]], language: Language, known: Collection[str] = ()) -> str:
    """Where a request is invalid and why, but not what it held.

    `errors` are pydantic's, `known` the fields that its body may have.
    """
    if errors[0]["type"] == "json_invalid":
        return http_text("InvalidJson", language, position=errors[0]["loc"][-1], why=errors[0]["ctx"]["error"])
    reasons = [f"{'.'.join(str(part) for part in error['loc'])}: {_reason(error, language, known)}" for error in errors]
    return http_text("InvalidRequest", language, reasons="; ".join(reasons)[:1000])


def _reason(error: Mapping[str, Any], language: Language, known: Collection[str]) -> str:
    if error["type"] == "model_attributes_type" and tuple(error["loc"]) == ("body",):
        return http_text("NotAnObject", language)
    template = catalogue(language)["validation"].get(error["type"])
    reason = template.format(**error.get("ctx", {})) if template else str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden" and (near := get_close_matches(str(error["loc"][-1]), known, 1)):
        return http_text("MeantField", language, reason=reason, name=near[0])
    return reason


def render_over_http(error: SegueError, language: Language) -> str:
    """The error's sentence for a client of the service."""
    known = catalogue(language)["errors_over_http"]
    template = known.get(error.template) or known.get(type(error).__name__)
    if template is None:
        return error_text(error, language)
    return template.format(**{name: rendered(value, language) for name, value in error.params.items()})


# Prompts, filled in one pass: a value is never read as a template.

FOLDER = Path(__file__).parent
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@cache
def template(name: str, language: str) -> str:
    """The text of `<name>.<language>.md`."""
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
    """A prompt with its values; every slot of the prompt must be given."""
    text = template(name, language)
    if missing := {found[1] for found in _SLOT.finditer(text)} - slots.keys():
        raise ConfigurationError(
            "The prompt {name}.{language}.md needs values for: {missing}.",
            name=name,
            language=language,
            missing=", ".join(sorted(missing)),
        )
    return fill(text, **slots)


def agent_prompt(agent: "Agent", language: str, message: str, *, current_state: str = "", tools: str = "") -> str:
    """The agent's own prompt or the default one, and the language that the message is to be answered in."""
    own = fill(agent.prompt or template("agent", language), current_state=current_state, tools=tools)
    chosen = agent.language or language_of(message) != language
    return f"{own}\n\n{task_text('answer_in' if chosen else 'answer_alike', language)}"
