"""Whoever asks a model: a prompt that is too long is shortened once, and what is no reply is asked for again."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import segue
from segue.core.agents import Agent
from segue.core.conversation import Conversation as Talk
from segue.core.conversation import ConversationConfig, Ending, EndReason, Role, Utterance
from segue.core.events import AttemptRestarted, ModeSelected
from segue.models.chat_object import ChatObject
from segue.testing.rehearsal import converse
from segue.testing.rehearsal.grades import judge_one
from segue.tools.registry import tool
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.loopback import Demand, LoopbackServer, Text

LONG = "Tell me about word " * 1500
MARKUP = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


class City(BaseModel):
    name: str


class Endpoint(ScriptedChatModel):
    """Says `replies` to prompts that are short enough, and then `last`; the first prompt sets the limit."""

    def __init__(self, *replies: Any, last: Any = "It is Rome.", longest: int = 0) -> None:
        rest = [*replies]
        refused: list[int] = []

        def reply(messages: Any) -> Any:
            size = sum(len(message.text) for message in messages)
            if size > (longest or size):
                refused.append(size)
                raise ValueError("prompt is too long: 9 tokens > 8 maximum")
            return rest.pop(0) if rest else last

        super().__init__(reply)
        self._refused = refused

    _refused: list[int]


@tool(read_only=True, hidden="summary")
def read_page() -> str:
    """Read the page."""
    return LONG


@tool(read_only=True)
def look() -> str:
    """Look it up."""
    return "Rome"


SAYS = {
    "user": ["What is it?", "[END]"],
    "bot": ["Thought: t\nAction: look\nAction Input: {}", "Response: It is Rome."],
    "api": ['{"status_code": 200, "data": "Rome"}'],
}
PLAN = {"goal": "g", "steps": [{"step_id": "1", "description": "Answer.", "phase": "generation"}]}


async def ask_in(mode: str, model: Endpoint, message: str = LONG, **fields: Any) -> Any:
    agent = Agent(agent_id="a", model=model, budget={"result_chars": 40_000}, **fields)  # type: ignore[arg-type]
    async with segue.open(":memory:", agents=[agent]) as app:
        return [event async for event in app.chat(message, agent="a", mode=mode)]


@cases(
    "mode, replies",
    [
        ("auto", ["direct", "It is Rome."]),
        ("direct", []),
        ("react", [answer("It is Rome.")]),
        ("plan", [json.dumps(PLAN), "It is Rome."]),
    ],
)
async def test_each_mode_sends_a_prompt_that_is_too_long_once_more_and_shorter(mode: str, replies: list[Any]) -> None:
    model = Endpoint(*replies, longest=30_000 if mode == "react" else 24_000)  # which holds the message twice
    events = await ask_in(mode, model, auto="model")
    assert model._refused and any(isinstance(e, AttemptRestarted) and "prompt_tokens" in e.reason for e in events)
    assert "It is Rome." in str([e for e in events if e.type == "answer"])
    assert [e.mode for e in events if isinstance(e, ModeSelected)] == ["direct" if mode == "auto" else mode]


@pytest.mark.slow
async def test_a_text_that_is_long_is_shortened_for_an_object_a_summary_and_a_judge() -> None:
    typed = Endpoint(LONG, '{"name": "Rome"}', longest=24_000)
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=typed, mode="direct")]) as app:
        result = await app.ask("Which city?", agent="a", response_model=City)
    assert result["object"] == City(name="Rome") and len(typed._refused) == 1

    summary = Endpoint(call_tool(("read_page", {})), "A page.", answer("It is Rome."), longest=24_000)
    agent = Agent(agent_id="a", model=summary, mode="react", tools=[read_page], budget={"result_chars": 40_000})  # type: ignore[arg-type]
    async with segue.open(":memory:", agents=[agent]) as app:
        assert (await app.ask("What is on it?", agent="a")).answer == "It is Rome."
    assert len(summary._refused) == 1 and "A page." in str(summary.calls[-1])

    judge = Endpoint(last='{"success": true, "reason": "r"}', longest=12_000)
    said = tuple(Utterance(index=n, turn=n, role=Role.USER, text=LONG[:5000]) for n in range(4))
    ending = Ending(reason=EndReason.TURN_LIMIT, turns=4)
    talk = Talk(conversation_id="t", config=ConversationConfig(goal="Learn it."), utterances=said, ending=ending)
    assert (await judge_one(ChatObject(judge), talk)).success and len(judge._refused) == 1


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Lets three models talk at an endpoint, each of which says the given texts before its own."""

    async def run(demand: Demand | None = None, **first: list[str]) -> tuple[Talk, list[Any]]:
        said = {role: [*first.get(role, ()), *texts] for role, texts in SAYS.items()}
        script = [lambda body: Text(said[body["model"]].pop(0))] * 40
        with LoopbackServer([*([demand] if demand else ()), *script]) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "k")
            config = ConversationConfig(
                user_mode="llm_profile", bot_mode="react_bot", api_mode="llm", bot_agent="a", user_model="openai:user",
                bot_model="openai:bot", api_model="openai:api", seed=1, goal="Learn it.", conversation_turn_limit=1,
                retry_limit=3,
            )  # fmt: skip
            async with segue.open(":memory:", agents=[Agent(agent_id="a", tools=[look])]) as app:
                done = await converse(app, config)
            return done, [request.body for request in server.requests]

    return run


