"""Measure and print the table, and write it into its file and its page: `python -m benchmarks.durability`.

With names of adapters and rows, a part of it is printed.
"""

import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from benchmarks.durability.bench import Bench, Row
from benchmarks.durability.host import adapter_named
from benchmarks.durability.rows import ROWS

ADAPTERS = {
    "segue": "Segue",
    "langgraph": "`create_agent`",
    "langgraph_ledger": "`create_agent` with Segue's ledger",
    "pydantic_ai": "pydantic-ai",
    "pydantic_ai_dbos": "pydantic-ai with DBOS",
    "openai_agents": "openai-agents",
    "agno": "agno",
    "agent_framework": "Agent Framework",
}
TOGETHER = 4
"""Adapters that are measured at once, each in processes of its own."""
TABLE, PAGE = Path(__file__).with_name("table.md"), Path(__file__).parents[2] / "docs/durability.md"
"""What is measured, in a file of its own and as a part of the page."""


def column(name: str, rows: list[Row]) -> list[str]:
    """The cells of an adapter."""
    cells = []
    with Bench(name) as bench:
        for row in rows:
            begun = time.monotonic()
            cells.append("not offered" if row.name in bench.not_offered else str(row.judge(bench)))
            print(f"{name}: {row.name}: {cells[-1]} [{time.monotonic() - begun:.0f} s]", file=sys.stderr, flush=True)
    return cells


def measure(adapters: list[str], rows: list[Row]) -> list[str]:
    """The lines of the table."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        columns = list(pool.map(lambda name: column(name, rows), adapters))
    lines = [f"| | {' | '.join(ADAPTERS[name] for name in adapters)} |", f"| --- |{' --- |' * len(adapters)}"]
    for place, row in enumerate(rows):
        lines.append(f"| {row.title} | {' | '.join(cells[place] for cells in columns)} |")
    return lines


def legend() -> list[str]:
    """What the rows mean, what is not offered and why, and the versions."""
    lines = ["## What a row means", ""]
    lines += [f"- **{row.title}.** {row.history} {row.meaning}" for row in ROWS]
    lines += ["", "## What is not offered", ""]
    titles = {row.name: row.title for row in ROWS}
    packages = ["llmock"]
    for name, title in ADAPTERS.items():
        adapter = adapter_named(name)
        packages += adapter.PACKAGES
        for what, why in vars(adapter).get("NOT_OFFERED", {}).items():
            row, _, case = what.partition(".")
            lines.append(f"- {title}, {titles[row].lower()}{f', {case}' if case else ''}: {why}")
    versions = ", ".join(f"{name} {version(name)}" for name in dict.fromkeys(packages))
    return [*lines, "", f"Versions: {versions}, Python {'.'.join(platform.python_version_tuple()[:2])}."]


def main(wanted: list[str]) -> None:
    adapters = [name for name in ADAPTERS if name in wanted] or list(ADAPTERS)
    rows = [row for row in ROWS if row.name in wanted] or list(ROWS)
    table = measure(adapters, rows)
    print("\n".join(table))
    if not wanted:
        text = "\n".join([*table, "", *legend(), ""])
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replace(TABLE.read_text(encoding="utf-8"), text), encoding="utf-8")
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
