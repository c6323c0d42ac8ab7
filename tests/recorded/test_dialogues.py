"""Eighty recorded dialogues over real HTTP: what the thread holds at the end is the recording, message by message."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

import segue
from segue.app import App
from segue.core.conversation import Conversation, ConversationConfig, Role
from segue.core.decision import decode
from segue.core.errors import UnreadableReply
from segue.core.events import Event
from segue.testing.rehearsal import converse
from tests.cli.process import run_elsewhere
from tests.loopback import USAGE, LoopbackServer, Request
from tests.recorded.dialogues import Dialogue, Message, Pairs, Said, agent_of, plain, read, say, say_and_tell
from tests.recorded.sessions import Recorded, recursions, reply_of, results_of
from tests.recorded.tools import RecordedTools
from tests.reference.test_measurements import ROOT, cells

GPT_41, GPT_5, API_BANK = "retail-gpt-4.1-mini.jsonl", "retail-gpt-5-mini.jsonl", "api-bank-dialogues.jsonl"
FILES = (GPT_41, GPT_5, API_BANK)
Opening = Callable[[], AbstractAsyncContextManager[App]]


@dataclass(frozen=True)
class Stage:
    """An endpoint that has all the replies of some dialogues to say, and tools that have all the results."""

    server: LoopbackServer
    tools: RecordedTools

    async def replay(self, dialogue: Dialogue, opening: Opening) -> "Replayed":
        """Carry each turn in what `opening` gives; a dialogue begins where the one before it ended."""
        asked, ran = len(self.server.requests), len(self.tools.ran)
        for turn in range(len(dialogue.users)):
            async with opening() as app:
                await say(app, dialogue, turn)
        async with opening() as app:
            return await look(app, dialogue, self.server.requests[asked:], self.tools.ran[ran:])


@dataclass(frozen=True)
class Replayed:
    """What came of a dialogue."""

    history: Sequence[Message]
    events: list[Event]
    requests: list[Request]
    ran: Pairs

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event.data for event in self.events if event.type == kind]


async def look(app: App, dialogue: Dialogue, requests: list[Request], ran: Pairs) -> Replayed:
    rows = await app.tasks.list(session_id=dialogue.id, limit=-1)
    traces = [await app.trace(row.task_id) for row in reversed(rows)]
    events = [event for trace in traces for event in trace.events]
    return Replayed(await app.history(dialogue.id), events, requests, ran)


@asynccontextmanager
async def staged(dialogues: Sequence[Dialogue]) -> AsyncIterator[Stage]:
    async with LoopbackServer([Said(reply) for dialogue in dialogues for reply in dialogue.replies]) as server:
        yield Stage(server, RecordedTools(call for dialogue in dialogues for call in dialogue.calls()))
        server.assert_spent()


def assert_same(dialogue: Dialogue, replayed: Replayed) -> None:
    """The thread, the calls that ran, each prompt and each event's numbers are those of the recording."""
    recording = plain(dialogue.messages)
    assert (dialogue.id, plain(replayed.history)) == (dialogue.id, recording)
    assert replayed.ran == [(call.name, call.arguments) for call in dialogue.calls()]
    assert len(replayed.of_type("recursion_start")) == len(dialogue.replies)
    usages = [reply.get("usage", USAGE) for reply in dialogue.replies]
    counted = [
        {"prompt_tokens": e["input"], "completion_tokens": e["output"]} for e in replayed.of_type("model_called")
    ]
    assert counted == [{name: usage[name] for name in ("prompt_tokens", "completion_tokens")} for usage in usages]
    results = [event["result"] for event in replayed.of_type("tool_result")]
    assert results == [{"success": result["content"]} for result in dialogue.results]
    places = [place for place, message in enumerate(recording) if message["role"] == "assistant"]
    for request, place in zip(replayed.requests, places, strict=True):
        system, *shown = request.body["messages"]
        assert dialogue.system in system["content"]
        assert (dialogue.id, plain(shown)) == (dialogue.id, recording[:place])


