"""A question to the user in the middle of a task: it waits, and its answer continues the same round."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import segue
from segue import Agent, App, tool
from segue.core.errors import InvalidAnswer, InvalidMessage, QuestionClosed
from segue.testing.cassette import record, replay
from segue.testing.rehearsal import ConversationConfig, converse
from tests.fakes import ScriptedChatModel, answer, call_tool, envelope, plan_json

painted: list[str] = []
QUESTION, CHOICES = "Which colour?", ["blue", "red"]
ASKED = {"question": QUESTION, "choices": CHOICES}


@tool
def measure() -> str:
    """Measure the door."""
    return "2 m"


@tool
def paint(colour: str) -> str:
    """Paint the door."""
    painted.append(colour)
    return f"painted {colour}"


def called(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": f"c-{name}", "name": name, "args": arguments, "type": "tool_call"}])


STEPS: Sequence[Any] = [
    {"action": "measure", "description": "measure it"},
    {"action": "ask_user", "params": ASKED, "description": "ask"},
    {"action": "paint", "params": {"colour": {"$ref": "steps.2.result"}}, "description": "paint it"},
]
PLAN = plan_json("paint the door", STEPS)
CLARIFY = envelope("CLARIFY", ASKED)
PAINT = call_tool(("paint", {"colour": "blue"}))
WAYS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "json": ({"mode": "react"}, [call_tool(("measure", {})), CLARIFY], [PAINT, answer("Done.")]),
    "json, state last": (
        {"mode": "react", "state": "last"},
        [call_tool(("measure", {})), CLARIFY],
        [PAINT, answer("Done.")],
    ),
    "native": (
        {"mode": "react", "protocol": "native"},
        [called("measure"), called("ask_user", **ASKED)],
        [called("paint", colour="blue"), AIMessage("Done.")],
    ),
    "plan": ({"mode": "plan"}, [PLAN], ["Done."]),
    "plan_react": (
        {"mode": "plan_react"},
        [PLAN, call_tool(("measure", {})), CLARIFY],
        [PAINT, answer("Done.")],
    ),
}


def agent(script: Sequence[Any], **fields: Any) -> Agent:
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "tools": (measure, paint), **fields})


async def asked_in(app: App) -> list[tuple[str, str]]:
    return [(row.kind, row.question) for row in await app.waiting()]


@pytest.mark.parametrize("way", WAYS)
async def test_an_answer_continues_the_round_in_another_process_with_everything_that_was_known(
    tmp_path: Path, way: str
) -> None:
    painted.clear()
    fields, before, after = WAYS[way]
    async with segue.open(tmp_path / "segue.db", agents=[agent(before, **fields)]) as app:
        waits = await app.ask("Paint the door.", session_id="s", agent="a")
        assert waits["status"] == "waiting" and waits["question"]["kind"] == "question"
        assert {name: waits["question"][name] for name in ASKED} == ASKED
    second = agent(after, **fields)
    async with segue.open(tmp_path / "segue.db", agents=[second]) as app:
        task_id, interrupt_id = waits["task_id"], waits["question"]["interrupt_id"]
        assert await asked_in(app) == [("question", QUESTION)]
        with pytest.raises(InvalidAnswer):
            await app.answer(task_id, " ")
        with pytest.raises(QuestionClosed):
            await app.answer(task_id, "red", interrupt_id="another")
        assert await asked_in(app) == [("question", QUESTION)] and painted == []
        done = await app.answer(task_id, "blue", interrupt_id=interrupt_id)
        with pytest.raises(QuestionClosed):
            await app.answer(task_id, "red", interrupt_id=interrupt_id)
        events = await app.events(task_id)
        assert (done["status"], done["answer"], painted, await asked_in(app)) == ("done", "Done.", ["blue"], [])
        (given,) = [event.data for event in events if event.type == "question_answered"]
        assert given == {"question": QUESTION, "answer": "blue"}
        calls = [event.data["name"] for event in events if event.type == "tool_call"]
        assert calls == ["measure", "paint"] and len(await app.tasks.list(session_id="s")) == 1
        if plan := done.get("plan"):
            assert [step["status"] for step in plan] == ["done"] * len(plan)
        history = await app.history("s")
        (said,) = [m for m in history if m["role"] == "tool" and m["content"] == "blue"]
        assert history[-1]["content"] == "Done." and said
    assert isinstance(second.model, ScriptedChatModel)
    first_prompt = "\n".join(f"{m.content} {getattr(m, 'tool_calls', '')}" for m in second.model.calls[0])
    assert all(known in first_prompt for known in ("2 m", QUESTION, "blue"))


@pytest.mark.parametrize("way", ["json", "native", "plan"])
async def test_a_person_may_end_the_task_instead(way: str) -> None:
    painted.clear()
    fields, before, _ = WAYS[way]
    async with segue.open(
        ":memory:", agents=[agent([*before, *(["I stopped."] if way == "plan" else [])], **fields)]
    ) as app:
        waits = await app.ask("Paint the door.", agent="a")
        ended = await app.answer(waits["task_id"], {"manual_finish": True})
    assert (ended["success"], painted) == (False, [])
    assert "the user ended the task instead of answering" in ended["error"]


@pytest.mark.parametrize(
    ("fields", "options"),
    [({"ask_user": False}, {}), ({}, {"ask_user": False}), ({"ask_user": False}, {"ask_user": None})],
)
async def test_an_agent_or_a_message_switches_questions_off(fields: dict[str, Any], options: dict[str, Any]) -> None:
    scripts: dict[str, list[Any]] = {
        "react": [CLARIFY, answer("In blue, then.")],
        "plan": [PLAN, plan_json("paint", [{"action": "none", "description": "think"}]), "In blue, then."],
    }
    for mode, script in scripts.items():
        model = ScriptedChatModel(script)
        async with segue.open(":memory:", agents=[agent((), mode=mode, **{**fields, "model": model})]) as app:
            done = await app.ask("Paint the door.", agent="a", **options)
            events = [event.data for event in await app.events(done["task_id"]) if event.type == "error"]
        assert (done["status"], done["answer"], len(events)) == ("done", "In blue, then.", 1)
        prompt = str(model.calls[0])
        assert "CLARIFY" not in prompt and "ask_user" not in prompt
    native = ScriptedChatModel([AIMessage("In blue, then.")])
    async with segue.open(
        ":memory:", agents=[agent((), protocol="native", mode="react", **{**fields, "model": native})]
    ) as app:
        await app.ask("Paint the door.", agent="a", **options)
    assert "ask_user" not in json.dumps(native.bound_tools)


async def test_a_message_switches_questions_on_and_an_unfinished_task_keeps_its_own(tmp_path: Path) -> None:
    model = ScriptedChatModel([CLARIFY, answer("Done.")])
    async with segue.open(":memory:", agents=[agent((), mode="react", ask_user=False, model=model)]) as app:
        waits = await app.ask("Paint the door.", agent="a", session_id="s", ask_user=True)
        with pytest.raises(InvalidMessage, match="ask_user"):
            await app.start("Quickly.", agent="a", session_id="s", steer=True, ask_user=False)
        with pytest.raises(InvalidMessage, match="ask_user is str"):
            await app.start("Quickly.", agent="a", ask_user="yes")  # type: ignore[arg-type]
        done = await app.answer(waits["task_id"], "blue")
    assert done["answer"] == "Done."


async def test_a_plan_that_ends_with_a_question_is_continued_by_its_answer() -> None:
    painted.clear()
    first = plan_json("paint the door", STEPS[:2])
    rest = {"step": 3, "action": "paint", "params": {"colour": "blue"}, "description": "paint it"}
    second = json.dumps({"goal": "paint the door", "steps": [{"step": 1, **STEPS[0]}, {"step": 2, **STEPS[1]}, rest]})
    model = ScriptedChatModel([first, second, "Done."])
    async with segue.open(":memory:", agents=[agent((), mode="plan", model=model)]) as app:
        waits = await app.ask("Paint the door.", agent="a")
        done = await app.answer(waits["task_id"], "blue")
    assert (done["answer"], painted) == ("Done.", ["blue"])
    assert f"“{QUESTION}”" in str(model.calls[1]) and "“blue”" in str(model.calls[1])


async def test_a_question_without_a_text_and_a_tool_of_that_name() -> None:
    @tool
    def ask_user(question: str) -> str:
        """Ask in the shop."""
        return "green"

    empty = [envelope("CLARIFY", {"question": " "}), CLARIFY, answer("Done.")]
    async with segue.open(":memory:", agents=[agent(empty, mode="react")]) as app:
        waits = await app.ask("Paint the door.", agent="a")
        (error,) = [e.data["message"] for e in await app.events(waits["task_id"]) if e.type == "error"]
        assert 'needs a non-empty "question"' in error and waits["status"] == "waiting"
    own = agent(
        [called("ask_user", question="?"), AIMessage("Green.")], mode="react", protocol="native", tools=(ask_user,)
    )
    async with segue.open(":memory:", agents=[own]) as app:
        done = await app.ask("Which colour do they have?", agent="a")
    assert (done["answer"], done["history"][0]["result"]) == ("Green.", {"success": "green"})


@pytest.mark.parametrize("way", ["json", "native", "plan"])
async def test_the_simulated_user_answers_in_a_rehearsal(way: str) -> None:
    painted.clear()
    fields, before, after = WAYS[way]
    bot = agent([*before, *after], **{**fields, "agent_id": "bot"})
    setting = {"user_mode": "scripted_user", "script": ["Paint the door.", "blue"], "api_mode": "tools"}
    config = ConversationConfig(**setting, bot_mode=f"segue:{fields['mode']}", bot_agent="bot", approvals="approve")
    async with segue.open(
        ":memory:", agents=[bot], approvals=segue.ApprovalSettings(auto_approve_conversations=True)
    ) as app:
        talk = await converse(app, config, conversation_id="talk")
    said = [(str(each.role), each.text) for each in talk.utterances if each.text]
    assert ("BOT", QUESTION) in said and ("BOT", "Done.") in said and painted == ["blue"]


@pytest.mark.parametrize("way", ["json", "native", "plan", "plan_react"])
async def test_a_recording_has_the_answer(way: str) -> None:
    fields, before, after = WAYS[way]
    async with segue.open(":memory:", agents=[agent([*before, *after], **fields)]) as app:
        waits = await app.ask("Paint the door.", session_id="s", agent="a")
        await app.answer(waits["task_id"], "blue")
        cassette = await record(app, "s")
        replayed = await replay(cassette, agents=[agent((), **fields)])
    assert replayed.difference is None
