"""Do, in the zygote, what is done once a process; no thread may be left of it."""

import asyncio
import importlib
import tempfile
import threading
from pathlib import Path

_LATE = (
    "aiosqlite", "segue.entry", "segue.graphs.chat", "segue.models.chat_object", "segue.models.build",
    "segue.tools.adapters.functions", "segue.tools.adapters.mcp_limits", "segue.checkpoints.sqlite.state",
    "langchain_core.tools", "mcp", "uuid", "sqlite3",
)  # fmt: skip


def up() -> None:
    """Import what a run imports late, and run a task, so that graphs are compiled and tools bound before the fork."""
    for name in _LATE:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="segue-warm-") as folder:
        asyncio.run(_run_once(Path(folder)))
    if threading.active_count() > 1:
        raise RuntimeError("a thread runs in the zygote: a fork of it may hang")


async def _run_once(folder: Path) -> None:
    import segue

    from .child import AGENT, agent_over
    from .traps import Traps
    from .worker import Races

    async with segue.open(folder / "segue.db", agents=[agent_over(folder, Traps({}), Races)]) as app:
        await app.ask("pay 1A", session_id="warm", agent=AGENT)
