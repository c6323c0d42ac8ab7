"""Two sets of tools that the offline planner has never seen, and a talk with it that runs them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import Field

from segue.core.decision import decode
from segue.core.models import ModelReply, ModelRequest
from segue.models.offline import OfflinePlanner
from segue.nodes.context import CONTROL_TOOLS, envelope_schema
from segue.prompts.catalogue import language_of, render
from segue.tools.registry import BoundTool, as_tool, tool

Branch = Annotated[str, Field(description="The branch (分馆)", examples=["Northgate", "Riverside", "河西馆", "东门馆"])]
LoanId = Annotated[str, Field(pattern=r"^L-\d{3}$", description="Loan number, such as L-017 (借阅号)")]


@tool(read_only=True, title="查书 · Find books", keywords=["找书", "有什么书", "books", "find a book"])
def find_books(
    subject: Annotated[str, Field(description="Subject (主题)", json_schema_extra={"keywords": ["关于", "about"]})],
    kinds: Annotated[list[Literal["novel", "atlas", "小说", "画册"]] | None, Field(description="Kinds (体裁)")] = None,
) -> list[dict[str, Any]]:
    """Find books on a subject."""
    return [{"title": f"All of {subject}", "copies": 2}, {"title": f"More of {subject}", "copies": 0}]


@tool(read_only=True, title="开放时间 · Opening hours", keywords=["开放时间", "几点开门", "opening hours", "open"])
def opening_hours(branch: Branch) -> dict[str, Any]:
    """Tell when a branch is open."""
    return {"branch": branch, "summary": f"{branch}: 9–17"}


@tool(title="续借 · Renew a loan", keywords=["续借", "renew"])
def renew_loan(
    loan_id: LoanId,
    weeks: Annotated[
        int, Field(ge=1, le=4, description="How many weeks (周数)", json_schema_extra={"keywords": ["周", "week"]})
    ],
) -> dict[str, Any]:
    """Renew a loan for some weeks."""
    if loan_id == "L-404":
        raise ValueError("no such loan")
    return {"summary": f"{loan_id} +{weeks}"}


@tool(read_only=True, title="逾期费 · Late fee", keywords=["逾期费", "罚款", "late fee", "fine"])
def late_fee(
    loan_id: LoanId,
    weeks: Annotated[
        int, Field(description="How many weeks late (周数)", json_schema_extra={"keywords": ["周", "week"]})
    ],
) -> dict[str, Any]:
    """Say what a late return costs."""
    return {"loan": loan_id, "weeks": weeks, "fee": 2 * weeks, "paid": False}


LIBRARY = (find_books, opening_hours, renew_loan, late_fee)

Machine = Annotated[str, Field(pattern=r"^M-\d{2}$", description="Machine number (机器编号)", examples=["M-01"])]


@tool(read_only=True, title="报警 · Alarms", keywords=["报警", "alarm"])
def alarms(
    machine: Machine,
    severities: Annotated[
        list[Literal["critical", "minor", "严重", "轻微"]] | None, Field(description="Severities")
    ] = None,
) -> dict[str, Any]:
    """List the alarms of a machine."""
    return {"machine": machine, "alarms": [], "severities": severities}


@tool(read_only=True, title="读传感器 · Read a sensor", keywords=["读数", "传感器", "reading", "sensor"])
def read_sensor(machine: Machine, sensor: Literal["temperature", "pressure", "温度", "压力"]) -> dict[str, Any]:
    """Read one sensor of a machine."""
    return {"summary": f"{machine} {sensor} 42"}


@tool(read_only=True, title="按温度找机器 · Machines by temperature", keywords=["哪些机器", "which machines"])
def machines_by_temperature(
    temp_min: Annotated[float | None, Field(json_schema_extra={"keywords": ["温度", "temperature"]})] = None,
    temp_max: Annotated[float | None, Field(json_schema_extra={"keywords": ["温度", "temperature"]})] = None,
) -> list[str]:
    """Which machines are within a range of temperatures."""
    return ["M-07"]


@tool(title="提交工单 · Open a ticket", keywords=["工单", "ticket"])
def open_ticket(
    title: Annotated[str, Field(description="What is wrong (问题)")],
    urgent: Annotated[bool, Field(json_schema_extra={"keywords": ["紧急", "urgent"]})] = False,
) -> dict[str, Any]:
    """Open a ticket."""
    return {"summary": f"#1 {title}"}


@tool(read_only=True, title="换算 · Convert", keywords=["compute", "算"])
def compute(formula: Annotated[str, Field(description="算式", json_schema_extra={"format": "arithmetic"})]) -> str:
    """Work out a formula."""
    return f"= {formula}"


@tool
def pump_history(machine: Machine) -> str:
    """Show when the pump of a machine was serviced."""
    return "2024-01-01"


@tool
def move_load(
    source: Annotated[str, Field(pattern=r"^M-\d{2}$", json_schema_extra={"keywords": ["from", "从"]})],
    target: Annotated[str, Field(pattern=r"^M-\d{2}$", json_schema_extra={"keywords": ["to", "到"]})],
) -> str:
    """Move load between machines."""
    return "moved"


MACHINES = (alarms, read_sensor, machines_by_temperature, open_ticket, compute, pump_history, move_load)


_bound = cache(as_tool)


def bound_once(given: Any) -> BoundTool:
    """A function's tool, made once."""
    return given if isinstance(given, BoundTool) else _bound(given)


