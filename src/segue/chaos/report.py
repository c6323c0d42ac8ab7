"""A hunt's report: JSON, Markdown, and one page of HTML that loads nothing."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ..core.errors import MissingExtra
from ..core.records import Json
from ..prompts.catalogue import chaos_text
from ..rehearsal.report.files import environment
from ..rehearsal.text_file import replace_text
from .findings import Finding, Hunted

TEMPLATES = Path(__file__).parent / "templates"
_LEFT_OUT = ("moment", "at", "label", "name", "key", "lines", "hosts", "hung", "writes")


def write_report(made: Hunted, folder: Path, language: str = "en") -> list[Path]:
    """Write chaos.json, chaos.md and chaos.html into a folder; returns their paths.

    Without the templates' library it is chaos.json alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"chaos.json": json.dumps(made.json(), ensure_ascii=False, indent=2) + "\n"}
    try:
        texts |= {name: _rendered(f"{name}.j2", made, language) for name in ("chaos.md", "chaos.html")}
    except MissingExtra:
        for name in ("chaos.md", "chaos.html"):  # those of an earlier hunt
            Path(folder, name).unlink(missing_ok=True)
    return [replace_text(folder / name, text) for name, text in texts.items()]


def _rendered(template: str, made: Hunted, language: str) -> str:
    say = partial(_said, language)
    shared = {"made": made, "say": say, "language": language, "trace": partial(_trace, language=language)}
    return environment(TEMPLATES).get_template(template).render(**shared)


def _said(language: str, name: str, /, **slots: object) -> str:
    return chaos_text(name, language, **slots)


def _trace(found: Finding, language: str) -> Iterator[Json]:
    """The lines of the run's journal: {"seconds", "call", "what", "about"}."""
    began = found.trace[0]["at"] if found.trace else 0.0
    for line in found.trace:
        key = f"moment_{line['moment']}"
        about = {name: value for name, value in line.items() if name not in _LEFT_OUT}
        yield {
            "seconds": f"{line['at'] - began:.2f}",
            "call": line.get("label") or line.get("name") or "",
            "what": chaos_text(key, language) if key in chaos_text else line["moment"],
            "about": json.dumps(about, ensure_ascii=False) if about else "",
        }
