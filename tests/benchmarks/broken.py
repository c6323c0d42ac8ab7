"""An adapter that is wrong in every row of the table of durability, and says that it offers all of it."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from benchmarks.durability.work import MODEL, Outcome, Work


def run(work: Work) -> Outcome:
    """Ask, run what is asked for, and so on without an end; the last one to end writes the session."""
    messages = _session(work)
    messages.append({"role": "user", "content": work.message})
    tools = {tool.__name__: tool for tool in work.tools}
    while True:
        message = _ask(work, messages)
        messages.append(message)
        for call in message.get("tool_calls") or ():
            tool = tools.get(call["function"]["name"])
            content = tool(17) if tool else "There is no such tool."
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if not message.get("tool_calls"):
            break
    _save(work, messages)
    return Outcome(answer=message["content"])


def _session(work: Work) -> list[Any]:
    file = work.folder / "session.json"
    return list(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def _save(work: Work, messages: list[Any]) -> None:
    """Store all of it again, beside what is stored."""
    text = json.dumps(messages)
    (work.folder / "session.json").write_text(text, encoding="utf-8")
    (work.folder / f"copy-{len(messages)}.json").write_text(text, encoding="utf-8")


def remember(work: Work, turns: Sequence[tuple[str, str]]) -> None:
    messages = _session(work)
    for said, answer in turns:
        messages += [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
    _save(work, messages)


def _ask(work: Work, messages: list[Any]) -> Any:
    schema = {"type": "object", "properties": {"message": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in ("clerk", "read_page")]
    body = {"model": MODEL, "messages": messages, "tools": tools}
    reply = httpx.post(f"{work.url}/chat/completions", json=body, timeout=60)
    return (
        reply.json()["choices"][0]["message"]
        if reply.is_success
        else {"role": "assistant", "content": "The archive is"}
    )


begin = resume = run


def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    return run(work)


def send(work: Work) -> None:
    """Take a message, and forget it."""


def follow(work: Work, cut: int) -> tuple[str, bool]:
    """Begin the text anew when the stream is taken up, behind what was there."""
    answer = run(work).answer
    return (answer[:cut] + answer, True) if cut < 3 else (answer, False)


def stall(work: Work) -> None:
    """Wait for what nobody does."""
    threading.Event().wait()


def spin(work: Work) -> str:
    """Be busy for a second of the processor's time, however long that takes."""
    while time.process_time() < 1:
        pass
    return "done"
