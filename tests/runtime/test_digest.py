"""A long session: what was ordered at its beginning holds at its end, whatever happened to the session between."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

import segue
from segue.app import App
from segue.core.agents import Agent, Budget
from segue.core.errors import ModelRefused, ModelUnreachable
from segue.core.events import ModelCalled
from segue.core.timeline import SnapshotState
from segue.tools.registry import tool
from tests.fakes import Item, ScriptedChatModel, answer, call_tool, choose
from tests.modes import native_call, plan_of

RULES = [
    ("Never call a customer before nine.", "called at eight"),
    ("From now on, end each answer with the word BLUE.", "no BLUE"),
    ("You must not mention the name Osiris.", "Osiris"),
    ("Don't send anything to press@example.com.", "sent to the press"),
    ("Always ask me first before you book a trip.", "booked unasked"),
    ("Keep the budget under 500 euros.", "spent 900"),
    ("Only reply in English.", "auf Deutsch"),
    ("Here are my rules:\n- No emojis in reports\n- Round prices to whole euros", "emoji"),
    ("Could you please always put the total last?", "total first"),
    ("不要在周末发消息。", "周末发送"),
    ("预算最多三百元。", "花了九百元"),
    ("必须先问我再付款。", "没问就付款"),
]
"""What the user says, and what the model does unless its prompt has the sentence."""
TURNS = 200
ROOM = Budget(prompt_tokens=2_400)


def obeying(messages: Sequence[BaseMessage]) -> str:
    """The answer of a model that obeys exactly the rules in its prompt."""
    prompt = "\n".join(message.text for message in messages).replace("\\n", "\n")
    broken = [wrong for rule, wrong in RULES if rule.splitlines()[-1].removeprefix("- ") not in prompt]
    return f"done: {'; '.join(broken)}." if broken else "done."


def said(turn: int) -> str:
    """What the user says in a turn: in each of the first ten a rule or two, then small matters."""
    if turn <= 10:
        first = RULES[turn - 1][0]
        return f"{first}\n{RULES[turn + 1][0]}" if turn > 8 else first
    return f"Tell me about part {turn} of the garden" + ", with the trees and the paths and the benches by the pond" * 5


@tool(read_only=True)
def look(place: str) -> dict[str, Any]:
    """Look at a place."""
    return {"place": place, "trees": 3}


def scripts() -> dict[str, tuple[dict[str, Any], list[Item]]]:
    """The fields of an agent by mode, and its model's replies: one call of `look` where the mode makes calls."""
    step = plan_of([("look", {"place": "pond"})])
    in_json: Callable[[Sequence[BaseMessage]], str] = lambda messages: answer(obeying(messages))  # noqa: E731
    task = '{"tasks": [{"id": "a", "description": "look", "dependencies": []}]}'
    finish: Callable[[Sequence[BaseMessage]], str] = lambda messages: choose(  # noqa: E731
        "finish", result=obeying(messages), summary="done"
    )
    native: Callable[[Sequence[BaseMessage]], AIMessage] = lambda messages: AIMessage(obeying(messages))  # noqa: E731
    call = native_call(("c", "look", {"place": "pond"}))
    return {
        "direct": ({"mode": "direct"}, [obeying]),
        "react": ({"mode": "react"}, [in_json]),
        "last": ({"mode": "react", "state": "last"}, [in_json]),
        "native": ({"mode": "react", "protocol": "native"}, [call, native]),
        "plan": ({"mode": "plan"}, [step, obeying]),
        "plan_react": ({"mode": "plan_react"}, [step, in_json]),
        "controller": ({"mode": "controller"}, [step, finish]),
        "lifecycle": ({"mode": "lifecycle"}, [task, in_json]),
    }


def agent(agent_id: str, replies: Any, **fields: Any) -> Agent:
    return Agent(agent_id=agent_id, model=ScriptedChatModel(replies), tools=(look,), budget=ROOM, **fields)


def agents() -> list[Agent]:
    """The one of the session, which answers every turn, and one a mode for the last turn."""
    talker = agent("talker", obeying, mode="direct")
    return [talker, *(agent(mode, replies, **fields) for mode, (fields, replies) in scripts().items())]


async def talk(app: App, session_id: str, first: int, last: int) -> str:
    """Have these turns; the last answer."""
    text = ""
    for turn in range(first, last + 1):
        text = (await app.ask(said(turn), session_id=session_id, agent="talker")).answer
    return text


async def in_every_mode(app: App, session_id: str) -> dict[str, str]:
    """The answer to the next turn in each mode, each in a fork of the session."""
    (newest,) = await app.sessions.snapshots(session_id, limit=1)
    found = {}
    for mode in scripts():
        fork = f"{session_id}-{mode}"
        await app.rewind.fork(session_id, newest.checkpoint_id, session_id=fork)
        result = await app.ask(said(TURNS), session_id=fork, agent=mode)
        found[mode] = result.answer
    return found


