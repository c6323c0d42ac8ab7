"""A session that moves from one provider to the next and back: each takes the history that the others made."""

import asyncio
import io
import itertools
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import segue
from segue.cli.commands.doctor import doctor
from segue.cli.settings import Settings
from segue.core.agents import Agent, load_agents
from segue.core.errors import ConfigurationError
from tests.cases import cases
from tests.loopback import Demand, Json, LoopbackServer, Message, Text

SEEN: list[int] = []


def lookup(number: int) -> str:
    """Look up an order."""
    SEEN.append(number)
    return f"state of {number}"


def calls_of(body: Json) -> list[Json]:
    return [made for message in body["messages"] for made in message.get("tool_calls") or ()]


def roles_of(body: Json) -> list[str]:
    return [message["role"] for message in body["messages"]]


def unpaired(body: Json) -> str:
    """What every provider refuses: calls and results that do not belong together, or ids that repeat."""
    ids = [made["id"] for made in calls_of(body)]
    answered = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    if len({*ids}) != len(ids):
        return "Duplicate value for 'tool_call_id'"
    return "" if ids == answered else "tool_calls must be followed by tool messages"


def openai(body: Json) -> str:
    for message in body["messages"]:
        if unknown := message.keys() - {"role", "content", "tool_calls", "tool_call_id", "name"}:
            return f"Unrecognized request argument supplied: {min(unknown)}"
    for made in calls_of(body):
        if made.keys() != {"id", "type", "function"}:
            return f"Unrecognized request argument supplied: {made.keys()}"
        if len(made["id"]) > 40:
            return "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a maximum length of 40"
        if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", made["function"]["name"]):
            return "Invalid 'messages[2].tool_calls[0].function.name': string does not match pattern"
    return ""


def deepseek(body: Json) -> str:
    for message in body["messages"]:
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return "Missing `reasoning_content` field in the assistant message at message index 2"
        for made in message.get("tool_calls") or ():
            if "extra_content" in made:
                return "unknown field extra_content"
    return ""


def gemini(body: Json) -> str:
    for message in body["messages"]:
        if message.get("tool_calls") and "extra_content" not in message["tool_calls"][0]:
            return "Function call is missing a thought_signature in functionCall parts."
        if message["role"] == "tool" and not message.get("name"):
            return "contents[2].parts[0].function_response.name: Name cannot be empty."
        if "reasoning_content" in message:
            return "unknown name reasoning_content"
    return ""


def mistral(body: Json) -> str:
    roles = roles_of(body)
    for before, role in itertools.pairwise(roles):
        if role == "system" or (role == "user" and before in ("user", "tool")):
            return f"Unexpected role '{role}' after role '{before}'"
    if any(not re.fullmatch("[a-zA-Z0-9]{9}", made["id"]) for made in calls_of(body)):
        return "Tool call id was x but must be a-z, A-Z, 0-9, with a length of 9."
    return "Expected last role User or Tool but got assistant" if roles[-1] == "assistant" else ""


def qwen(body: Json) -> str:
    if "system" in roles_of(body)[1:]:
        return "Jinja Exception: System message must be at the beginning."
    if any(message.get("content") is None for message in body["messages"]):
        return "'NoneType' object is not iterable in the chat template"
    return ""


@dataclass(frozen=True)
class Dialect:
    """What a provider refuses, how it refuses, and the form of its calls."""

    name: str
    refuses: Callable[[Json], str]
    call: Json
    message: Json
    code: int = 400


DIALECTS = [
    Dialect("openai", openai, {"id": "call_" + "a" * 24}, {}),
    Dialect("deepseek", deepseek, {"id": "call_0"}, {"reasoning_content": "Thinking of the order."}),
    Dialect("gemini", gemini, {"id": "", "extra_content": {"google": {"thought_signature": "SIG"}}}, {}),
    Dialect("mistral", mistral, {"id": "abcDEF123"}, {}),
    Dialect("qwen", qwen, {"id": "lookup:0"}, {}, 500),
]


