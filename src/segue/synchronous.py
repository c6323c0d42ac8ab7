"""Asynchronous nodes for synchronous callers: one event loop in a thread, and savers that it can await."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.config import get_config

T = TypeVar("T")
CHECKPOINTER = "__pregel_checkpointer"
"""Where LangGraph's config has the saver that nested graphs use."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop of all synchronous callers; connections stay usable from one call to the next."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="segue-sync", daemon=True).start()
    return loop


def run_node(node: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a node's coroutine to its end, from a thread of LangGraph's; a nested graph awaits the same saver."""
    with set_config_context(_awaitable(get_config())) as context:
        running = context.run(lambda: asyncio.run_coroutine_threadsafe(node(), _loop()))
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise


def _awaitable(config: RunnableConfig) -> RunnableConfig:
    saver = config.get("configurable", {}).get(CHECKPOINTER)
    if not isinstance(saver, BaseCheckpointSaver) or isinstance(saver, AwaitableSaver):
        return config
    return {**config, "configurable": {**config["configurable"], CHECKPOINTER: AwaitableSaver(saver)}}


class AwaitableSaver(BaseCheckpointSaver[Any]):
    """A synchronous saver whose methods can be awaited: they run in a thread."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver

    @property
    def config_specs(self) -> list[Any]:
        return self._saver.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._saver.get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return self._saver.list(config, filter=filter, before=before, limit=limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, str | int | float],
    ) -> RunnableConfig:
        return self._saver.put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._saver.put_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: RunnableConfig | None, **given: Any) -> AsyncIterator[CheckpointTuple]:
        for found in await asyncio.to_thread(lambda: [*self.list(config, **given)]):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: dict[str, str | int | float],
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)