async def assert_identical(app: App, stage: Stage, tasks: int) -> None:
    """A backtest whose model is the recording finds every task the same, and runs no tool."""
    ran, asked = len(stage.tools.ran), len(stage.server.requests)
    made = await app.backtest(model="recorded")
    assert {task.task_id: task for task in made.tasks if task.verdict != "same"} == {}
    assert (len(made.tasks), made.coverage, made.skipped) == (tasks, 1.0, {})
    assert (len(stage.tools.ran), len(stage.server.requests)) == (ran, asked)


@pytest.mark.parametrize("name", FILES)
async def test_streamed_in_one_opening(recorded: Recorded, tmp_path: Path, name: str) -> None:
    dialogues = read(recorded(name))
    async with staged(dialogues) as stage:
        agent = agent_of(dialogues, stage.tools, model="openai:recorded", base_url=stage.server.base_url)
        async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
            for dialogue in dialogues:
                assert_same(dialogue, await stage.replay(dialogue, lambda: nullcontext(app)))
            await assert_identical(app, stage, sum(len(dialogue.users) for dialogue in dialogues))
    assert all(request.body["stream"] for request in stage.server.requests)


@pytest.mark.parametrize("name", FILES)
async def test_whole_and_opened_anew(recorded: Recorded, tmp_path: Path, name: str) -> None:
    """Each dialogue in another opening, every fifth one each turn."""
    dialogues = read(recorded(name))
    async with staged(dialogues) as stage:
        model = ChatOpenAI(model="recorded", base_url=stage.server.base_url, api_key="none")
        agent = agent_of(dialogues, stage.tools, model=model, streaming=False)
        opening = partial(segue.open, tmp_path / "segue.db", agents=[agent])
        for place, dialogue in enumerate(dialogues):
            if place % 5 == 0:
                assert_same(dialogue, await stage.replay(dialogue, opening))
                continue
            async with opening() as app:
                assert_same(dialogue, await stage.replay(dialogue, lambda: nullcontext(app)))
    assert not any(request.body.get("stream") for request in stage.server.requests)


@pytest.mark.parametrize("name", FILES)
async def test_as_conversations_whose_calls_the_api_carries_out(recorded: Recorded, name: str) -> None:
    """A scripted user, the agent as the bot, its tools as the API: the session and the transcript are the recording."""
    dialogues = read(recorded(name))[::3]
    async with staged(dialogues) as stage, segue.open(":memory:") as app:
        app.register(agent_of(dialogues, stage.tools, model="openai:recorded", base_url=stage.server.base_url))
        for dialogue in dialogues:
            ran = len(stage.tools.ran)
            conversation = await converse(app, conversation_of(dialogue), conversation_id=dialogue.id)
            session = await app.history(f"{dialogue.id}.bot")
            calls = [(call.name, call.arguments) for call in dialogue.calls()]
            assert (dialogue.id, plain(session)) == (dialogue.id, plain(dialogue.messages))
            assert stage.tools.ran[ran:] == calls == [(u.action, u.action_input) for u in conversation.results]
            assert [u.data for u in conversation.results] == [result["content"] for result in dialogue.results]
            assert said_by(conversation, Role.USER) == dialogue.users
            last = [reply["content"] for reply in dialogue.replies if not reply.get("tool_calls")]
            answers = said_by(conversation, Role.BOT)
            assert all(answer.endswith(text) for answer, text in zip(answers, last, strict=True))
        await assert_identical(app, stage, sum(len(dialogue.users) for dialogue in dialogues))


def conversation_of(dialogue: Dialogue) -> ConversationConfig:
    return ConversationConfig(
        user_mode="scripted_user",
        script=dialogue.users,
        bot_mode="segue:react",
        bot_agent="recorded",
        api_mode="tools",
        bot_action_limit=1_000,
        conversation_turn_limit=len(dialogue.users),
    )