def answer_of(dialect: Dialect) -> Callable[[Json], Any]:
    """Calls the tool once a turn, then answers with its result."""

    def answer(body: Json) -> Any:
        last = body["messages"][-1]
        if "state of" in str(last.get("content")) and last["role"] == "tool":
            return Text(f"{dialect.name}: {last['content']}")
        number = len(calls_of(body))
        function = {"name": "lookup", "arguments": f'{{"number": {number}}}'}
        return Message({**dialect.message, "tool_calls": [{"type": "function", **dialect.call, "function": function}]})

    return answer


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "whole"])
@cases("order", [[0, 1, 2, 3, 4, 3, 2, 1, 0], [4, 2, 0, 3, 1, 4]])
async def test_a_session_moves_over_five_dialects_and_back(order: list[int], streaming: bool) -> None:
    SEEN.clear()
    with ExitStack() as stack:
        servers = []
        for dialect in DIALECTS:
            rules = [Demand(unpaired), Demand(dialect.refuses, dialect.code)]
            servers.append(stack.enter_context(LoopbackServer([*rules, *[answer_of(dialect)] * 8])))
        async with segue.open(":memory:") as app:
            for place in order:
                agent = Agent(
                    agent_id="a",
                    model="openai:m",
                    base_url=servers[place].base_url,
                    tools=[lookup],
                    protocol="native",
                    mode="react",
                    streaming=streaming,
                )
                app.register(agent)
                result = await app.ask("Where is it?", session_id="s", agent="a")
                assert result.error in (None, ""), (DIALECTS[place].name, result.error)
                assert result.answer == f"{DIALECTS[place].name}: state of {SEEN[-1]}"
        assert [*range(len(order))] == SEEN
    for dialect, server in zip(DIALECTS, servers, strict=True):
        own = [m for m in server.requests[-1].body["messages"] for name in dialect.message if name in m]
        assert len([m for m in own if m.get("reasoning_content") == "Thinking of the order."]) == (
            order.count(DIALECTS.index(dialect)) if dialect.message else 0
        )


async def test_the_usual_order_of_the_json_protocol_is_the_default_and_gives_way() -> None:
    envelope = '{"observe": "o", "thought": "t", "action": {"result": {"action_type": %s}}}'
    call = (
        envelope
        % '"CALL_TOOL", "output": {"tool_calls": [{"function": {"name": "lookup", "arguments": {"number": 1}}}]}'
    )
    done = envelope % '"ANSWER", "output": {"answer": "There."}'
    for dialect, expected in ((DIALECTS[0], ["user", "system"]), (DIALECTS[4], ["system", "user"])):
        script = [Demand(dialect.refuses, dialect.code), Text(call), Text(done)]
        async with LoopbackServer(script) as server, segue.open(":memory:") as app:
            app.register(Agent(agent_id="a", model="openai:m", base_url=server.base_url, tools=[lookup], mode="react"))
            assert (await app.ask("Where is it?", agent="a")).answer == "There."
        assert roles_of(server.requests[-1].body)[:2] == expected
        assert roles_of(server.requests[0].body)[:2] == ["user", "system"]


async def test_what_was_learned_is_known_to_the_next_process_and_shown_by_the_doctor(tmp_path: Path) -> None:
    """A registry stands for a process."""
    dialect, file = DIALECTS[4], tmp_path / "x.db"
    rules = [Demand(dialect.refuses, dialect.code)]
    async with LoopbackServer([*rules, *[answer_of(dialect)] * 6]) as server:
        agent = Agent(
            agent_id="a", model="openai:m", base_url=server.base_url, tools=[lookup], protocol="native", mode="react"
        )
        asked = []
        for _ in range(2):
            async with segue.open(file, agents=[agent]) as app:
                assert (await app.ask("Where is it?", session_id="s", agent="a")).status == "done"
            asked.append(len(server.requests))
        assert asked == [3, 5], "one request was refused, in the first process"
        settings = Settings(str(file), agents_file=str(written(tmp_path, server.base_url, "")))
        assert "requires, as its refusals showed: empty_content" in await asyncio.to_thread(report, settings)
        settings = Settings(str(file), agents_file=str(written(tmp_path, server.base_url, "habits = ['one_system']")))
        assert "requires, as the agent 'a' says: one_system" in await asyncio.to_thread(report, settings)


def written(folder: Path, url: str, line: str) -> Path:
    file = folder / "agents.toml"
    file.write_text(f"[[agent]]\nagent_id = 'a'\nmodel = 'openai:m'\nbase_url = '{url}'\n{line}\n", encoding="utf-8")
    return file


def report(settings: Settings) -> str:
    text = io.StringIO()
    doctor(Console(file=text, width=400, color_system=None), settings)
    return text.getvalue()


def test_a_habit_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'system' is no habit of an endpoint: use .*system_first"):
        load_agents(written(tmp_path, "http://127.0.0.1:1/v1", "habits = ['system']"))
