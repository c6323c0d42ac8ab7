"""agno with its SQLite database, a checkpoint after each batch of tools, and AgentOS for streams.

Checkpoints and continuing a run that was left running: https://docs.agno.com/agents/run-continuation
Approvals: https://docs.agno.com/hitl/user-confirmation. Streams: `POST /agents/ID/runs/ID/resume` of AgentOS, with
`background=true`: https://docs.agno.com/agent-os/background-execution
"""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS
from agno.run.base import RunStatus
from agno.team import Team
from agno.tools import tool

from benchmarks.durability.serving import frames, serve
from benchmarks.durability.work import LONGEST, MODEL, SESSION, SYSTEM, Outcome, Work

PACKAGES = ("agno",)
NOT_OFFERED = {
    "messages": "a running task can be [cancelled](https://docs.agno.com/run-cancellation/overview), not told more.",
}


def _agent(work: Work) -> Any:
    """An agent; where another one is nested, a team with this one as a member."""
    own = work.nested_tools if work.nested else work.tools
    tools = [tool(requires_confirmation=True)(each) if each.__name__ in work.guarded else each for each in own]
    name = "clerk" if work.nested else "main"
    given: Any = {"model": OpenAIChat(id=MODEL, base_url=work.url, api_key="none"), "instructions": SYSTEM,
                  "db": SqliteDb(db_file=str(work.folder / "agno.db")), "checkpoint": "tool-batch", "telemetry": False,
                  "add_history_to_context": True}  # fmt: skip
    agent = Agent(id=name, name=name, tools=tools, **given)
    return Team(id="main", members=[agent], **given) if work.nested else agent


def _last(given: Any) -> Outcome:
    """The outcome of a run, or of the last of its events where it was streamed."""
    *_, last = given if isinstance(given, Iterator) else [given]
    if last.is_paused:
        return Outcome(waiting=tuple(each.tool_execution.tool_name for each in last.active_requirements))
    if last.status == RunStatus.error:
        return Outcome(error="RunStatus.error")
    return Outcome(answer=str(last.content or ""))


def run(work: Work) -> Outcome:
    agent = _agent(work)
    if work.guarded:  # streamed, such a run was found to end as completed instead of paused
        return _last(agent.run(work.message, session_id=SESSION))
    return _last(agent.run(work.message, session_id=SESSION, stream=True, yield_run_output=True))


begin = run


def resume(work: Work) -> Outcome:
    """The same program again: it continues the session's run, if one was stored."""
    agent = _agent(work)
    last = agent.get_last_run_output(session_id=SESSION)
    if last is None:
        return run(work)
    if last.status == RunStatus.completed:
        return Outcome(answer=str(last.content))
    return _last(agent.continue_run(run_id=last.run_id, session_id=SESSION, stream=True, yield_run_output=True))


def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    agent = _agent(work)
    asked = agent.get_last_run_output(session_id=SESSION)
    for each in asked.active_requirements:
        each.confirm() if approve[each.tool_execution.tool_name] else each.reject()
    return _last(agent.continue_run(run_id=asked.run_id, session_id=SESSION, requirements=asked.requirements))


def follow(work: Work, cut: int) -> tuple[str, bool]:
    """Serve, leave a message's stream after `cut` events, and take it up; gives the text, and whether it was cut."""
    agent_os = AgentOS(agents=[_agent(work)], telemetry=False)
    with serve(agent_os.get_app()) as url, httpx.Client(base_url=url, timeout=LONGEST) as client:
        text, seen, last = "", 0, {}
        form = {"message": work.message, "stream": "true", "session_id": SESSION, "background": "true"}
        with client.stream("POST", "/agents/main/runs", data=form) as response:
            for _, event in frames(response.iter_lines()):
                seen, last = seen + 1, event
                text += str(event["content"]) if event["event"] == "RunContent" else ""
                if seen == cut:
                    break
            else:
                return text, False
        given = {"last_event_index": str(last["event_index"]), "session_id": SESSION}
        with client.stream("POST", f"/agents/main/runs/{last['run_id']}/resume", data=given) as response:
            for _, event in frames(response.iter_lines()):
                text += str(event["content"]) if event["event"] == "RunContent" else ""
        return text, True