def said_by(conversation: Conversation, role: Role) -> list[str]:
    return [u.text for u in conversation.utterances if u.role is role and u.text]


async def say_elsewhere(told: Path, *given: Any) -> Pairs:
    """Carry one turn in a process of its own, `say_alone` there; returns the calls that ran."""
    assert await asyncio.to_thread(run_elsewhere, say_and_tell, told, *given) == 0
    return [(name, arguments) for name, arguments in json.loads(await asyncio.to_thread(told.read_bytes))]


async def replay_elsewhere(path: Path, place: int, database: Path) -> None:
    dialogue = read(path)[place]
    async with staged([dialogue]) as stage:
        turns = range(len(dialogue.users))
        told = database.with_suffix(".json")
        ran = [await say_elsewhere(told, path, place, turn, stage.server.base_url, database) for turn in turns]
        async with segue.open(database) as app:
            pairs = [call for turn in ran for call in turn]
            assert_same(dialogue, await look(app, dialogue, stage.server.requests, pairs))


async def test_each_turn_in_another_process(recorded: Recorded, tmp_path: Path) -> None:
    chosen = [(GPT_41, 4), (GPT_5, 24), (API_BANK, 18)]
    await asyncio.gather(*(replay_elsewhere(recorded(name), place, tmp_path / f"{name}.db") for name, place in chosen))


# Dialogues, replies, calls, ids of calls, replies with calls and text, replies with several calls, failed calls.
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        (GPT_41, (25, 296, 195, 195, 8, 34, 15)),
        (GPT_5, (25, 274, 170, 170, 0, 13, 4)),
        (API_BANK, (30, 137, 47, 3, 31, 0, 0)),
    ],
)
def test_what_is_replayed_is_all_that_was_counted(recorded: Recorded, name: str, counts: tuple[int, ...]) -> None:
    dialogues = read(recorded(name))
    said = [reply for dialogue in dialogues for reply in dialogue.replies]
    calling = [reply for reply in said if reply.get("tool_calls")]
    results = [result for dialogue in dialogues for result in dialogue.results]
    assert counts == (
        len(dialogues),
        len(said),
        len(results),
        len({result["tool_call_id"] for result in results}),
        sum(bool(reply["content"]) for reply in calling),
        sum(len(reply["tool_calls"]) > 1 for reply in calling),
        sum(result["content"].startswith("Error: ") for result in results),
    )


# The table of protocols in the guide to models counts what the recordings have.


GUIDE = (ROOT / "docs/guides/models.md").read_text(encoding="utf-8")


def is_readable(reply: str) -> bool:
    try:
        decode(reply)
    except UnreadableReply:
        return False
    return True


def test_json_replies(recorded: Recorded) -> None:
    rounds = list(recursions(recorded))
    unreadable = sum(not is_readable(reply_of(each)) for each in rounds)
    calls = sum(len(results_of(each)) for each in rounds)
    row = "25 tasks of [pivot](https://github.com/kimjuny/pivot), model not recorded"
    assert cells(GUIDE, row) == ["json", *map(str, (len(rounds), unreadable, calls))]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "retail-gpt-4.1-mini.jsonl",
            "25 dialogues of [tau2-bench's retail domain](https://github.com/codesque16/tau2-bench), gpt-4.1-mini",
        ),
        ("retail-gpt-5-mini.jsonl", "25 dialogues of tau2-bench's retail domain, gpt-5-mini"),
    ],
)
def test_native_replies(recorded: Recorded, name: str, row: str) -> None:
    replies = [reply for dialogue in read(recorded(name)) for reply in dialogue.replies]
    calls = [call["function"]["arguments"] for reply in replies for call in reply.get("tool_calls") or ()]
    unreadable = sum(not isinstance(json.loads(arguments), dict) for arguments in calls)
    empty = sum(not reply.get("content") and not reply.get("tool_calls") for reply in replies)
    assert cells(GUIDE, row) == ["native", *map(str, (len(replies), unreadable + empty, len(calls)))]