def size(body: Any) -> int:
    return sum(len(str(message["content"])) for message in body["messages"])


@pytest.mark.slow
async def test_each_participant_of_a_conversation_goes_on_with_a_shorter_prompt(talk: Callable[..., Any]) -> None:
    longest = 18_000
    demand = Demand(lambda body: "This model's maximum context length is 8 tokens." if size(body) > longest else "")
    done, bodies = await talk(demand, user=[LONG])
    assert done.ending.reason is EndReason.TURN_LIMIT and not any(each.error for each in done.utterances)
    refused = [body["model"] for body in bodies if size(body) > longest]
    assert set(refused) == {"bot"} and len(refused) == 1, "each of the run's further prompts is as short"
    assert [each.text for each in done.utterances if each.role is Role.BOT][-1] == "It is Rome."


@cases("role", [*SAYS])
async def test_a_call_in_the_text_of_a_participant_is_asked_for_again(role: str, talk: Callable[..., Any]) -> None:
    done, bodies = await talk(None, **{role: [MARKUP]})
    assert "tool_call" not in str(done.utterances) and not any(each.error for each in done.utterances)
    again = [body for body in bodies if "tool call in its text" in str(body["messages"][-1])]
    assert [body["model"] for body in again] == [role]


@cases("mode", ["direct", "plan", "react"])
async def test_a_call_in_the_text_of_an_answer_is_no_answer(mode: str) -> None:
    first = [json.dumps(PLAN)] if mode == "plan" else []
    model = Endpoint(*first, MARKUP, last=answer("It is Rome.") if mode != "plan" else "It is Rome.")
    events = await ask_in(mode, model, message="hi", tools=[look])
    assert "tool_call" not in str([e for e in events if e.type in ("answer", "token")])
    assert "It is Rome." in str([e for e in events if e.type == "answer"])


async def test_a_call_in_a_text_picks_no_mode_is_no_summary_and_no_object() -> None:
    picked = await ask_in("auto", Endpoint(f"plan\n{MARKUP}", answer("It is Rome.")), message="What?", auto="model")
    assert [e.mode for e in picked if isinstance(e, ModeSelected)] == ["react"]

    summary = Endpoint(call_tool(("read_page", {})), MARKUP, answer("It is Rome."))
    agent = Agent(agent_id="a", model=summary, mode="react", tools=[read_page])
    async with segue.open(":memory:", agents=[agent]) as app:
        await app.ask("What is on it?", agent="a")
    assert "<tool_call>" not in str(summary.calls[-1])

    typed = Endpoint("In Rome.", '<tool_call>\n{"name": "look"}\n</tool_call>', '{"name": "Rome"}')
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=typed, mode="direct")]) as app:
        assert (await app.ask("Which city?", agent="a", response_model=City))["object"] == City(name="Rome")