async def state(app: App, session_id: str) -> SnapshotState:
    (newest,) = await app.sessions.snapshots(session_id, limit=1)
    return await app.rewind.state(session_id, newest.checkpoint_id)


OBEYED = dict.fromkeys(scripts(), "done.")


@pytest.mark.slow
async def test_no_rule_of_the_first_ten_turns_is_broken_in_turn_200_in_any_mode(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "a.db", agents=agents()) as app:
        assert await talk(app, "s", 1, TURNS - 1) == "done."
        assert await in_every_mode(app, "s") == OBEYED
        digest = (await state(app, "s")).state["digest"]
        receipts = {entry["text"]: entry["receipt"] for entry in digest["entries"]}
        assert receipts["Never call a customer before nine."] == "turn-1"
        assert receipts["必须先问我再付款。"] == "turn-10"
        assert all(entry["receipt"] for entry in digest["entries"])


@pytest.mark.slow
async def test_the_rules_hold_after_an_export_an_import_and_a_fork_of_an_earlier_turn(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "a.db", agents=agents()) as app:
        await talk(app, "s", 1, 40)
        document = await app.sessions.export("s")
        listed = await app.sessions.snapshots("s", limit=100)
        early = [each for each in listed if not each.next and not each.inside][-1]
    async with segue.open(tmp_path / "b.db", agents=agents()) as app:
        await app.sessions.import_(document, "t")
        assert await talk(app, "t", 41, 45) == "done."
        assert await in_every_mode(app, "t") == OBEYED
    async with segue.open(tmp_path / "a.db", agents=agents()) as app:
        await app.rewind.undo("s", early.checkpoint_id)
        await app.rewind.fork("s", early.checkpoint_id, session_id="u")
        held = (await state(app, "u")).state.get("digest", {"messages": 0})
        assert held["messages"] <= len((await state(app, "u")).messages)
        assert await talk(app, "u", 41, 60) == "done."
        assert await in_every_mode(app, "u") == OBEYED


CHILD = """
import asyncio, sys
import segue
from tests.runtime.test_digest import agents, talk
async def main():
    async with segue.open(sys.argv[1], agents=agents()) as app:
        for turn in range(1, 1000):
            await talk(app, "s", turn, turn)
            print(turn, flush=True)
asyncio.run(main())
"""


def run_until_killed(database: Path) -> None:
    """A process has turns in session `s` and is killed in the one after the 70th."""
    command = [sys.executable, "-c", CHILD, str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}) as child:
        assert child.stdout
        for line in child.stdout:
            if int(line) == 70:
                child.send_signal(signal.SIGKILL)
                break


@pytest.mark.slow
async def test_the_rules_hold_after_the_process_was_killed(tmp_path: Path) -> None:
    await asyncio.to_thread(run_until_killed, tmp_path / "a.db")
    async with segue.open(tmp_path / "a.db", agents=agents()) as app:
        assert await talk(app, "s", 72, 75) == "done."
        assert await in_every_mode(app, "s") == OBEYED


async def test_recall_opens_the_turn_that_a_rule_came_from(tmp_path: Path) -> None:
    def open_receipt(messages: Sequence[BaseMessage]) -> str:
        text = str([message.content for message in messages])
        place = text.index("must not mention the name Osiris")
        return call_tool(("recall", {"ref": text[:place].rpartition("[")[2].partition("]")[0]}))

    opener = agent("opener", [open_receipt, answer("seen"), call_tool(("recall", {"ref": "turn-99"})), answer("none")])
    async with segue.open(tmp_path / "a.db", agents=[*agents(), opener]) as app:
        await talk(app, "s", 1, 30)
        opened = await app.ask("What exactly did I say of Osiris?", session_id="s", agent="opener", mode="react")
        text = opened["history"][0]["result"]["success"]["text"]
        assert text.startswith(f"user: {said(3)}\n\nassistant: done")
        missing = await app.ask("And in turn 99?", session_id="s", agent="opener", mode="react")
        assert "There is no result 'turn-99'" in missing["history"][0]["result"]["error"]


async def test_rules_beyond_their_share_stay_and_the_task_says_so(tmp_path: Path) -> None:
    many = [f"Never open the door number {number} of the old house by the river." for number in range(150)]
    model = ScriptedChatModel(lambda messages: str(sum(each in str(messages) for each in many)))
    stubborn = Agent(agent_id="a", model=model, mode="direct", budget=ROOM)
    async with segue.open(tmp_path / "a.db", agents=[stubborn]) as app:
        for start in range(0, len(many), 30):
            await app.ask("\n".join(many[start : start + 30]), session_id="s")
        thoughts = ""
        for _ in range(2):
            async for event in app.chat(said(99), session_id="s"):
                thoughts += str(getattr(event, "content", ""))
        assert "longer than their share of the prompt" in thoughts
        assert (await app.ask(said(99), session_id="s")).answer == str(len(many))


