"""The subtasks of a goal as a table, a bar and lines."""

from collections.abc import Collection, Mapping

from rich.console import RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .lines import STYLES, Signs, item_line, item_sign
from .sanitize import one_line, result_line
from .task_view import Item

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "zh": ("编号", "子任务", "优先级", "状态", "秒", "结果"),
    "en": ("id", "subtask", "priority", "status", "seconds", "result"),
}
_CHINESE = {"pending": "待执行", "running": "执行中", "done": "完成", "error": "失败", "skipped": "跳过"}
BAR_WIDTH = 40
RESULT_CHARS = 160


def subtask_table(items: Collection[Item], signs: Signs, language: str, now: float) -> Table:
    """One row a subtask; what is too long for the terminal is cut."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), expand=True)
    for name, ratio in zip(COLUMNS[language], (None, 4, None, None, None, 5), strict=True):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for column in (table.columns[2], table.columns[4]):
        column.justify = "right"
    for item in items:
        table.add_row(*_row(item, signs, language, now))
    return table


def _row(item: Item, signs: Signs, language: str, now: float) -> tuple[Text, ...]:
    style = STYLES.get(item.status, "")
    sign, sign_style = item_sign(item, signs)
    seconds = item.seconds(now)
    return (
        Text(one_line(item.step_id, 12), style="dim"),
        Text(one_line(item.description, 200), style=style if item.status in ("running", "error") else ""),
        Text("" if item.priority is None else str(item.priority)),
        Text(f"{sign} {_status(item.status, language)}", style=sign_style),
        Text(f"{seconds:.1f}" if seconds else "", style="dim"),
        _outcome(item),
    )


def _status(status: str, language: str) -> str:
    return _CHINESE.get(status, status) if language == "zh" else status


def _outcome(item: Item) -> Text:
    """What a subtask came to, or why it came to nothing, in a line."""
    if item.status in ("error", "skipped"):
        return Text(one_line(item.note, RESULT_CHARS), style=STYLES[item.status])
    return Text(result_line({"success": {"summary": item.result}}, RESULT_CHARS) if item.result else "")


def progress_bar(items: Collection[Item]) -> RenderableType:
    """How many of the subtasks are done, and how many failed or were given up."""
    row = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=max(len(items), 1), completed=_done(items), width=BAR_WIDTH)
    row.add_row(bar, Text.assemble((done_of(items), "bold"), (_undone(items), "red")))
    return Padding(row, (1, 0, 0, 0))


def done_of(items: Collection[Item]) -> str:
    """The subtasks that are done, of all: 2/3."""
    return f"{_done(items)}/{len(items)}"


def _done(items: Collection[Item]) -> int:
    return sum(item.status == "done" for item in items)


def _undone(items: Collection[Item]) -> str:
    counted = {status: sum(item.status == status for item in items) for status in ("error", "skipped")}
    return "".join(f"  {number} {status}" for status, number in counted.items() if number)


def planned_line(item: Item, signs: Signs) -> Text:
    """A subtask that waits for its turn."""
    text = item_line(item, signs)
    return text if item.priority is None else text.append(f"  priority {item.priority}", style="dim")


def ended_line(item: Item, items: Collection[Item], signs: Signs, now: float) -> Text:
    """A subtask that ended, how far the whole is with it, and what it came to."""
    text = item_line(item, signs).append(f"  {item.seconds(now):.1f} s  {done_of(items)}", style="dim")
    outcome = _outcome(item) if item.status == "done" else Text()
    return text.append("\n    ").append_text(outcome) if outcome else text
