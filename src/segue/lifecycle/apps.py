"""The app that an engine's runs are kept in: its own, or a given one."""

import inspect
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypedDict

from langchain_core.language_models import BaseChatModel

from ..app import App
from ..core.agents import Agent
from ..core.errors import ConfigurationError
from ..core.lifecycle import Context, Coordinator
from ..entry import open_app
from ..graphs.lifecycle import build_lifecycle
from ..nodes.lifecycle.decomposing import Decompose
from ..nodes.lifecycle.state import Restored
from ..registry import Registry
from ..runtime.request import MessageOptions


class EngineOptions(TypedDict, total=False):
    """The options of an engine with an app; those of a message mean what they mean in `App.start`."""

    mode: str
    session_id: str
    user_id: str
    model: str
    task_id: str
    """A task of the app to go on with."""


class AppSource(Protocol):
    """Gives the app that a run is followed in."""

    private: bool
    """Whether only the engine knows its tasks."""
    options: MessageOptions

    async def open(self, restored: Restored | None) -> App: ...

    async def close(self, app: App) -> None: ...


class GivenApp:
    """An app that is opened and closed elsewhere."""

    private = False

    def __init__(self, app: App, agent: str, options: EngineOptions) -> None:
        self._app = app
        self.options: MessageOptions = {"mode": "lifecycle", "agent": agent}
        for name in ("mode", "session_id", "user_id", "model"):
            if name in options:
                self.options[name] = options[name]

    async def open(self, restored: Restored | None) -> App:
        return self._app

    async def close(self, app: App) -> None:
        """Leave it open."""


class OwnApp:
    """An app over a temporary database, which is deleted with the engine; it is open while a run is followed."""

    private = True

    def __init__(self, agent: Agent, coordinator: Coordinator, decompose: Decompose | None, concurrency: int) -> None:
        self._agent = agent
        self._coordinator = coordinator
        self._decompose = decompose
        self._concurrency = concurrency
        self._folder = ""
        self.options: MessageOptions = {"mode": "engine", "agent": agent.agent_id}

    async def open(self, restored: Restored | None) -> App:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="segue-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        graph = build_lifecycle(self._coordinator, self._decompose, self._concurrency, restored)
        return await open_app(Path(self._folder, "engine.db"), [self._agent], {"engine": graph})

    async def close(self, app: App) -> None:
        await app.close()


class NoContext:
    """The coordinator of an engine that was given none."""

    async def get_context_async(self, text: str, /) -> Context:
        return Context()


def app_source(
    coordinator: Coordinator | None,
    llm: Any,
    agent: Agent | str | None,
    tools: Iterable[Any],
    concurrency: int,
    app: App | None,
    options: EngineOptions,
) -> AppSource:
    """The app that an engine's arguments ask for.

    Raises:
        ConfigurationError: the arguments do not go together; UnknownModel, MissingKey, UnknownTool.
    """
    known = tuple(EngineOptions.__annotations__)
    if unknown := [name for name in options if name not in known]:
        raise ConfigurationError(
            "An engine has no option {unknown}; there are: {known}.", unknown=", ".join(unknown), known=", ".join(known)
        )
    if concurrency < 1:
        raise ConfigurationError(
            "The concurrency is {concurrency}: at least one task is carried out at a time.", concurrency=concurrency
        )
    if app is not None:
        if coordinator is not None or llm is not None or tuple(tools) or concurrency != 1 or isinstance(agent, Agent):
            raise ConfigurationError(
                "With an app its agent and mode decide: register the agent, and for a coordinator or a concurrency of "
                "your own open the app with modes={'mine': build_lifecycle(coordinator)} and name that mode."
            )
        return GivenApp(app, agent or "", options)
    if options or isinstance(agent, str):
        raise ConfigurationError(
            "Give the engine an app to use {options}.", options=", ".join(options) or "one of its agents"
        )
    own, decompose = _worker(llm, agent or Agent(agent_id="engine"), tools)
    return OwnApp(own, coordinator or NoContext(), decompose, concurrency)


def _worker(llm: Any, agent: Agent, tools: Iterable[Any]) -> tuple[Agent, Decompose | None]:
    """Who carries the tasks out, and who breaks the goal down if the agent's model does not."""
    agent = agent.model_copy(update={"tools": (*agent.tools, *tools)})
    decompose: Decompose | None = None
    if llm is None:
        decompose = _single_task
    elif callable(getattr(llm, "decompose_goal", None)):
        decompose = _decomposing(llm)
    elif isinstance(llm, str | BaseChatModel):
        agent = agent.model_copy(update={"model": llm})
    else:
        raise ConfigurationError(
            'The llm {llm} is not a model: give a name such as "offline" or "openai:<name>", a chat model, or an '
            "object with decompose_goal(text).",
            llm=repr(llm),
        )
    registry = Registry((agent,))
    registry.register(agent)
    registry.model_for(agent)
    return agent, decompose


async def _single_task(text: str) -> object:
    """Without a model the goal is one task."""
    return [{"id": "1", "description": text}]


def _decomposing(llm: Any) -> Decompose:
    async def decompose(text: str) -> object:
        given = llm.decompose_goal(text)
        return await given if inspect.isawaitable(given) else given

    return decompose