class Condensing:
    """A model that answers, and writes prose when it is asked for it; `asked` has the prompts of both."""

    def __init__(self, prose: str | Exception = "", broken: int = 0) -> None:
        self.prose, self.broken = prose, broken
        self.condensed: list[str] = []
        self.prompts: list[str] = []

    def __call__(self, messages: Sequence[BaseMessage]) -> str:
        text = "\n".join(message.text for message in messages)
        if "will no longer be shown" not in text:
            self.prompts.append(text)
            if self.broken:
                self.broken -= 1
                raise ModelUnreachable("The model is not there.")
            return "done."
        self.condensed.append(text)
        if isinstance(self.prose, Exception):
            raise self.prose
        turns = re.findall(r"^\[(turn-\d+)\]$", text, re.MULTILINE)
        return self.prose.replace("LAST", turns[-1])

    def agent(self, **fields: Any) -> Agent:
        model = ScriptedChatModel(self)
        return Agent(agent_id="a", model=model, mode="direct", digest="model", budget=ROOM, **fields)


SOUND = "[LAST] The user asked about the garden with its benches.\n[LAST] The garden has 17 benches."


async def test_a_model_writes_prose_once_for_what_leaves_and_what_it_invents_is_dropped(tmp_path: Path) -> None:
    model = Condensing(SOUND)
    asked: list[int] = []
    purposes: list[str] = []
    async with segue.open(tmp_path / "a.db", agents=[model.agent()]) as app:
        for turn in range(1, 41):
            result = await app.ask(said(turn), session_id="s")
            asked.append(result["usage"]["calls"])
            purposes += [each.purpose for each in await app.events(result["task_id"]) if isinstance(each, ModelCalled)]
        held = await state(app, "s")
        digest = held.state["digest"]
        tasks = [task.task_id for task in reversed(await app.tasks.list(session_id="s", limit=-1))]
    assert held.sources == {receipt: tasks[int(receipt.removeprefix("turn-")) - 1] for receipt in held.sources}
    assert held.sources.keys() >= {entry["receipt"] for entry in digest["entries"]}
    prose = [entry for entry in digest["entries"] if entry["kind"] == "summary"]
    assert {entry["text"] for entry in prose} == {"The user asked about the garden with its benches."}
    assert all(re.fullmatch(r"turn-\d+", entry["receipt"]) for entry in prose)
    assert 0 < len(model.condensed) == purposes.count("digest") == asked.count(2) < 10
    assert "asked about the garden" in model.prompts[-1]
    assert "17 benches" not in model.prompts[-1]
    assert all(rule.splitlines()[-1].removeprefix("- ") in model.prompts[-1] for rule, _ in RULES)


async def test_the_entries_stand_alone_where_the_model_writes_nothing(tmp_path: Path) -> None:
    by_rules = Condensing()
    async with segue.open(
        tmp_path / "rules.db", agents=[by_rules.agent().model_copy(update={"digest": "rules"})]
    ) as app:
        for turn in range(1, 41):
            await app.ask(said(turn), session_id="s")
    assert not by_rules.condensed
    for place, prose in enumerate(["", "nonsense", ModelRefused("The model is not there.")]):
        model = Condensing(prose)
        async with segue.open(tmp_path / f"{place}.db", agents=[model.agent()]) as app:
            for turn in range(1, 41):
                assert (await app.ask(said(turn), session_id="s")).answer == "done."
        assert model.condensed and model.prompts == by_rules.prompts, prose


async def test_a_task_that_is_resumed_does_not_ask_for_prose_again(tmp_path: Path) -> None:
    model, turn = Condensing(SOUND), 0
    async with segue.open(tmp_path / "a.db", agents=[model.agent()]) as app:
        while not model.condensed:
            turn += 1
            before = await app.sessions.export("s") if turn > 1 else None
            await app.ask(said(turn), session_id="s")
    again = Condensing(SOUND, broken=1)
    async with segue.open(tmp_path / "b.db", agents=[again.agent()]) as app:
        assert before
        await app.sessions.import_(before, session_id="s")
        with pytest.raises(ModelUnreachable):
            await app.ask(said(turn), session_id="s")
        await app.resume((await app.tasks.list(session_id="s"))[0].task_id)
    assert len(again.condensed) == 1
    assert again.prompts[-1] == model.prompts[-1]
