"""LangGraph graphs whose nodes find their services without the app, and run from synchronous code, too."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import cache, lru_cache, wraps
from inspect import signature
from typing import Any, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.config import get_config
from langgraph.graph import StateGraph
from langgraph.runtime import Runtime
from langgraph.typing import InputT, OutputT, StateT

from .core.context import AppContext, GivenAgent, RunContext
from .registry import Registry, services_of

T = TypeVar("T")
Node = TypeVar("Node", bound=Callable[..., Awaitable[Any]])
CHECKPOINTER = "__pregel_checkpointer"
"""Where LangGraph's config has the saver that nested graphs use."""


@cache
def _bare_registry() -> Registry:
    """The agents and tools of graphs that run without the app."""
    return Registry()


@lru_cache(maxsize=64)
def _registry_of(given: GivenAgent) -> Registry:
    """The registry of an agent that a run's context holds itself."""
    return Registry((given.agent,))


class AgentGraph(StateGraph[StateT, RunContext, InputT, OutputT]):
    """A graph whose nodes find services in their context, also where it runs without the app.

    There it has no ledger, and events go to the graph's custom stream. It runs from synchronous code, too.
    """

    registry: Registry | None = None
    """The agents of its runs without the app; None: the examples."""

    def add_node(self, node: str, action: Callable[..., Any], **options: Any) -> Self:  # type: ignore[override]
        """Add an asynchronous node by its name; `options` as in LangGraph."""
        served = self._served(action) if "runtime" in signature(action).parameters else action
        super().add_node(node, served, **options)
        runnable: Any = self.nodes[node].runnable

        @wraps(action)
        def synchronous(*given: Any, **named: Any) -> Any:
            return run_node(lambda: served(*given, **named))

        runnable.func = synchronous
        return self

    def add_conditional_edges(self, source: str, path: Callable[..., Any], path_map: Any = None) -> Self:  # type: ignore[override]
        """Add a router, which runs on the event loop: LangGraph would take each call of it to a thread."""
        super().add_conditional_edges(source, path, path_map)
        router: Any = self.branches[source][path.__name__].path

        @wraps(path)
        async def route(*given: Any, **named: Any) -> Any:
            return path(*given, **named)

        router.afunc = route
        return self

    def _served(self, node: Node) -> Node:
        @wraps(node)
        async def served(state: Any, runtime: Runtime[RunContext]) -> Any:
            runtime = await self._with_services(runtime)
            return _announced(await node(state, runtime), runtime.context)

        return cast(Node, served)

    async def _with_services(self, runtime: Runtime[RunContext]) -> Runtime[RunContext]:
        given: RunContext | None = runtime.context  # None where none is passed, whatever LangGraph's type says
        if isinstance(given, AppContext) and given.services:
            return runtime
        context = given or RunContext()
        registry = _registry_of(context.given_agent) if context.given_agent else self.registry or _bare_registry()
        await registry.open(registry.agent(context.agent), context.model)
        write = runtime.stream_writer
        services = services_of(registry, lambda event: write(event.json()))
        return runtime.override(context=AppContext.carrying(services, **context.model_dump()))


def _announced(update: Any, context: RunContext) -> Any:
    """A node's update with its events as the services announce them."""
    if not isinstance(update, dict) or not update.get("events"):
        return update
    services = context.services if isinstance(context, AppContext) else None
    return {**update, "events": services.announced(update["events"])} if services else update


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
