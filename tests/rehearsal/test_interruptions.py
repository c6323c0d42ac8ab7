"""Conversations that are paused, fail or are killed go on where they stopped, and nothing is done twice."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.conversation import Conversation, ConversationConfig, EndReason, Role, UserOutput, transcript
from segue.core.errors import ConfigurationError, TaskUnfinished, ThreadExists
from segue.testing.rehearsal import converse, load_conversation, read_log, start_conversation
from tests.rehearsal.participants import Does, found

SCRIPT = ["北京有什么景点？", "上海有什么景点？"]
ROLES = ["USER", "BOT", "API", "BOT"] * 2 + ["USER"]
TRAVEL = ConversationConfig(
    user_mode="own", script=SCRIPT, bot_mode="segue:react", bot_agent="travel", api_mode="own", seed=1
)


class Counted:
    """Participants that count what they do; `at` is called before each call of the API."""

    def __init__(self, at: Callable[[Conversation], None] = lambda conversation: None) -> None:
        self.said: Counter[int] = Counter()
        self.called: Counter[int] = Counter()
        self.at = at

    def user(self, conversation: Conversation) -> UserOutput:
        self.said[conversation.turn] += 1
        lines = [*conversation.config.script, "[END]"]
        return UserOutput(text=lines[conversation.turn])

    def api(self, conversation: Conversation) -> Any:
        self.at(conversation)
        self.called[len(conversation.utterances)] += 1
        return found(conversation)

    def enter(self, app: App) -> None:
        specs = [tool.spec for tool in app.agents.tools_for(app.agents.agent("travel")).values()]
        app.agents.participants.users.register("own", lambda setting: Does(self.user))
        app.agents.participants.apis.register("own", lambda setting: Does(self.api, list(map(dict, specs))))


async def undisturbed(config: ConversationConfig) -> str:
    async with segue.open(":memory:") as app:
        Counted().enter(app)
        return transcript(await converse(app, config))


async def test_a_timeline_tells_what_was_said() -> None:
    async with segue.open(":memory:") as app:
        Counted().enter(app)
        await converse(app, TRAVEL, conversation_id="talk")
        told = [each for entry in await app.rewind.timeline("talk") for each in entry.happened]
    assert [each["type"].upper() for each in told[:-1]] == ROLES[: len(told) - 1]
    assert [each["text"] for each in told if each["type"] == "user"][:2] == SCRIPT


async def test_a_failure_in_the_middle_is_gone_on_from_in_another_app(tmp_path: Path) -> None:
    def fail(conversation: Conversation) -> None:
        if len(conversation.results) == 1 and not failures:
            failures.append(1)
            raise RuntimeError("the backend is down")

    failures: list[int] = []
    counted = Counted(fail)
    async with segue.open(tmp_path / "s.db") as app:
        counted.enter(app)
        with pytest.raises(RuntimeError, match="backend is down"):
            await converse(app, TRAVEL, conversation_id="talk")
        unfinished = await load_conversation(app, "talk")
    async with segue.open(tmp_path / "s.db") as app:
        counted.enter(app)
        conversation = await converse(app, TRAVEL, conversation_id="talk")

    assert unfinished.ending is None and len(unfinished.results) == 1
    assert [u.role for u in conversation.utterances] == ROLES
    assert set(counted.said.values()) == set(counted.called.values()) == {1}
    assert conversation.ending and conversation.ending.reason is EndReason.USER_ENDED


async def test_a_paused_conversation_is_returned_as_far_as_it_got_and_continues(tmp_path: Path) -> None:
    counted = Counted()
    async with segue.open(tmp_path / "s.db") as app:
        counted.enter(app)

        class Pausing:
            async def process(self, conversation: Conversation) -> UserOutput:
                if conversation.turn == 1:
                    await app.pause(conversation.task_id)
                return counted.user(conversation)

        app.agents.participants.users.register("own", lambda setting: Pausing())
        paused = await converse(app, TRAVEL, conversation_id="talk")
        assert (await app.task(paused.task_id)).status == "paused"
        counted.enter(app)
        conversation = await converse(app, ConversationConfig(), conversation_id="talk")

    assert (paused.turn, paused.ending) == (2, None)
    assert [u.role for u in conversation.utterances] == ROLES
    assert set(counted.said.values()) == set(counted.called.values()) == {1}


async def test_a_conversation_in_the_background_is_followed_answered_and_gone_on_with(tmp_path: Path) -> None:
    config = ConversationConfig(user_mode="input_user", bot_mode="segue:react", bot_agent="travel", api_mode="own")
    counted = Counted()
    async with segue.open(tmp_path / "s.db") as app:
        counted.enter(app)
        task, _ = await start_conversation(app, config, "talk", user_id="u")
        async for _ in app.follow(task.task_id):
            pass
        await app.answer(task.task_id, SCRIPT[0])
        asked = await load_conversation(app, "talk")
        again = await converse(app, config, conversation_id="talk")
        waiting = await app.question(task.task_id)
        await app.answer(task.task_id, "END")
        ended = await load_conversation(app, "talk")

    assert (task.user_id, again.task_id, waiting["role"]) == ("u", task.task_id, "USER")
    assert [u.role for u in asked.utterances] == ROLES[:4]
    assert ended.ending and ended.ending.reason is EndReason.USER_ENDED
    assert counted.called == Counter([2])


async def test_a_fork_has_the_bots_session_of_that_moment_and_repeats_no_call_and_deletion_takes_both() -> None:
    def fail(conversation: Conversation) -> None:
        if len(conversation.results) == 1:
            raise RuntimeError("the backend is down")

    async with segue.open(":memory:") as app:
        Counted(fail).enter(app)
        with pytest.raises(RuntimeError, match="backend is down"):
            await converse(app, TRAVEL, conversation_id="talk")
        inside = [each for each in await app.sessions.snapshots("talk") if each.nodes and each.inside]
        after = {tuple(each.nodes): each.checkpoint_id for each in inside}
        for place, copied, calls in (("USER", 0, [2, 6]), ("BOT", 1, [2, 6]), ("API", 1, [6])):
            counted = Counted()
            counted.enter(app)
            await app.rewind.fork("talk", after[(place,)], session_id=f"after-{place}")
            assert len(await app.tasks.list(session_id=f"after-{place}.bot")) == copied
            conversation = await converse(app, ConversationConfig(), conversation_id=f"after-{place}")
            assert [u.role for u in conversation.utterances] == ROLES
            assert counted.called == Counter(calls)
            await app.sessions.delete(f"after-{place}")
        await app.sessions.delete("talk")
        assert await app.threads() == []


async def test_a_bot_has_its_session_for_itself_and_without_it_the_conversation_does_not_go_on() -> None:
    def fail(conversation: Conversation) -> None:
        if len(conversation.results) == 1:
            raise RuntimeError("the backend is down")

    async with segue.open(":memory:") as app:
        Counted(fail).enter(app)
        await app.ask("你好", session_id="mine.bot")
        with pytest.raises(ThreadExists, match=r"mine\.bot"):
            await converse(app, TRAVEL, conversation_id="mine")
        with pytest.raises(RuntimeError, match="backend is down"):
            await converse(app, TRAVEL, conversation_id="talk")
        await app.sessions.import_(await app.sessions.export("talk"), session_id="copy")
        Counted().enter(app)
        with pytest.raises(ConfigurationError, match=r"copy\.bot lacks 1 turn"):
            await converse(app, ConversationConfig(), conversation_id="copy")
        await app.sessions.import_(await app.sessions.export("talk.bot"), session_id="copy.bot")
        conversation = await converse(app, ConversationConfig(), conversation_id="copy")

    assert [u.role for u in conversation.utterances] == ROLES


async def test_a_message_to_the_bot_of_a_conversation_that_goes_on_is_refused() -> None:
    config = TRAVEL.model_copy(update={"user_mode": "input_user", "script": ()})
    async with segue.open(":memory:") as app:
        Counted().enter(app)
        talk = await converse(app, config, conversation_id="talk")
        await app.answer(talk.task_id, SCRIPT[0])
        for steer in (False, True):
            with pytest.raises(TaskUnfinished, match="'talk' has a task that is waiting: answer or cancel"):
                await app.ask("something else", session_id="talk.bot", steer=steer)
        await app.answer(talk.task_id, SCRIPT[1])
        await app.answer(talk.task_id, "END")
        talk = await load_conversation(app, "talk")
        assert [u.role for u in talk.utterances] == ROLES
        assert (await app.ask("你好", session_id="talk.bot"))["success"]


async def test_what_a_bot_leaves_unfinished_at_its_limit_is_cancelled() -> None:
    async with segue.open(":memory:") as app:
        Counted().enter(app)
        config = TRAVEL.model_copy(update={"bot_action_limit": 0, "default_response": "Sorry."})
        conversation = await converse(app, config, conversation_id="talk")
        tasks = await app.tasks.list(session_id="talk.bot")

    assert [u.text for u in conversation.utterances if u.role is Role.BOT] == ["Sorry.", "Sorry."]
    assert [task.status for task in tasks] == ["cancelled", "cancelled"]


async def test_a_finished_conversation_is_only_read_and_another_one_is_refused() -> None:
    config = ConversationConfig(conversation_turn_limit=1)
    async with segue.open(":memory:") as app:
        first = await converse(app, config, conversation_id="talk")
        await app.ask("你好", session_id="chat")

        assert await converse(app, config, conversation_id="talk") == first
        with pytest.raises(ConfigurationError, match="has another configuration"):
            await converse(app, ConversationConfig(conversation_turn_limit=2), conversation_id="talk")
        with pytest.raises(ThreadExists):
            await converse(app, config, conversation_id="chat")


CHILD = """
import asyncio, os, signal, sys
import segue
from segue.testing.rehearsal import converse, write_log
from tests.rehearsal.test_interruptions import KILLED

