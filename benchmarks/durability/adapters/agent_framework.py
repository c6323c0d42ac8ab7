"""Microsoft Agent Framework: sessions with a history in files, and workflows with checkpoints in files.

Sessions: https://learn.microsoft.com/agent-framework/agents/conversations/session
Checkpoints: https://learn.microsoft.com/agent-framework/workflows/checkpoints, for going on after a death.
Approvals that wait: https://learn.microsoft.com/agent-framework/workflows/human-in-the-loop
Its durable extension needs the Durable Task Scheduler, a service of its own, and is not measured.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    FileCheckpointStorage,
    FileHistoryProvider,
    Message,
    WorkflowBuilder,
    tool,
)  # fmt: skip
from agent_framework.openai import OpenAIChatCompletionClient

from benchmarks.durability.work import MODEL, SESSION, SYSTEM, Outcome, Work

PACKAGES = ("agent-framework-core", "agent-framework-openai")
NOT_OFFERED = {
    "approvals.nested": "an approval of [an agent that is a "
    "tool](https://learn.microsoft.com/agent-framework/tutorials/agents/agent-as-function-tool) does not reach the "
    "calling one, by the docstring of `as_tool`.",
    "messages": "[a run](https://learn.microsoft.com/agent-framework/agents/running-agents) takes its messages when it "
    "begins.",
    "streams": "[background responses](https://learn.microsoft.com/agent-framework/agents/background-responses) need a "
    "service that has them, not chat completions.",
}


def _agent(work: Work, **more: Any) -> Agent[Any]:
    modes = {True: "always_require", False: "never_require"}
    tools: list[Any] = [tool(each, approval_mode=modes[each.__name__ in work.guarded]) for each in work.tools]  # type: ignore[call-overload]
    client = OpenAIChatCompletionClient(model=MODEL, base_url=work.url, api_key="none")
    return Agent(client, SYSTEM, name="main", tools=tools, **more)


async def run(work: Work) -> Outcome:
    if work.guarded:
        return await begin(work)
    agent = _agent(work, context_providers=[FileHistoryProvider(work.folder / "history")])
    stream = agent.run(work.message, stream=True, session=AgentSession(session_id=SESSION))
    async for _ in stream:
        pass
    return Outcome(answer=(await stream.get_final_response()).text)


async def remember(work: Work, turns: Sequence[tuple[str, str]]) -> None:
    messages = [Message(role, [text]) for turn in turns for role, text in zip(("user", "assistant"), turn, strict=True)]
    await FileHistoryProvider(work.folder / "history").save_messages(SESSION, messages)


def _workflow(work: Work) -> tuple[Any, FileCheckpointStorage]:
    storage = FileCheckpointStorage(work.folder / "checkpoints")
    return WorkflowBuilder(start_executor=_agent(work), name="clerk", checkpoint_storage=storage).build(), storage


async def _go(workflow: Any, **given: Any) -> Outcome:
    stream = workflow.run(stream=True, **given)
    answer, asked = "", []
    async for event in stream:
        if event.type == "request_info":
            asked.append(event.data.function_call.name)
        elif event.type == "output":
            answer += event.data.text
    return Outcome(waiting=tuple(asked)) if asked else Outcome(answer=answer)


async def begin(work: Work) -> Outcome:
    return await _go(_workflow(work)[0], message=work.message)


async def resume(work: Work) -> Outcome:
    """The same program again: from the last checkpoint, if there is one."""
    workflow, storage = _workflow(work)
    last = await storage.get_latest(workflow_name=workflow.name)
    return await _go(workflow, checkpoint_id=last.checkpoint_id) if last else await _go(workflow, message=work.message)


async def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    workflow, storage = _workflow(work)
    last: Any = await storage.get_latest(workflow_name=workflow.name)
    asked = {name: event.data for name, event in last.pending_request_info_events.items()}
    responses = {
        name: each.to_function_approval_response(approve[each.function_call.name]) for name, each in asked.items()
    }
    return await _go(workflow, checkpoint_id=last.checkpoint_id, responses=responses)
