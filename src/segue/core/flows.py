"""The configuration of a controller–executor flow, and what its hooks take and return."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from .agents import Items, load_attribute, read_file
from .bounds import MOST_COUNT
from .errors import ConfigurationError

FlowStatus = Literal["finished", "unfinished"]
BUILT_INS: Final = (
    "ask_user",
    "re_plan",
    "update_plan",
    "intermediate_answer",
    "final_answer",
    "finish",
    "manual_finish",
)
"""The branches that every flow has, unless its configuration leaves some out."""
SUBFLOWS: Final = ("MemoryReading", "Controller", "Executor", "MemoryWriting")
"""The subflows in the order of a round."""


@dataclass(frozen=True)
class ControllerDecision:
    """What the controller decided in a round: a branch and its arguments."""

    command: str
    command_args: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""
    step_id: str = ""
    """The step of the plan that the branch works on; empty if it names none."""


@dataclass(frozen=True)
class BranchInput:
    """The flow continues: this branch runs with these arguments."""

    branch: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EarlyExit:
    """The flow ends: `result` goes to the caller's controller, `summary` to the caller's logs."""

    result: Any
    summary: str
    status: FlowStatus = "finished"
    by_user: bool = False
    """The person ended it: unfinished, but no error."""

    @property
    def error(self) -> str:
        """Why the flow failed, in a line; empty if it did not."""
        return "" if self.status == "finished" or self.by_user else self.summary.partition("\n")[0] or "unfinished"


Hooked = EarlyExit | BranchInput | Mapping[str, Any]
DetectFinishOrContinue = Callable[[ControllerDecision, Mapping[str, Any]], Hooked | Awaitable[Hooked]]
"""Called after the controller. A mapping with `EARLY_EXIT` ends the flow as an `EarlyExit` does."""
OnReachMaxRound = Callable[
    [Mapping[str, Any]], EarlyExit | Mapping[str, Any] | Awaitable[EarlyExit | Mapping[str, Any]]
]
"""Called in place of the round that would be one too many."""


def _imported(given: Any) -> Any:
    """The callable or graph itself; one that is named `module:attribute` is imported."""
    try:
        return load_attribute(given) if isinstance(given, str) else given
    except ConfigurationError as error:
        raise ValueError(str(error)) from error


def _hook(given: Any) -> Any:
    if given is not None and not callable(found := _imported(given)):
        raise ValueError(f"{given!r} is not a function: give a callable or 'module:function'")
    return None if given is None else found


Imported = Annotated[Any, AfterValidator(_imported)]
Hook = Annotated[Any, AfterValidator(_hook)]


def _interface(given: Any) -> Any:
    """The function of an interface; `{"_target_": "module.function"}` names one."""
    if not isinstance(given, Mapping):
        return _hook(given)
    if [*given] != ["_target_"]:
        raise ValueError(f"{dict(given)!r} is no interface: give a function, or a table with `_target_` alone")
    module, _, function = str(given["_target_"]).rpartition(".")
    return _hook(f"{module}:{function}")


Interface = Annotated[Any, AfterValidator(_interface)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)


class ControllerConfig(_Frozen):
    """Who decides, and what for."""

    agent: str = ""
    """The id of an agent; empty: the one that the task was given to."""
    goal: str = ""
    """The goal where the caller gives none."""


class BranchConfig(_Frozen):
    """A branch that is a graph, a flow or an agent of its own; exactly one of the three is given."""

    description: str = ""
    """What it does, as the controller sees it."""
    agent: str = ""
    """The id of an agent, which works on the branch's goal in rounds of its own."""
    graph: Imported = None
    """A LangGraph graph, or `module:graph`."""
    flow: "FlowConfig | str | None" = None
    """Another flow; in a file, its name."""
    parameters: dict[str, Any] | None = None
    """The JSON schema of its arguments; without it the branch takes a `goal`, or what the graph's input declares."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(given not in (None, "") for given in (self.agent, self.graph, self.flow)) != 1:
            raise ValueError("give the branch exactly one of agent, graph and flow")
        return self


class ExecutorConfig(_Frozen):
    """What the controller may choose from."""

    tools: Items[Any] | None = None
    """Tools as in `Agent`; None: those of the controller's agent."""
    built_ins: Items[str] = BUILT_INS
    branches: dict[str, BranchConfig] = {}

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        if unknown := [name for name in self.built_ins if name not in BUILT_INS]:
            raise ValueError(f"there is no built-in branch {unknown[0]!r}; use some of: {', '.join(BUILT_INS)}")
        if not {"finish", "final_answer"} & {*self.built_ins}:
            raise ValueError("a flow has to end: keep finish or final_answer among the built_ins")
        for name in self.branches:
            if name in BUILT_INS or name.upper() in NODES or not name.replace("-", "_").isidentifier():
                raise ValueError(f"a branch cannot be called {name!r}: rename it, in letters, digits, _ and -")
        return self


