"""The texts that people read: one catalogue per language in `locales/`, read when its first text is needed.

A text has an id in a section. English sentences of errors, and words inside them, are in the code: their sections are
in the Chinese catalogue only, by the error's class or template, or by the English word.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "locales"


@cache
def catalogue(language: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of a language's catalogue; every language that has none reads English."""
    file = FOLDER / ("zh.json" if language == "zh" else "en.json")
    sections: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return sections


@dataclass(frozen=True)
class Texts:
    """The texts of one section."""

    section: str

    def __call__(self, name: str, language: str, /, **values: object) -> str:
        """A text in a language; braces in the values stay as they are.

        Raises:
            KeyError: there is no such text, or one of its values is missing.
        """
        return catalogue(language)[self.section][name].format(**values)

    def __contains__(self, name: str) -> bool:
        return name in catalogue("en")[self.section]


phrase = Texts("task")
sentence = Texts("terminal")
report_text = Texts("report")
backtest_text = Texts("backtest")
chaos_text = Texts("chaos")
rehearsed = Texts("rehearsal")
_mode_text = Texts("modes")


def mode_label(name: str, language: str) -> str:
    """What a mode is called; a mode of one's own by its name."""
    return _mode_text(name, language) if name in _mode_text else name


def mode_description(name: str, language: str) -> str:
    """What a mode does."""
    described = f"{name}_description"
    return _mode_text(described if described in _mode_text else "own_description", language)
