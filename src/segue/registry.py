"""The one place that wires agents, tools and models, for the app and for graphs that run without it."""

import asyncio
import json
import os
from collections import ChainMap
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cache, lru_cache, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.config import get_config
from langgraph.graph import StateGraph
from langgraph.runtime import Runtime
from langgraph.typing import InputT, OutputT, StateT

from .core.agents import Agent
from .core.calls import Executor, Tool
from .core.context import (
    SURROUNDING,
    AppContext,
    GivenAgent,
    Ids,
    Memory,
    PromptText,
    RunContext,
    Services,
    descriptions_of,
)
from .core.conversation import REGISTERED
from .core.digests import agent_digest
from .core.environment import whole_number
from .core.errors import (
    BlockingCall,
    ConfigurationError,
    SegueError,
    UnknownAgent,
    UnknownLanguage,
    listed,
)
from .core.events import Event
from .core.flows import FlowConfig
from .core.json import plain_specs
from .core.models import Model, tokens
from .core.plan import NO_TOOL
from .core.records import OnUpgrade, Task
from .core.schedules import ApprovalSettings
from .core.spend import SpendLimits
from .core.sync import run_sync, sync_loop
from .core.task import LANGUAGES
from .memory.folder import LocalMemory
from .models.build import accepted_kinds, build_model, chosen_model, kind_of
from .models.habits import Habits
from .prompts.catalogue import Language, bilingual, language_named
from .tools.adapters.a2a import RemoteAgents, RemoteAgentTool
from .tools.adapters.agents import LocalAgentTool, local_agent_tool
from .tools.adapters.client import client_tools
from .tools.adapters.mcp import McpTool, McpTools
from .tools.builtin import BUILTIN
from .tools.registry import under_policies

EXAMPLE = Agent(
    agent_id="travel",
    description="Plans trips to Chinese cities / 规划中国城市旅行",
    suggestions={
        "en": [
            "Plan 3 days in Beijing, with sights and food",
            "What does a 5-day trip to Chengdu cost?",
            "What is there to see in Hangzhou?",
        ],
        "zh": ["帮我规划一个北京3日游，包括景点和美食", "去成都玩 5 天要花多少钱？", "杭州有哪些景点？"],
    },
    tools=("travel", "calculator", "clock"),
    prompt=bilingual("travel"),
)
DATA_EXAMPLE = Agent(
    agent_id="data",
    description="Analyses CSV and Parquet files of the data folder / 分析数据文件夹里的 CSV 和 Parquet 文件",
    suggestions={
        "en": ["What data is there?", "Which columns do the files have?", "Draw a chart of the totals"],
        "zh": ["有哪些数据？", "这些文件有哪些列？", "把合计画成图表"],
    },
    tools=("data", "calculator", "clock"),
    prompt=bilingual("data"),
)
EXAMPLES = (EXAMPLE, DATA_EXAMPLE)
"""The agents that come with Segue, the default one first; the tools of the second need an extra once it is used."""


CONTROL_NAMES = ("plan", "remend")
"""The names of the control tools of the native protocol."""
TOOLS_SHARE = 0.75
"""How much of a prompt the specifications of the tools may take."""


_AGENT_DEPTH = 3
"""Levels of agents as tools below an agent, unless SEGUE_AGENT_DEPTH says otherwise."""


def _check_agents(agent: Agent, known: Mapping[str, Agent], most: int) -> None:
    """Refuse tools that are agents which are not there, call one another in a circle, or are on too many levels."""
    chains: list[tuple[str, ...]] = [(agent.agent_id, each.agent) for each in agent.agent_tools]
    while chains:
        chain = chains.pop()
        *above, called = chain
        if called not in known:
            raise ConfigurationError(
                "The agent {agent_id} has the tool agent:{called}, and there is no agent '{called}'; use one of: "
                "{known}.",
                agent_id=above[-1],
                called=called,
                known=listed(each for each in known if each != above[-1]),
            )
        if called in above:
            raise ConfigurationError(
                "Agents call one another in a circle: {chain}. Take one of them out of the `tools` of another.",
                chain=" → ".join(chain),
            )
        if len(above) > most:
            raise ConfigurationError(
                "Agents are tools of one another on more than {most} levels: {chain}. Use fewer, or raise "
                "SEGUE_AGENT_DEPTH.",
                most=most,
                chain=" → ".join(chain),
            )
        chains += [(*chain, each.agent) for each in known[called].agent_tools]