NODES: Final = (
    "INIT", "MEMORY_READING", "CONTROLLER", "EXECUTOR", "ASK_USER", "PLAN", "ANSWER", "MEMORY_WRITING", "FINISH",
)  # fmt: skip
"""The nodes of the graph; each branch that is a graph is one beside them."""


class MemoryWritingConfig(_Frozen):
    """Where the summary of each round is written.

    With neither field each session has a file of its own, and so has each branch that is a flow.
    """

    file: str = ""
    """A name in the caller's `memory_files`, or else the memory file of that name, which sessions and flows share."""
    scope: Literal["session", "user"] | None = None
    """Whether the file belongs to one session or to all of a user's; None: session, or user where a file is named."""

    @property
    def name(self) -> str:
        """The name of the file among the memory files of the flow."""
        return self.file or "logs"

    @property
    def in_session(self) -> bool:
        return self.scope == "session" if self.scope else not self.file


class MemoryReadingConfig(_Frozen):
    """What the controller is shown of the memory files."""

    files: Items[str] | None = None
    """Names in the caller's `memory_files`, or else of memory files; None: the caller's and the flow's own."""
    tokens: int | None = Field(default=None, ge=50, le=MOST_COUNT)
    """The most that is shown; None: a quarter of the agent's `prompt_tokens`."""


class SubflowsConfig(_Frozen):
    """The four subflows of a round."""

    controller: ControllerConfig = Field(default_factory=ControllerConfig, alias="Controller")
    executor: ExecutorConfig = Field(default_factory=ExecutorConfig, alias="Executor")
    memory_writing: MemoryWritingConfig = Field(default_factory=MemoryWritingConfig, alias="MemoryWriting")
    memory_reading: MemoryReadingConfig = Field(default_factory=MemoryReadingConfig, alias="MemoryReading")

    model_config = ConfigDict(populate_by_name=True)


class Subflow(_Frozen):
    """One entry of a topology; a mere name is one, too."""

    flow: Literal["MemoryReading", "Controller", "Executor", "MemoryWriting"]
    goal: str = ""
    """What it is there for; only read by people."""
    input_interface: Interface = None
    """Of the Controller: takes the state that it is to be shown, as a dict, and returns what it is shown."""
    output_interface: Interface = None
    """Of the Controller: `detect_finish_or_continue`."""
    reset: bool = False
    """Of the Controller: it is shown what the last round came to, and nothing of those before but their memory. The
    other subflows begin again in every round."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"flow": given} if isinstance(given, str) else given


DEFAULT_TOPOLOGY: Final = tuple(
    Subflow(flow=name) for name in ("MemoryReading", "Controller", "Executor", "MemoryWriting")
)


class FlowConfig(_Frozen):
    """A controller–executor flow with memory."""

    name: str = Field(default="flow", pattern=r"^[\w.-]+$", max_length=64)
    description: str = ""
    max_round: int | None = Field(default=30, ge=1, le=MOST_COUNT)
    """The most rounds; None: as many as the agent's budget allows. In a file, 0 stands for None."""
    subflows_config: SubflowsConfig = Field(default_factory=SubflowsConfig)
    topology: Items[Subflow] = DEFAULT_TOPOLOGY
    """The order of the subflows, from MemoryReading or Controller on; the memory subflows may be left out."""
    detect_finish_or_continue: Hook = None
    on_reach_max_round: Hook = None

    @model_validator(mode="before")
    @classmethod
    def _unlimited(cls, values: Any) -> Any:
        return {**values, "max_round": None} if isinstance(values, dict) and values.get("max_round") == 0 else values

    @model_validator(mode="after")
    def _round_trip(self) -> Self:
        names = [entry.flow for entry in self.topology]
        for needed in ("Controller", "Executor"):
            if needed not in names:
                raise ValueError(f"the topology has no {needed}: add an entry with flow = {needed!r}")
        kept = [name for name in SUBFLOWS if name in names]
        after_controller = kept[kept.index("Controller") :]
        if names not in (kept, after_controller + [name for name in kept if name not in after_controller]):
            raise ValueError(f"the topology has the order {' → '.join(names)}: write {' → '.join(kept)}")
        for name in ("input_interface", "output_interface"):
            if others := [e.flow for e in self.topology if getattr(e, name) and e.flow != "Controller"]:
                raise ValueError(f"only the Controller has an {name}: remove that of the {others[0]}")
        return self

    @property
    def reads_memory(self) -> bool:
        return any(entry.flow == "MemoryReading" for entry in self.topology)

    @property
    def writes_memory(self) -> bool:
        return any(entry.flow == "MemoryWriting" for entry in self.topology)

    @property
    def finish_detector(self) -> DetectFinishOrContinue | None:
        """The hook of the flow, or the output interface of its controller."""
        found: DetectFinishOrContinue | None = self.detect_finish_or_continue or self.controller_entry.output_interface
        return found

    @property
    def controller_entry(self) -> Subflow:
        """The Controller's entry of the topology."""
        return next(entry for entry in self.topology if entry.flow == "Controller")


