"""Entry points: `segue.open()` gives an `App` over one database, `segue.ask()` asks one question."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from .app import App
from .checkpoints.backends import open_storage
from .core.agents import Agent
from .core.environment import whole_number
from .core.errors import InsideEventLoop
from .core.result import Result
from .core.retention import Retention
from .graphs.chat import MODES
from .memory.folder import MemoryFolder, root_of
from .registry import Registry
from .runtime.capacity import MAX_QUEUED, MAX_RUNNING, Capacity
from .runtime.modes import mode_graphs
from .runtime.request import MessageOptions

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


async def open_app(
    path: str | Path,
    agents: Iterable[Agent],
    modes: Mapping[str, Any] | None,
    max_running: int | None = None,
    max_queued: int = MAX_QUEUED,
    memory: str | Path | None = None,
    embeddings: "Embeddings | None" = None,
    retention: Retention | str | int | None = None,
    registry: Registry | None = None,
) -> App:
    """As `open`, for a caller that ends with `App.close`; `registry` is one of its own."""
    registry = registry or Registry()
    for agent in agents:
        registry.register(agent)
    graphs = {**MODES, **mode_graphs(modes or {})}
    most = whole_number(os.environ, "SEGUE_MAX_RUNNING", MAX_RUNNING) if max_running is None else max_running
    capacity = Capacity(most, max_queued)
    root = memory or os.environ.get("SEGUE_MEMORY") or root_of(str(path))
    policy = None if retention is None else Retention.of(retention)
    folder = MemoryFolder(root, embeddings)
    storage = await open_storage(str(path))
    try:
        app = App(storage, registry, graphs, capacity, folder)
    except BaseException:
        await storage.close()
        raise
    if policy:
        app.pruning.start(policy)
    return app


class Opening(AbstractAsyncContextManager[App]):
    """An app to be opened: `async with` closes it, too; after `app = await …` it is closed by `await app.close()`."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, App]]) -> None:
        self._opening = opening
        self._app: App | None = None

    def __await__(self) -> Generator[Any, None, App]:
        return self._opening().__await__()

    async def __aenter__(self) -> App:
        self._app = await self._opening()
        return self._app

    async def __aexit__(self, *_: object) -> None:
        if self._app:
            await self._app.close()


def open(
    path: str | Path = "segue.db",
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    max_running: int | None = None,
    max_queued: int = MAX_QUEUED,
    memory: str | Path | None = None,
    embeddings: "Embeddings | None" = None,
    retention: Retention | str | int | None = None,
) -> Opening:
    """Open the database at `path` (":memory:" for one that is not kept) and give the app over it.

    `async with segue.open() as app:` closes it at the end; in a notebook `app = await segue.open()` and, at the end,
    `await app.close()`.

    The examples are registered first, then `agents`; `modes` are graphs by name beside the built-in ones. At most
    `max_running` tasks (SEGUE_MAX_RUNNING, or 32) run at once in this process, and `max_queued` more wait for them.
    `memory` is the folder of memory files (SEGUE_MEMORY, or one beside the database); with `embeddings`, those of any
    LangChain class, they are searched by meaning as well. `retention`, such as "30d" or 100, prunes older snapshots
    every hour, as `App.prune` does; without it all are kept.

    Raises:
        DatabaseUnavailable, DatabaseTooNew, ConfigurationError: saying what to do.
    """
    return Opening(lambda: open_app(path, agents, modes, max_running, max_queued, memory, embeddings, retention))


def ask(message: str, *, db: str | Path = ":memory:", **options: Unpack[MessageOptions]) -> Result:
    """Ask one question and wait for the result; options as in `App.start`."""

    async def once() -> Result:
        async with open(db) as app:
            return await app.ask(message, **options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise InsideEventLoop
    return asyncio.run(once())