def _usable(agent: Agent, tools: Mapping[str, Tool], settings: ApprovalSettings) -> Mapping[str, Tool]:
    """The tools under the agent's policies, unless one asks for what Segue cannot do."""
    for tool in tools.values():
        if agent.protocol == "native" and tool.name in CONTROL_NAMES:
            raise ConfigurationError(
                "The agent {agent_id} cannot have a tool {name}: in the native protocol that is one of Segue's "
                'own control tools. Rename it, or set protocol="json".',
                agent_id=agent.agent_id,
                name=tool.name,
            )
        if tool.name.lower() in NO_TOOL:
            raise ConfigurationError(
                "A tool cannot be called {name}: in a plan that means no tool; rename it.", name=tool.name
            )
    size = tokens(json.dumps(plain_specs([tool.spec for tool in tools.values()]), ensure_ascii=False, default=str))
    if size > agent.budget.prompt_tokens * TOOLS_SHARE:
        raise ConfigurationError(
            "The agent {agent_id} has {count} tools that take {size} tokens of each prompt, more than three "
            "quarters of its budget.prompt_tokens ({most}): name fewer in its `tools` and those of its MCP servers, or "
            "raise it.",
            agent_id=agent.agent_id,
            count=f"{len(tools):,}",
            size=f"{size:,}",
            most=f"{agent.budget.prompt_tokens:,}",
        )
    return under_policies(agent, tools, settings)


def _strictness(tool: Tool) -> tuple[bool, bool, int, bool]:
    """How much it takes to approve a call of the tool."""
    terms = tool.terms
    return tool.needs_approval, bool(terms.approvers), terms.approvals, terms.not_by_asker