heard = 0

def listen(utterance):
    global heard
    heard += 1
    if heard == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with segue.open(sys.argv[1]) as app:
        write_log(await converse(app, KILLED, conversation_id="talk", on_utterance=listen), sys.argv[1] + ".jsonl")

asyncio.run(main())
"""
KILLED = TRAVEL.model_copy(
    update={"user_mode": "scripted_user", "api_mode": "tools", "tools": ("tests.rehearsal.effects:TOOLS",)}
)


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_lost_and_no_call_is_repeated(tmp_path: Path) -> None:
    ran = 0
    for kill_at in (3, 5, 100):
        environment = {**os.environ, "EFFECTS": str(tmp_path / "effects"), "SEGUE_MODEL": "offline"}
        command = [sys.executable, "-c", CHILD, str(tmp_path / "s.db"), str(kill_at)]
        ran = subprocess.run(command, env=environment, check=False, cwd=Path(__file__).parents[2]).returncode
        assert ran in (0, -9)

    conversation = read_log(tmp_path / "s.db.jsonl")
    effects = (tmp_path / "effects").read_text().splitlines()
    assert ran == 0 and transcript(conversation) == asyncio.run(undisturbed(KILLED))
    assert effects == [u.action for u in conversation.results]
    assert [u.index for u in conversation.utterances] == list(range(len(conversation.utterances)))
    assert all(u.role is not Role.API or u.ok for u in conversation.utterances)
