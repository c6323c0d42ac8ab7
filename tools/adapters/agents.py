"""Agents of the same app as tools: a call is a task of the agent, below the task that makes the call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.config import get_config
from langgraph.types import interrupt

from segue.core.agents import Agent, AgentTool
from segue.core.context import SURROUNDING, AgentCall
from segue.core.errors import DatabaseUnavailable
from segue.core.provenance import SourceKind

from ..bound_tool import NOT_DONE, BadArguments, Marked, Marks, current_call, refuse_unknown

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What the agent is to do, with all that it has to know."},
    },
    "required": ["message"],
}
TASK = "background_task"
"""Where the result of a call in the background has the id of the task that it began."""


class DatabaseLost(DatabaseUnavailable):
    """The app's database failed in a call: the task that makes it stops, and is resumed later."""


class AgentNeedsApp(Exception):
    """A graph without the app cannot call other agents; the message is for the model."""


@dataclass(frozen=True)
class LocalAgentTool(Marked):
    """Another agent of the app. A call that was interrupted joins the task that it began."""

    config: AgentTool
    marks: Marks
    spec: Mapping[str, Any] = field(repr=False)
    seconds: float
    """How long a call may take."""

    @property
    def source_kind(self) -> SourceKind:
        return "agent-other"

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def owner(self) -> str:
        """Whose tool it is, in an error."""
        return f"the agent {self.config.agent}"

    def joins(self, arguments: Mapping[str, Any]) -> str:
        """The task that an earlier call began in the background, whose result the call waits for."""
        return str(arguments[TASK]) if self.config.background and arguments.keys() == {TASK} else ""

    def begun(self, arguments: Mapping[str, Any], value: Any) -> str:
        """The task that a call with this result began in the background; empty where it began none."""
        is_handle = isinstance(value, Mapping) and TASK in value and not self.joins(arguments)
        return str(value[TASK]) if self.config.background and is_handle else ""

    @property
    def timeout(self) -> float:
        return self.seconds

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Have the agent work on a task of its own, and wait for its result."""
        joins, parameters = self.joins(arguments), self.spec["function"]["parameters"]
        message = arguments.get("message") if parameters is _PARAMETERS else json.dumps(arguments, ensure_ascii=False)
        if not joins:
            refuse_unknown(parameters, arguments)
            if not isinstance(message, str) or not message.strip():
                raise BadArguments("message: give the text for the agent")
        around, call = SURROUNDING.get(), current_call.get()
        agent_calls = around.outer.agent_calls if around else None
        if around is None or agent_calls is None:
            raise AgentNeedsApp(
                f"the agent {self.config.agent} can be called only in an app: run the task with segue.open()"
            )
        checkpoint = get_config().get("configurable", {}).get("checkpoint_id", "")
        made = AgentCall(
            agent=self.config,
            message=str(message or ""),
            key=call.idempotency_key,
            index=call.index,
            ids={"task_id": call.task_id, "trace_id": call.trace_id, "step_id": call.step_id},
            source=f"{checkpoint}/{call.idempotency_key}",
            services=around.outer,
            ask=interrupt,
            later=around.later and self.config.background,
            joins=joins,
            share=around.share,
        )
        try:
            return await agent_calls.call(made)
        except DatabaseUnavailable as error:
            raise DatabaseLost(str(error)) from error

    async def check_effect(self, arguments: Mapping[str, Any]) -> Any:
        """A call that was interrupted may be made again: it joins the task that it began."""
        return NOT_DONE


_SPARE_SECONDS = 60.0
"""How much longer a call may take than the task of its agent."""


def local_agent_tool(config: AgentTool, agent: Agent) -> LocalAgentTool:
    """The tool that an agent is for another one."""
    marks = Marks(needs_approval=config.needs_approval, title=agent.agent_id)
    parameters = agent.arguments or _PARAMETERS
    function = {"name": config.name, "description": agent.public_description, "parameters": parameters}
    spec = {"type": "function", "function": function, "segue": marks.shown(config.name)}
    return LocalAgentTool(config, marks, spec, agent.budget.seconds + _SPARE_SECONDS)
