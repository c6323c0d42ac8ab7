"""Print the table: `python -m benchmarks.durability`, with names of adapters and rows for a part of it."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.durability.bench import Bench
from benchmarks.durability.rows import ROWS

ADAPTERS = {
    "segue": "Segue",
    "langgraph": "`create_agent`",
    "langgraph_ledger": "`create_agent` with Segue's ledger",
    "pydantic_ai": "pydantic-ai",
    "pydantic_ai_dbos": "pydantic-ai with DBOS",
    "openai_agents": "openai-agents",
    "agno": "agno",
    "agent_framework": "Microsoft Agent Framework",
}
TOGETHER = 2
"""Adapters that are measured at once, each in processes of its own."""


def column(name: str, rows: list[str]) -> list[str]:
    """The cells of an adapter."""
    cells = []
    with Bench(name) as bench:
        for row in ROWS:
            if row.name not in rows:
                continue
            begun = time.monotonic()
            cells.append("not offered" if row.name in bench.not_offered else str(row.judge(bench)))
            print(f"{name}: {row.name}: {cells[-1]} [{time.monotonic() - begun:.0f} s]", file=sys.stderr, flush=True)
    return cells


def main(wanted: list[str]) -> None:
    adapters = [name for name in ADAPTERS if name in wanted] or list(ADAPTERS)
    rows = [row.name for row in ROWS if row.name in wanted] or [row.name for row in ROWS]
    with ThreadPoolExecutor(TOGETHER) as pool:
        columns = list(pool.map(lambda name: column(name, rows), adapters))
    print(f"| | {' | '.join(ADAPTERS[name] for name in adapters)} |")
    print(f"| --- |{' --- |' * len(adapters)}")
    for place, row in enumerate(row for row in ROWS if row.name in rows):
        print(f"| {row.title} | {' | '.join(cells[place] for cells in columns)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
