"""openai-agents with its SQLite session, and run states for approvals.

Sessions: https://openai.github.io/openai-agents-python/sessions/
Approvals: https://openai.github.io/openai-agents-python/human_in_the_loop/, of agents as tools, too
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, RunState, SQLiteSession, function_tool
from openai import AsyncOpenAI

from benchmarks.durability.work import MODEL, SESSION, SYSTEM, Outcome, Work

PACKAGES = ("openai-agents",)
NOT_OFFERED = {
    "deaths": "durable execution is left to [integrations](https://openai.github.io/openai-agents-python/running_agents/)"
    " such as Temporal's, Restate's or DBOS's.",
    "messages": "[a run](https://openai.github.io/openai-agents-python/running_agents/) begins with its input.",
    "streams": "[a stream](https://openai.github.io/openai-agents-python/streaming/) is of one run in its process.",
}


def _agent(work: Work) -> Agent[Any]:
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=work.url, api_key="none"))

    def marked(tools: list[Any]) -> list[Any]:
        return [function_tool(tool, needs_approval=tool.__name__ in work.guarded) for tool in tools]

    tools = marked(work.tools)
    if work.nested:
        inner = Agent("clerk", instructions=SYSTEM, tools=marked(work.nested_tools), model=model)
        tools.append(inner.as_tool("clerk", "Have the clerk do something."))
    return Agent("main", instructions=SYSTEM, tools=tools, model=model)


async def _run(work: Work, agent: Agent[Any], given: Any) -> Outcome:
    session = SQLiteSession(SESSION, work.folder / "sessions.db")
    result = Runner.run_streamed(agent, given, session=session, run_config=RunConfig(tracing_disabled=True))
    async for _ in result.stream_events():
        pass
    session.close()
    if not result.interruptions:
        return Outcome(answer=str(result.final_output))
    (work.folder / "state.json").write_text(result.to_state().to_string(), encoding="utf-8")
    return Outcome(waiting=tuple(each.name or "" for each in result.interruptions))


async def run(work: Work) -> Outcome:
    return await _run(work, _agent(work), work.message)


async def remember(work: Work, turns: Sequence[tuple[str, str]]) -> None:
    session = SQLiteSession(SESSION, work.folder / "sessions.db")
    for said, answer in turns:
        await session.add_items([{"role": "user", "content": said}, {"role": "assistant", "content": answer}])
    session.close()


async def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    agent = _agent(work)
    state = await RunState.from_string(agent, (work.folder / "state.json").read_text(encoding="utf-8"))
    for asked in state.get_interruptions():
        if approve[asked.name or ""]:
            state.approve(asked)
        else:
            state.reject(asked)
    return await _run(work, agent, state)