BranchConfig.model_rebuild()


def early_exit(given: object) -> EarlyExit:
    """What a hook returned in place of a round."""
    if isinstance(given, EarlyExit):
        return given
    if not isinstance(given, Mapping) or given.get("status", "unfinished") not in ("finished", "unfinished"):
        raise ConfigurationError(
            "A hook returned {given}: return an EarlyExit, or a mapping with result, summary and status.",
            given=repr(given),
        )
    result, summary, status = given.get("result", ""), str(given.get("summary", "")), given.get("status", "unfinished")
    return EarlyExit(result, summary, status, bool(given.get("by_user")))


def flow_config(given: FlowConfig | Mapping[str, Any]) -> FlowConfig:
    """A configuration, read from a table where it is one."""
    if isinstance(given, FlowConfig):
        return given
    try:
        return FlowConfig.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        name = given.get("name", "flow")
        raise ConfigurationError(
            "The flow '{name}': {place}{reason}.",
            name=name,
            place=f"{where}: " if where else "",
            reason=first["msg"].removeprefix("Value error, "),
        ) from None


def load_flows(path: str | Path) -> dict[str, FlowConfig]:
    """The flows of an agents file, each a mode of its name: a `[flows.NAME]` table each, fields as in `FlowConfig`."""
    tables = read_file(Path(path)).get("flows", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigurationError("The flows of {path} are not tables: write [flows.NAME].", path=path)
    read = {name: flow_config({"name": name, **table}) for name, table in tables.items()}
    return {name: _resolved(config, read, (name,)) for name, config in read.items()}


def _resolved(config: FlowConfig, flows: Mapping[str, FlowConfig], outer: tuple[str, ...]) -> FlowConfig:
    """The configuration with the flows that its branches name."""
    executor = config.subflows_config.executor
    branches: dict[str, BranchConfig] = {}
    for name, branch in executor.branches.items():
        if isinstance(branch.flow, str):
            if branch.flow not in flows:
                known = ", ".join(flows)
                raise ConfigurationError(
                    "The branch '{name}': there is no flow '{flow}'; use one of: {known}.",
                    name=name,
                    flow=branch.flow,
                    known=known,
                )
            if branch.flow in outer:
                raise ConfigurationError(
                    "The flow '{flow}' is a branch of itself: remove the branch '{name}'.", flow=branch.flow, name=name
                )
            inner = _resolved(flows[branch.flow], flows, (*outer, branch.flow))
            branches[name] = branch.model_copy(update={"flow": inner})
        else:
            branches[name] = branch
    return with_branches(config, branches)


def with_branches(config: FlowConfig, branches: Mapping[str, BranchConfig]) -> FlowConfig:
    executor = config.subflows_config.executor.model_copy(update={"branches": dict(branches)})
    subflows = config.subflows_config.model_copy(update={"executor": executor})
    return config.model_copy(update={"subflows_config": subflows})
