"""Segue, as its guides have it.

Resuming: docs/guides/pause-and-resume.md. Approvals: docs/guides/approval.md.
Agents as tools: docs/guides/agents-as-tools.md. Streams: docs/guides/service.md, by HTTP with `Last-Event-ID`.
"""

from collections.abc import Mapping
from typing import Any

import httpx

import segue
from benchmarks.durability.serving import frames, serve
from benchmarks.durability.work import LONGEST, MODEL, SESSION, SYSTEM, Outcome, Work

PACKAGES = ("segue",)


def _open(work: Work) -> Any:
    def agent(name: str, tools: list[Any]) -> segue.Agent:
        return segue.Agent(agent_id=name, description="A clerk.", model=f"openai:{MODEL}", base_url=work.url,
                           api_key="none", protocol="native", mode="react", prompt=SYSTEM, tools=tools)  # fmt: skip

    def marked(tools: list[Any]) -> list[Any]:
        return [segue.tool(needs_approval=True)(each) if each.__name__ in work.guarded else each for each in tools]

    agents = [agent("main", [*marked(work.tools), *(["agent:clerk"] if work.nested else [])])]
    if work.nested:
        agents.append(agent("clerk", marked(work.nested_tools)))
    return segue.open(work.folder / "segue.db", agents=agents)


async def _outcome(app: Any, result: Any) -> Outcome:
    if result.status != "waiting":
        return Outcome(answer=result.answer or "")
    return Outcome(waiting=tuple(call["name"] for call in (await app.question(result.task_id))["calls"]))


async def run(work: Work) -> Outcome:
    async with _open(work) as app:
        return await _outcome(app, await app.ask(work.message, agent="main", session_id=SESSION, wait=LONGEST))


async def resume(work: Work) -> Outcome:
    """Continue what was interrupted; the key says that the message is not another one."""
    async with _open(work) as app:
        for task in await app.resumable():
            await app.resume(task.task_id)
        return await _outcome(
            app, await app.ask(work.message, agent="main", session_id=SESSION, idempotency_key=work.message)
        )


begin = resume


async def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    async with _open(work) as app:
        (task,) = await app.waiting()
        verdicts = [{"index": place, "verdict": "approve" if approve[call["name"]] else "reject"}
                    for place, call in enumerate(task.calls)]  # fmt: skip
        return await _outcome(
            app, await app.answer(task.task_id, {"verdicts": verdicts}, interrupt_id=task.interrupt_id)
        )


async def send(work: Work) -> Outcome:
    """The process that steers a task takes it over at its next boundary, and goes on with it."""
    async with _open(work) as app:
        return await _outcome(
            app, await app.ask(work.message, agent="main", session_id=SESSION, steer=True, wait=LONGEST)
        )


def follow(work: Work, cut: int) -> tuple[str, bool]:
    """Serve, leave the stream of a message after `cut` events, and take it up with `so_far`, which begins it anew."""
    with serve(segue.asgi(_open(work))) as url, httpx.Client(base_url=url, timeout=LONGEST) as client:
        text, seen = "", 0
        body = {"message": work.message, "session_id": SESSION, "agent_id": "main"}
        with client.stream("POST", "/api/chat", json=body) as response:
            for name, event in frames(response.iter_lines()):
                seen, last = seen + 1, name
                text = _read(text, event)
                if seen == cut:
                    break
            else:
                return text, False
        if event["type"] != "done":
            address = "/api/tasks/" + last.partition(":")[0] + "/stream?so_far=true"
            with client.stream("GET", address, headers={"Last-Event-ID": last}) as response:
                text = ""
                for _, event in frames(response.iter_lines()):
                    text = _read(text, event)
        return text, True


def _read(text: str, event: dict[str, Any]) -> str:
    if event["type"] == "done":
        return str(event["result"]["answer"])
    return text + event["content"] if event["type"] == "token" else text
