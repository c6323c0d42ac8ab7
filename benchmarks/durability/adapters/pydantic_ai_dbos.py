"""pydantic-ai with DBOS on SQLite, whose workflows are continued when the program is started again.

https://ai.pydantic.dev/durable_execution/dbos/, https://docs.dbos.dev/integrations/pydantic-ai: model requests are
steps, tools of the program's own are decorated with `DBOS.step`. A run is the workflow of its message.
"""

from collections.abc import Mapping
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter, Tool
from pydantic_ai.durable_exec.dbos import DBOSDurability

from benchmarks.durability.adapters import pydantic_ai as plain
from benchmarks.durability.work import SYSTEM, Outcome, Work

PACKAGES = ("pydantic-ai-slim", "dbos")
NOT_OFFERED = {
    "approvals.nested": plain.NOT_OFFERED["approvals.nested"],
    "streams": plain.NOT_OFFERED["streams"],
    "messages": "messages are not enqueued in [a DBOS workflow](https://ai.pydantic.dev/durable_execution/dbos/).",
}


def _launch(work: Work) -> Any:
    DBOS(config={
        "name": "clerk", "system_database_url": f"sqlite:///{work.folder / 'dbos.sqlite'}", "application_version": "1",
        "executor_id": work.process, "run_admin_server": False, "log_level": "ERROR",
    })  # fmt: skip
    tools = [Tool(DBOS.step()(tool), requires_approval=tool.__name__ in work.guarded) for tool in work.tools]
    agent = Agent(plain.model_of(work), name="clerk", instructions=SYSTEM, tools=tools,
                  output_type=[str, DeferredToolRequests],
                  capabilities=[DBOSDurability(event_stream_handler=plain.stream)])  # fmt: skip

    @DBOS.workflow(name="turn")
    async def turn(message: str | None, history: str, results: DeferredToolResults | None) -> tuple[Outcome, bytes]:
        messages = ModelMessagesTypeAdapter.validate_json(history)
        result = await agent.run(message, message_history=messages, deferred_tool_results=results)
        return plain.outcome_of(result), result.new_messages_json()

    DBOS.launch()
    return turn


async def _run(work: Work, message: str | None, results: Any = None, key: str = "") -> Outcome:
    turn = _launch(work)
    history = ModelMessagesTypeAdapter.dump_json(plain.load(work)).decode()
    with SetWorkflowID(key or f"{len(history)}-{message}"):
        outcome, new = await turn(message, history, results)
    plain.append(work, new)
    DBOS.destroy(destroy_registry=True)
    return outcome


async def run(work: Work) -> Outcome:
    return await _run(work, work.message)


async def begin(work: Work) -> Outcome:
    """The workflow's id is the message's: started again, it is the same workflow, which DBOS has continued by then."""
    return await _run(work, work.message, key="the first message")


resume = begin


remember = plain.remember


async def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    return await _run(work, None, plain.verdicts(plain.load(work), approve))
