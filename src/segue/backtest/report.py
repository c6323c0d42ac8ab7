"""A backtest's report: JSON, Markdown, and one page of HTML that loads nothing."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ..core.records import Json
from ..nodes.shared.prompt_budget import as_text
from ..prompts.catalogue import backtest_text
from ..rehearsal.report.files import environment
from ..rehearsal.text_file import replace_text
from .comparison import TaskReport
from .run import Backtest

TEMPLATES = Path(__file__).parent / "templates"


def write_report(made: Backtest, folder: Path, language: str = "en") -> list[Path]:
    """Write backtest.json, backtest.md and backtest.html into a folder; returns their paths.

    Raises:
        MissingExtra: the templates' library is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rendered = partial(_rendered, made=made, language=language)
    texts = {
        "backtest.json": json.dumps(made.json(), ensure_ascii=False, indent=2) + "\n",
        "backtest.md": rendered("backtest.md.j2"),
        "backtest.html": rendered("backtest.html.j2"),
    }
    return [replace_text(folder / name, text) for name, text in texts.items()]


def _rendered(template: str, made: Backtest, language: str) -> str:
    def say(name: str, /, **slots: object) -> str:
        return backtest_text(name, language, **slots)

    left_out = ", ".join(f"{say(why)} {count}" for why, count in Counter(made.skipped.values()).items())
    shared = {"made": made, "say": say, "language": language, "left_out": left_out, "effects": [*_effects(made)]}
    shared |= {"shown": _shown, "as_text": as_text}
    return environment(TEMPLATES).get_template(template).render(**shared)


def _effects(made: Backtest) -> Iterator[Json]:
    """Each effect that differs: {"task", "kind", "name", "then", "now"}."""
    for task in made.differing:
        yield from _of_task(task)


def _of_task(task: TaskReport) -> Iterator[Json]:
    about = {"task": task.task_id}
    for call in task.effects.changed:
        now, then = _shown(call["now"]), _shown(call["then"])
        yield {**about, "kind": "changed_effect", "name": call["name"], "then": then, "now": now}
    for call in task.effects.added:
        yield {**about, "kind": "added", "name": call["name"], "then": "–", "now": _shown(call["arguments"])}
    for call in task.effects.dropped:
        yield {**about, "kind": "dropped", "name": call["name"], "then": _shown(call["arguments"]), "now": "–"}


def _shown(arguments: Json) -> str:
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
