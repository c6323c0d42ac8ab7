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
from .comparison import MESSAGE_CHARS, TaskReport, shortened
from .run import Backtest
from .turn import RECORDED

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

    def about(verdict: str) -> str:
        return backtest_text(f"about_{verdict}", language)

    shared = {"made": made, "say": say, "about": about, "language": language, "effects": [*_effects(made)]}
    shared |= {"notes": notes(made, language), "shown": _shown, "as_text": as_text}
    return environment(TEMPLATES).get_template(template).render(**shared)


def notes(made: Backtest, language: str) -> list[str]:
    """What is to be known beside the conclusion: what was not tried, how much is known, and what was left out."""

    def say(name: str, **slots: object) -> str:
        return backtest_text(name, language, **slots)

    ran = ", ".join(f"{name} {count}" for name, count in sorted(made.ran.items()))
    found = [say("reads_ran", n=sum(made.ran.values()), tools=ran) if ran else say("nothing_ran")]
    blind = [model for model, reads_prompt in made.models.items() if not reads_prompt]
    found += [say("recorded_replies") if model == RECORDED else say("no_prompt", model=model) for model in blind]
    if made.coverage is not None:
        found.append(say("coverage", share=f"{made.coverage:.0%}"))
    if made.stand_ins:
        found.append(say("stood_in", n=made.stand_ins))
    if change := made.success:
        found.append(say("successes", worse=change.worse, better=change.better, p=f"{change.p_value:.3g}"))
    if share := made.agreement:
        found.append(say("agreement", share=f"{share.value:.0%} ({share.low:.0%} – {share.high:.0%})"))
    if made.skipped:
        counts = Counter(made.skipped.values()).items()
        found.append(say("skipped", counts=", ".join(f"{say(why)} {count}" for why, count in counts)))
    return found


def _effects(made: Backtest) -> Iterator[Json]:
    """Each effect that differs: {"task", "message", "kind", "name", "then", "now"}."""
    for task in made.differing:
        yield from _of_task(task)


def _of_task(task: TaskReport) -> Iterator[Json]:
    about = {"task": task.task_id, "message": shortened(task.message, MESSAGE_CHARS)}
    for call in task.effects.changed:
        now, then = _shown(call["now"]), _shown(call["then"])
        yield {**about, "kind": "changed_effect", "name": call["name"], "then": then, "now": now}
    for call in task.effects.added:
        yield {**about, "kind": "added", "name": call["name"], "then": "–", "now": _shown(call["arguments"])}
    for call in task.effects.dropped:
        yield {**about, "kind": "dropped", "name": call["name"], "then": _shown(call["arguments"]), "now": "–"}


def _shown(arguments: Json) -> str:
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
