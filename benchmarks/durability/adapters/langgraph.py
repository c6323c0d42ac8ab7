"""LangChain's `create_agent` with LangGraph's SQLite saver.

Durable execution, `durability="sync"`, resuming with None: https://docs.langchain.com/oss/python/langgraph/durable-execution
Approvals: https://docs.langchain.com/oss/python/langchain/human-in-the-loop
Agents as tools: https://docs.langchain.com/oss/python/langchain/multi-agent/subagents
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from benchmarks.durability.work import MODEL, SESSION, SYSTEM, Outcome, Work

PACKAGES = ("langchain", "langgraph", "langgraph-checkpoint-sqlite")
NOT_OFFERED = {
    "messages": "[double texting](https://docs.langchain.com/langsmith/double-texting) needs LangSmith's server.",
    "streams": "[joining a stream again](https://docs.langchain.com/oss/python/langchain/frontend/join-rejoin) needs "
    "LangSmith's server.",
}
THREAD: Any = {"configurable": {"thread_id": SESSION}}
Middleware = Callable[[Work], Sequence[Any]]


def _agent(work: Work, saver: Any, more: Sequence[Any]) -> Any:
    model = ChatOpenAI(model=MODEL, base_url=work.url, api_key="none", streaming=True)  # type: ignore[arg-type]
    approvals = HumanInTheLoopMiddleware(dict.fromkeys(work.guarded, True)) if work.guarded else None
    middleware = [*([approvals] if approvals else []), *more]
    tools = [StructuredTool.from_function(tool) for tool in work.tools]
    if work.nested:
        inner = create_agent(model, [StructuredTool.from_function(tool) for tool in work.nested_tools],
                             system_prompt=SYSTEM, middleware=middleware)  # fmt: skip

        async def clerk(message: str) -> str:
            """Have the clerk do something."""
            return str((await inner.ainvoke({"messages": [("user", message)]}))["messages"][-1].text)

        tools.append(StructuredTool.from_function(coroutine=clerk))
    return create_agent(model, tools, system_prompt=SYSTEM, middleware=middleware, checkpointer=saver)


async def _invoke(work: Work, given: Callable[[Any], Any], middleware: Middleware) -> Outcome:
    async with AsyncSqliteSaver.from_conn_string(str(work.folder / "graph.db")) as saver:
        agent = _agent(work, saver, middleware(work))
        state = await agent.aget_state(THREAD)
        values = await agent.ainvoke(given(state), THREAD, durability="sync")
    asked = [request["name"] for each in values.get("__interrupt__", ()) for request in each.value["action_requests"]]
    return Outcome(waiting=tuple(asked)) if asked else Outcome(answer=str(values["messages"][-1].text))


async def run(work: Work, middleware: Middleware = lambda work: ()) -> Outcome:
    return await _invoke(work, lambda state: {"messages": [("user", work.message)]}, middleware)


begin = run


async def resume(work: Work, middleware: Middleware = lambda work: ()) -> Outcome:
    """The same program again: it continues the thread, if it was begun."""
    new = {"messages": [("user", work.message)]}
    return await _invoke(work, lambda state: None if state.values.get("messages") else new, middleware)


async def remember(work: Work, turns: Sequence[tuple[str, str]]) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(work.folder / "graph.db")) as saver:
        agent = _agent(work, saver, ())
        question, reply = (await agent.aget_state(THREAD)).values["messages"][-2:]
        messages = []
        for said, answer in turns:
            messages.append(question.model_copy(update={"content": said, "id": str(uuid.uuid4())}))
            messages.append(reply.model_copy(update={"content": answer, "id": f"lc_run--{uuid.uuid4()}"}))
        await agent.aupdate_state(THREAD, {"messages": messages}, as_node="model")


async def decide(work: Work, approve: Mapping[str, bool], middleware: Middleware = lambda work: ()) -> Outcome:
    def verdicts(state: Any) -> Command[Any]:
        return Command(resume={
            each.id: {"decisions": [{"type": "approve"} if approve[request["name"]] else {"type": "reject"}
                                    for request in each.value["action_requests"]]}
            for each in state.interrupts
        })  # fmt: skip

    return await _invoke(work, verdicts, middleware)