class Registry(Mapping[str, Agent]):
    """Agents by id, and what is built from them once; the first one registered is the default."""

    def __init__(self, agents: Iterable[Agent] = EXAMPLES, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._agents: MutableMapping[str, Agent] = {agent.agent_id: self._completed(agent) for agent in agents}
        self._models: dict[tuple[str, str], Model] = {}
        self._tools: dict[str, Mapping[str, Tool]] = {}
        self._digests: dict[str, str] = {}
        self._versions: dict[str, Mapping[str, Registry]] = {}
        self._remote = RemoteAgents()
        self._mcp = McpTools()
        self.agents_file = ""
        """The path of the file that the agents come from, for their tasks to remember; empty where there is none."""
        self.calls_agents = False
        """Whether an agent is a tool of another one."""
        self.default_agent = ""
        """The agent of a message that names none; empty: the first one."""
        self.spend: SpendLimits | None = None
        """The limits of what model calls may use, if there are any."""
        self.approvals = ApprovalSettings()
        """Who approves calls where their tools do not say."""
        self.flows: Mapping[str, FlowConfig] = {}
        """The flows that are modes, by name."""
        self._executors: dict[str, Executor] = {}
        self.participants = REGISTERED.extended()
        self.habits = Habits()
        """What is known of the endpoints of models."""
        self.memory: Memory = LocalMemory(Path(self._environ.get("SEGUE_MEMORY") or "memory"))
        """The memory files of graphs that run without the app."""
        self.ids = Ids()

    def __getitem__(self, agent_id: str) -> Agent:
        return self._agents[agent_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    __eq__ = object.__eq__  # as a mapping it could not be hashed
    __hash__ = object.__hash__

    def reads_memory(self, mode: str) -> bool:
        """Whether the tasks of a mode read memory files."""
        return self.flows[mode].reads_memory if mode in self.flows else mode == "controller"

    def descriptions(self, task: Task) -> list[PromptText]:
        """What others wrote of the tools that a task may call; of servers that are not connected, that they did."""
        if task.agent_id not in self:
            return []
        registry, found = self.of(task), descriptions_of(client_tools(task.client_tools, "en").values())
        for agent in registry._agents_in(registry.agent(task.agent_id), task.ran_mode):
            tools = registry.tools_for(agent)
            found += descriptions_of(tools.values())
            if (agent.mcp or agent.a2a) and not _without_own(agent, tools):
                found.append(PromptText("", False, kind="description", name=agent.agent_id))
        return found

    def register(self, agent: Agent, executor: Executor | None = None) -> None:
        """Add an agent, or replace the one of that id; its tools are resolved now, so a wrong one shows at once.

        `executor` carries out the calls of its tasks, also those of their nested graphs; None: the tools themselves.
        """
        known = {**self._agents, agent.agent_id: agent}
        calling = [each for each in (*known.values(), *agent.older) if each.agent_tools]
        self.calls_agents = self.calls_agents or bool(calling)
        for each in calling:
            _check_agents(each, known, whole_number(self._environ, "SEGUE_AGENT_DEPTH", _AGENT_DEPTH))
        tools = self._usable(agent)
        for each in agent.older:
            self._usable(each)
        self._agents[agent.agent_id] = self._completed(agent)
        self._tools[agent.agent_id] = tools
        self._digests.pop(agent.agent_id, None)
        self._versions.pop(agent.agent_id, None)
        for caller in known.values():
            if any(each.agent == agent.agent_id for each in caller.agent_tools):
                self._tools.pop(caller.agent_id, None)  # its tool describes this agent
        self._models = {key: model for key, model in self._models.items() if key[0] != agent.agent_id}
        self._executors.pop(agent.agent_id, None)
        if executor is not None:
            self._executors[agent.agent_id] = executor

    def expect(self, agents: Iterable[Agent]) -> None:
        """Take agents that are about to be registered, so that each can be a tool of another one."""
        self._agents.update({agent.agent_id: agent for agent in agents})

    def forget(self, agent_id: str) -> None:
        """Remove an agent, and what was built from it."""
        for kept in (self._agents, self._tools, self._digests, self._versions, self._executors):
            kept.pop(agent_id, None)
        self._models = {key: model for key, model in self._models.items() if key[0] != agent_id}

    def executor_of(self, agent_id: str) -> Executor | None:
        """What carries out the calls of the agent's tasks; None: the tools themselves."""
        return self._executors.get(agent_id)

    def _completed(self, agent: Agent) -> Agent:
        """The agent with what the environment decides where it does not."""
        auto = self._environ.get("SEGUE_AUTO", "")
        if auto not in ("", "rules", "model"):
            raise ConfigurationError("SEGUE_AUTO is '{auto}': set it to rules or model, or leave it out.", auto=auto)
        return agent.model_copy(update={"auto": auto}) if auto and agent.auto is None else agent

    def agent(self, name: str) -> Agent:
        """The agent of that id; the default one where the name is empty.

        Raises:
            UnknownAgent: listing the ones there are.
        """
        name = name or self.default_agent
        if not name:
            return next(iter(self._agents.values()))
        if name not in self._agents:
            raise UnknownAgent(name, self._agents)
        return self._agents[name]

    def language(self, asked: str = "") -> Language | None:
        """The language that a user asks for, or else the environment; None where neither does.

        Raises:
            UnknownLanguage.
        """
        if not (tag := asked or self._environ.get("SEGUE_LANGUAGE", "")):
            return None
        if language := language_named(tag):
            return language
        raise UnknownLanguage(tag)

    async def prepare(self, agent: Agent) -> None:
        """Connect to the agent's MCP servers and A2A agents, where it is not yet, and make its tools ready.

        Tools that depend on a folder's files are resolved again, so that they know the files added since.

        Raises:
            MissingExtra, ToolServerUnavailable.
            ConfigurationError: two tools have one name.
        """
        if agent.mcp or agent.a2a:
            served: list[McpTool | RemoteAgentTool] = []
            served += await self._mcp.open(agent.mcp) if agent.mcp else ()
            served += await self._remote.open(agent.a2a) if agent.a2a else ()
            self._tools[agent.agent_id] = self._usable(agent, served)
        elif BUILTIN.may_change(agent.tools):
            self._tools[agent.agent_id] = self._usable(agent)

    async def open(self, agent: Agent, model: str = "") -> None:
        """Make the agent's tools and model ready once, without blocking the event loop.

        Raises:
            UnknownTool, UnknownModel, MissingKey.
            ToolServerUnavailable: as in `prepare`.
        """
        if agent.agent_id not in self._tools:
            await (self.prepare(agent) if agent.mcp or agent.a2a else asyncio.to_thread(self.tools_for, agent))
        if (agent.agent_id, model) not in self._models:
            await asyncio.to_thread(self.model_for, agent, model)

    async def served_tools(self, agent: Agent) -> list[str]:
        """The names of the tools that the agent's MCP servers offer.

        Raises:
            ToolServerUnavailable: as in `prepare`.
        """
        await self.prepare(agent)
        return _without_own(agent, self.tools_for(agent))

    async def close(self) -> None:
        """End the MCP servers' sessions and release the models."""
        self._models.clear()
        self._versions.clear()
        await self._mcp.close()

    def tools_for(self, agent: Agent) -> Mapping[str, Tool]:
        """The agent's tools by name; those of MCP servers once `prepare` has been awaited."""
        if agent.agent_id not in self._tools:
            self._tools[agent.agent_id] = self._usable(agent)
        return self._tools[agent.agent_id]

    def _usable(self, agent: Agent, served: Sequence[McpTool | RemoteAgentTool] = ()) -> Mapping[str, Tool]:
        """The agent's tools, with those that others serve and other agents, under its policies."""
        below = [local_agent_tool(each, self.agent(each.agent)) for each in agent.agent_tools]
        return _usable(agent, _together(BUILTIN.resolve(agent.own_tools), [*below, *served]), self.approvals)

    def tools_in(self, agent: Agent, mode: str) -> Mapping[str, Tool]:
        """Every tool that the agent's tasks in a mode may call: its own, and those of a flow and of its branches."""
        own = self.tools_for(agent)
        return {**own, **self._tools_of_flow(self.flows[mode])} if mode in self.flows else own

    def reads_only(self, agent: Agent, mode: str) -> bool:
        """Whether the agent's tasks in a mode change nothing; where its servers' tools are not known, they may."""
        tools = [*self.tools_in(agent, mode).values()]
        unknown = (agent.mcp or agent.a2a) and not any(isinstance(tool, McpTool | RemoteAgentTool) for tool in tools)
        return not unknown and all(tool.read_only for tool in tools)

    def tools_named(self, names: Sequence[str], agent: Agent, mode: str) -> Mapping[str, Tool]:
        """Tools that a conversation names, each under the policies of its bot's agent, else of another one that has it.

        Of several others the strictest about approval counts.

        Raises:
            UnknownTool.
        """
        found = under_policies(Agent(agent_id=agent.agent_id), BUILTIN.resolve(names), self.approvals)
        own = self.tools_in(agent, mode)
        return {name: own[name] if name in own else self._tool_of_others(tool) for name, tool in found.items()}

    def _tool_of_others(self, tool: Tool) -> Tool:
        """The tool as an agent has it; as it is where none does."""
        theirs = [tool]
        for other in self._agents.values():
            with suppress(SegueError):  # one whose tools cannot be had here
                theirs += [each for name, each in self.tools_for(other).items() if name == tool.name]
        return max(theirs, key=_strictness)

    @property
    def auto_approves(self) -> bool:
        """Whether conversations may approve calls of tools by their configuration."""
        return self.approvals.auto_approve_conversations

    def _tools_of_flow(self, flow: FlowConfig) -> dict[str, Tool]:
        controller, executor = flow.subflows_config.controller, flow.subflows_config.executor
        found: dict[str, Tool] = dict(self.tools_for(self.agent(controller.agent))) if controller.agent else {}
        found |= BUILTIN.resolve(item for item in executor.tools or () if item not in found)
        for branch in executor.branches.values():
            if branch.agent:
                found |= self.tools_for(self.agent(branch.agent))
            elif isinstance(branch.flow, FlowConfig):
                found |= self._tools_of_flow(branch.flow)
        return found

    def _agents_in(self, agent: Agent, mode: str) -> Iterator[Agent]:
        """The agent, and those of a flow and of its branches."""
        yield agent
        flows = [self.flows[mode]] if mode in self.flows else []
        while flows:
            config = flows.pop().subflows_config
            branches = config.executor.branches.values()
            named = [config.controller.agent, *(branch.agent for branch in branches)]
            yield from (self[name] for name in named if name and name in self)
            flows += [branch.flow for branch in branches if isinstance(branch.flow, FlowConfig)]

    def version(self, agent: Agent) -> str:
        """The agent's version, else a digest of its definition, so that processes know whether theirs is the same."""
        if agent.version:
            return agent.version
        if agent.agent_id not in self._digests:
            sets = [item for item in agent.tools if isinstance(item, str) and item in BUILTIN.names]
            own = BUILTIN.resolve(item for item in agent.own_tools if not isinstance(item, str) or item not in sets)
            self._digests[agent.agent_id] = agent_digest(agent, sets, own.values())
        return self._digests[agent.agent_id]

    def versions(self, agent_id: str) -> Mapping[str, "Registry"]:
        """The registries in which the agent has each of its versions, the current one first; empty: it is not here."""
        if agent_id not in self._versions:
            agent = self._agents.get(agent_id)
            views = [self, *(self.changed([older]) for older in agent.older)] if agent else []
            found: dict[str, Registry] = {}
            for view in views:
                found.setdefault(view.version(view._agents[agent_id]), view)
            self._versions[agent_id] = found
        return self._versions[agent_id]

    def changed(self, agents: Iterable[Agent]) -> "Registry":
        """This registry with these agents in place of those of their ids; it shares the connections to MCP servers.

        What is registered there or forgotten is so there only.
        """
        view = copy(self)
        view._agents = ChainMap({agent.agent_id: self._completed(agent) for agent in agents}, self._agents)
        view._executors = dict(self._executors)
        view._models, view._tools, view._digests, view._versions = {}, {}, {}, {}
        return view

    def of(self, task: Task) -> "Registry":
        """The registry for a task: with the version of the agent that it has, else the current one."""
        return self.versions(task.agent_id).get(task.agent_version or "", self)

    def current_version(self, agent_id: str) -> str:
        """The version of an agent that new tasks begin with.

        Raises:
            UnknownAgent.
        """
        return self.version(self.agent(agent_id))

    def on_upgrade(self, task: Task) -> OnUpgrade | None:
        """What becomes of a task whose version of its agent is not here; None where it is.

        Raises:
            UnknownAgent.
        """
        if task.agent_version in (None, *self.versions(task.agent_id)):
            return None
        return task.on_upgrade or self.agent(task.agent_id).on_upgrade

    def keeps_version(self, task: Task) -> bool:
        """Whether a task keeps a version of its agent that is not here."""
        choice = self.on_upgrade(task) if task.agent_id in self else task.on_upgrade
        return choice == "pin"

    def environment_model(self, agent: Agent) -> str:
        """The model's name where the agent names none, so that a resume elsewhere means the same one; else empty."""
        return "" if agent.model is not None else str(chosen_model(agent, "", self._environ))

    def model_name(self, agent: Agent) -> str:
        """The name of the model that the agent answers with where a message names none; it is not built."""
        chosen = chosen_model(agent, "", self._environ)
        return chosen if isinstance(chosen, str) else str(getattr(chosen, "model_name", type(chosen).__name__))

    def accepted(self, agent: Agent, override: str = "") -> Collection[str]:
        """The kinds of files that the agent's model reads beside text.

        Raises:
            ConfigurationError: SEGUE_ACCEPTS names another kind.
        """
        return accepted_kinds(agent, override, self._environ)

    def check_model(self, agent: Agent) -> None:
        """Check the name of the agent's model without building it.

        Raises:
            UnknownModel: it has no known prefix.
        """
        chosen = chosen_model(agent, "", self._environ)
        if isinstance(chosen, str):
            kind_of(chosen)

    def reads_files(self, agent: Agent) -> bool:
        """Whether the agent has tools over the data folder."""
        return BUILTIN.may_change(agent.tools)

    def model_for(self, agent: Agent, override: str = "") -> Model:
        """The agent's model, or another one in its place; it is built once.

        Raises:
            UnknownModel, MissingKey.
        """
        key = (agent.agent_id, override)
        if key not in self._models:
            self._models[key] = build_model(agent, override, self._environ, self.habits)
        return self._models[key]

    def for_run(self, services: Services) -> Services:
        """The services of a run that the app begins; a registry may replace some."""
        return services


async def all_tools(agents: Iterable[Agent]) -> dict[str, list[str] | SegueError]:
    """The tools of each agent, with those of its MCP servers, or why it has none, by the agent's id."""
    listed_agents = [*agents]
    registry = Registry([*EXAMPLES, *listed_agents])
    try:
        return {agent.agent_id: await _prepared(registry, agent) for agent in listed_agents}
    finally:
        await registry.close()


async def _prepared(registry: Registry, agent: Agent) -> list[str] | SegueError:
    try:
        await registry.prepare(agent)
        return [*registry.tools_for(agent)]
    except SegueError as error:
        return error


async def served_tools(agents: Iterable[Agent]) -> dict[str, str]:
    """The tools of each agent's MCP servers, or why they cannot be listed, by the agent's id."""
    served = [agent for agent in agents if agent.mcp or agent.a2a]
    found = await all_tools(served)
    return {agent.agent_id: _served(agent, found[agent.agent_id]) for agent in served}


def _served(agent: Agent, tools: list[str] | SegueError) -> str:
    return str(tools) if isinstance(tools, SegueError) else ", ".join(_without_own(agent, tools))


def _without_own(agent: Agent, tools: Iterable[str]) -> list[str]:
    own = {*BUILTIN.resolve(agent.own_tools), *(each.name for each in agent.agent_tools)}
    return [name for name in tools if name not in own]


def _together(
    own: Mapping[str, Tool], served: Iterable[McpTool | RemoteAgentTool | LocalAgentTool]
) -> Mapping[str, Tool]:
    found, owner = dict(own), dict.fromkeys(own, "the agent's own")
    for tool in served:
        if tool.name in found:
            both = f"{owner[tool.name]} and {tool.owner}"
            raise ConfigurationError(
                "Two tools are called {name}, {both}: leave one out with a server's `tools`.", name=tool.name, both=both
            )
        found[tool.name], owner[tool.name] = tool, tool.owner
    return found


def services_of(registry: Registry, emit: Callable[[Event], None], **others: Any) -> Services:
    """The services of one run over a registry; `others` are fields of `Services`."""
    given = {"memory": registry.memory, "ids": registry.ids, **others}
    return Services(agents=registry, participants=registry.participants, emit=emit, **given)


# LangGraph graphs whose nodes find their services without the app, and run from synchronous code, too.

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
    own_agents: tuple[GivenAgent, ...] = ()
    """The agents that it was given, the default one first; within a task they join those of the app."""

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
            services = cast(AppContext, runtime.context).services
            if services and services.part_of and runtime.execution_info:
                services.own_nodes.add(runtime.execution_info.checkpoint_ns)
            return _announced(await node(state, runtime), runtime.context)

        return cast(Node, served)

    async def _with_services(self, runtime: Runtime[RunContext]) -> Runtime[RunContext]:
        given: Any = runtime.context  # None where none is passed, whatever LangGraph's type says, or a parent's own
        surrounding = SURROUNDING.get()
        if surrounding and isinstance(given, AppContext) and given.services is surrounding.outer:
            return runtime.override(context=await _within(surrounding.context, self.own_agents))
        if isinstance(given, AppContext) and given.services:
            return runtime.override(context=await _within(given, self.own_agents)) if self.own_agents else runtime
        context = given if isinstance(given, RunContext) else _read_context(given)
        if surrounding:
            own = (context.given_agent,) if context.given_agent else self.own_agents
            return runtime.override(context=await _within(surrounding.context, own, context))
        registry = _registry_of(context.given_agent) if context.given_agent else self.registry or _bare_registry()
        await registry.open(registry.agent(context.agent), context.model)
        write = runtime.stream_writer
        services = services_of(registry, lambda event: write(event.json()))
        return runtime.override(context=AppContext.carrying(services, **_fields_of(context)))


async def _within(outer: AppContext, own: tuple[GivenAgent, ...], asked: RunContext | None = None) -> AppContext:
    """The context of a graph within a task: what is `asked` for takes the place of the task's, an agent of its own too.

    Such an agent answers with its own model, where it names one.
    """
    services, fields = cast(Services, outer.services), {**_fields_of(outer), **_fields_of(asked, exclude_defaults=True)}
    if own:
        registry = _with_agents(cast(Registry, services.agents), own)
        ids = [each.agent.agent_id for each in own]
        agent = registry[fields["agent"] if fields["agent"] in ids else ids[0]]
        fields["agent"] = agent.agent_id
        if agent.model is not None and not (asked and asked.model):
            fields["model"] = ""
        services = replace(services, agents=registry)
        await registry.open(agent, fields["model"])
    return AppContext.carrying(services, **fields)


def _fields_of(context: RunContext | None, **options: Any) -> dict[str, Any]:
    return context.model_dump(include=set(RunContext.model_fields), **options) if context else {}


@lru_cache(maxsize=64)
def _with_agents(registry: Registry, own: tuple[GivenAgent, ...]) -> Registry:
    return registry.changed(each.agent for each in own)


def _read_context(given: Any) -> RunContext:
    """The context of a run inside a graph that has another: whose run it is, and its language where it is one of ours.

    Which agent, mode and model there are is the graph's own; a parent chooses them with a `RunContext`.
    """
    names = ("user_id", "language")
    user_id, language = (given.get(n) if isinstance(given, Mapping) else getattr(given, n, None) for n in names)
    context = RunContext(user_id=user_id) if user_id and isinstance(user_id, str) else RunContext()
    return context.model_copy(update={"language": language}) if language in LANGUAGES else context


def _announced(update: Any, context: RunContext) -> Any:
    """A node's update with its events as the services announce them."""
    if not isinstance(update, dict) or not update.get("events"):
        return update
    services = context.services if isinstance(context, AppContext) else None
    return {**update, "events": services.announced(update["events"])} if services else update


def run_node(node: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a node's coroutine to its end, from a thread of LangGraph's; a nested graph awaits the same saver.

    Raises:
        BlockingCall: the loop that would carry it waits for it.
    """
    surrounding = SURROUNDING.get()
    loop, config = (surrounding.loop, get_config()) if surrounding else (sync_loop(), _awaitable(get_config()))
    if asyncio._get_running_loop() is loop:
        raise BlockingCall
    with set_config_context(config) as context:
        return context.run(lambda: run_sync(node(), loop))


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
