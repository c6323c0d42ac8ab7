"""Import, in the zygote, what a run imports late; no thread may be started by it."""

import importlib
import threading

_LATE = (
    "aiosqlite", "segue.entry", "segue.graphs.chat", "segue.models.chat_object", "segue.models.build",
    "segue.tools.adapters.langchain", "segue.checkpoints.sqlite.state", "langchain_core.tools", "uuid", "sqlite3",
)  # fmt: skip


def up() -> None:
    for name in _LATE:
        importlib.import_module(name)
    if threading.active_count() > 1:
        raise RuntimeError("a thread runs in the zygote: a fork of it may hang")