def request(text: str, tools: Sequence[Any], native: bool = False, **parts: Any) -> ModelRequest:
    """A decision's request as the react graph writes it; `parts`: `conversation`, `rounds` of results, `memory`."""
    bound = {member.name: member for member in map(bound_once, tools)}
    language = language_of(text)
    conversation, rounds = parts.get("conversation", []), parts.get("rounds", [])
    context = {"objective": text, "memory": parts.get("memory", []), "conversation": [] if native else conversation}
    state = json.dumps({"global": {"status": "running"}, "context": context}, ensure_ascii=False)
    specs = [member.spec for member in bound.values()]
    if native:
        system = SystemMessage(render("native", language, agent_prompt=""))
        closing = HumanMessage(render("native_state", language, current_state=state))
        spoken = [*_messages(conversation), HumanMessage(text), *(m for made in rounds for m in _exchange(made))]
        specs += CONTROL_TOOLS.values()
        return ModelRequest("decide", [system, *spoken, closing], tools=specs, native=True)
    shown = render("react", language, agent_prompt="", tools="-", endings="")
    system = SystemMessage(f"{shown}\n\n{render('state', language, current_state=state)}")
    records = [AIMessage(json.dumps({"result": [{"function": made} for made in results]})) for results in rounds]
    return ModelRequest("decide", [HumanMessage(text), system, *records], envelope_schema(bound), specs)


def _exchange(results: Sequence[Mapping[str, Any]]) -> list[Any]:
    calls: list[Any] = [{"id": str(n), "name": r["name"], "args": r["arguments"]} for n, r in enumerate(results)]
    told = [(r["result"], str(n)) for n, r in enumerate(results)]
    return [
        AIMessage("", tool_calls=calls),
        *(
            ToolMessage(
                json.dumps(r.get("success", r.get("error"))),
                tool_call_id=n,
                status="error" if "error" in r else "success",
            )
            for r, n in told
        ),
    ]


def _messages(conversation: Sequence[Mapping[str, Any]]) -> list[Any]:
    kinds: Mapping[str, Any] = {"user": HumanMessage, "assistant": AIMessage}
    return [
        kinds[m["role"]](m["content"]) if m["role"] in kinds else ToolMessage(m["content"], tool_call_id="")
        for m in conversation
    ]


async def reply_to(asked: ModelRequest) -> ModelReply:
    """The planner's whole reply."""
    *_, whole = [piece async for piece in OfflinePlanner().stream(asked)]
    assert isinstance(whole, ModelReply)
    return whole


@dataclass
class Talk:
    """A conversation in react rounds: calls are run until the answer; `calls` are those of the last message."""

    tools: Sequence[Any]
    native: bool = False
    conversation: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def say(self, text: str) -> str:
        bound = {member.name: member for member in map(bound_once, self.tools)}
        rounds: list[list[dict[str, Any]]] = []
        for _ in range(8):
            asked = request(text, self.tools, self.native, conversation=self.conversation, rounds=rounds)
            answer, calls = _decided(await reply_to(asked))
            if not calls:
                self._remember(text, [made for results in rounds for made in results], answer)
                return answer
            rounds.append([await _run(bound[name], arguments) for name, arguments in calls])
        raise AssertionError(f"no answer after 8 rounds: {rounds}")

    def _remember(self, text: str, results: Sequence[Mapping[str, Any]], answer: str) -> None:
        self.calls = [(made["name"], made["arguments"]) for made in results]
        self.conversation.append({"role": "user", "content": text})
        for made in results:
            content = made["result"].get("success", made["result"].get("error"))
            self.conversation.append({"role": "tool", "content": json.dumps(content, ensure_ascii=False)})
        self.conversation.append({"role": "assistant", "content": answer})


def _decided(reply: ModelReply) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The answer, or the calls, in either protocol."""
    if reply.tool_calls or not reply.text.startswith("{"):
        return reply.text, [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]
    decision = decode(reply.text)
    return decision.answer, [(call.name, call.arguments) for call in decision.tool_calls]


async def _run(member: BoundTool, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        result = {"success": await member.call(arguments)}
    except ValueError as error:
        result = {"error": f"ValueError: {error}"}
    return {"name": member.name, "arguments": arguments, "result": result}
