"""Workflows in the conversation graph: the participants, the referee's controller, and interruptions."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import segue
from segue import Agent
from segue.core.conversation import BotOutput, Conversation, Role, Setting, Utterance
from segue.core.errors import ConfigurationError
from segue.testing.rehearsal import ConversationConfig, converse
from segue.testing.rehearsal.participants import (
    PersonaUser,
    Questions,
    RuleBot,
    find_backend,
    find_scenario,
    load_workflow,
)
from tests.cases import cases
from tests.fakes import ScriptedChatModel
from tests.rehearsal.participants import Does, calls, says
from tests.rehearsal.workflows.talks import replayed

CANCEL = ConversationConfig(workflow="travel_change", scenario="cancel_flexible", seed=3)
FIND = calls("find_booking", reference="QP6618", surname="Lindqvist")
WRONG = calls("verify_passenger", reference="QP6618", birth_date="1990-01-01")
RIGHT = calls("verify_passenger", reference="QP6618", birth_date="1995-09-09")
QUOTE = calls("quote_cancellation", reference="QP6618")


async def results_of(moves: Sequence[BotOutput], **options: object) -> list[tuple[str, int | None, object, str]]:
    """What becomes of a bot's calls: name, status, data, controller."""

    def act(conversation: Conversation) -> BotOutput:
        return [*moves, says("Done.")][min(len(conversation.results), len(moves))]

    config = ConversationConfig(
        workflow="travel_change", user_mode="scripted_user", script=["Hello."], bot_mode="own", **options
    )
    async with segue.open(":memory:") as app:
        app.agents.participants.bots.register("own", lambda setting: Does(act))
        done = await converse(app, config)
    return [(u.action, u.status_code, u.data, u.controller) for u in done.results]


async def test_a_call_is_refused_until_what_it_requires_has_succeeded() -> None:
    results = await results_of([FIND, WRONG, QUOTE, RIGHT, QUOTE])

    assert [(name, status) for name, status, *_ in results] == [
        ("find_booking", 200),
        ("verify_passenger", 403),
        ("quote_cancellation", 409),
        ("verify_passenger", 200),
        ("quote_cancellation", 200),
    ]
    assert results[2][2:] == (
        "quote_cancellation was not called: call verify_passenger successfully first.",
        "node_dependency",
    )


async def test_a_refused_call_counts_towards_the_limit() -> None:
    assert len(await results_of([QUOTE] * 9, bot_action_limit=3)) == 3


async def test_without_the_controller_nothing_is_refused() -> None:
    assert [status for _, status, *_ in await results_of([QUOTE], controllers=())] == [200]


async def test_arguments_and_names_are_checked() -> None:
    (_, misfit, why, _), (_, unknown, names, _) = await results_of([calls("find_booking"), calls("refund")])
    assert (misfit, unknown) == (400, 400)
    assert "reference" in str(why) and "find_booking, verify_passenger" in str(names)


def failing_at(index: int) -> Callable[[Setting], RuleBot]:
    """The rule-driven bot, which fails at that utterance."""

    class Failing(RuleBot):
        async def process(self, conversation: Conversation) -> BotOutput:
            if len(conversation.utterances) == index:
                raise ConfigurationError("The bot is not there.")
            return await super().process(conversation)

    return Failing


async def test_the_state_survives_an_interruption_and_no_call_is_repeated(tmp_path: Path) -> None:
    """The conversation stops after the cancellation took effect, and before the bot tells of it."""
    scenario = find_scenario("travel_change", "cancel_flexible")
    config = CANCEL.model_copy(update={"bot_mode": "own"})
    config = ConversationConfig(**config.model_dump(exclude_defaults=True))
    async with segue.open(":memory:") as app:
        whole = await converse(app, CANCEL)
    told = next(u.index for u in whole.utterances if u.action == "cancel_booking" and u.role is Role.API) + 1
    async with segue.open(tmp_path / "talk.db") as app:
        app.agents.participants.bots.register("own", failing_at(told))
        with pytest.raises(ConfigurationError):
            await converse(app, config, conversation_id="talk")
    async with segue.open(tmp_path / "talk.db") as app:
        app.agents.participants.bots.register("own", RuleBot)
        done = await converse(app, config, conversation_id="talk")

    assert [(u.text, u.action, u.data) for u in done.utterances] == [
        (u.text, u.action, u.data) for u in whole.utterances
    ]
    assert [u.action for u in done.results] == [call.name for call in scenario.expected_calls]
    made = [(u.action, u.action_input) for u in done.results if u.ok]
    expected = replayed(find_backend("travel_change"), done.config.seed or 0, made)
    assert done.state["API"] == whole.state["API"] == expected
    assert done.state["API"]["bookings"]["QP6618"]["status"] == "cancelled"


async def test_the_workflow_bot_is_told_the_workflow_and_acts_in_text() -> None:
    action = 'Thought: find it\nAction: find_booking\nAction Input: {"reference": "QP6618", "surname": "Lindqvist"}'
    model = ScriptedChatModel([action, "Thought: found\nResponse: I found your booking."])
    config = ConversationConfig(
        workflow="travel_change",
        user_mode="scripted_user",
        script=["Hello."],
        bot_mode="workflow_bot",
        bot_agent="desk",
    )
    async with segue.open(":memory:") as app:
        app.register(Agent(agent_id="desk", model=model, prompt="You are the night desk."))
        done = await converse(app, config)

    assert [(u.action, u.status_code) for u in done.results] == [("find_booking", 200)]
    system = str(model.calls[0][0].content)
    assert system.startswith("You are the night desk.")
    assert "2. Verify the caller's identity" in system and "cancel_booking: must have succeeded before" in system


# What the deterministic user makes of replies that bots word freely.


@cases(
    "workflow, reply, slots",
    [
        ("travel_change", "Sure! I'll need your booking reference and last name.", ["reference", "surname"]),
        ("travel_change", "Could you provide the six-character code of your booking?", ["reference"]),
        ("travel_change", "Your booking reference KX4821 was found. When were you born?", ["birth_date"]),
        ("travel_change", "What new date would you like to travel on?", ["new_date"]),
        ("travel_change", "The fee is 40 EUR. Would you like me to proceed?", ["agreed_change", "agreed_cancellation"]),
        ("travel_change", "Your flight is changed. Is there anything else?", []),
        ("travel_change", "Do you have any allergies?", []),
        ("device_return", "May I have the email used for the purchase?", ["email"]),
        ("device_return", "What is wrong with the headphones?", ["reason"]),
        ("clinic_appointment", "您需要登记手机号和出生日期。", ["phone", "birth_date"]),
        ("clinic_appointment", "您想挂什么科？", ["department"]),
        ("clinic_appointment", "麻烦您说一下您的症状。", ["department"]),
        ("clinic_appointment", "已为您预约。请问还有什么可以帮您？", []),
    ],
)
def test_a_question_is_recognised_however_it_is_worded(workflow: str, reply: str, slots: list[str]) -> None:
    assert Questions(load_workflow(workflow)).asked(reply) == slots


@cases(
    "replies, said",
    [
        (["How can I help you?"], ["I have to cancel my trip.", "I am ill and would like a refund."]),
        (["Is there anything else?"], ["I have to cancel my trip.", "I am ill and would like a refund."]),
        (["Is there anything else?"] * 3, ["Never mind then.\n[END]"]),
        (["Your surname?", "Is there anything else?"], ["Thank you.\n[END]"]),
        (["Let me check that for you."], ["All right."]),
        (["Let me check.", "One moment.", "Hold on."], ["Never mind then.\n[END]"]),
        (["It will be 240 EUR. Shall I go ahead?"], ["yes", "yes, thank you."]),
        (["Your surname?", "I found your booking."], ["All right."]),
        (["Your surname?", *["I found your booking."] * 3], ["Thank you.\n[END]"]),
    ],
)
def test_a_user_restates_its_request_waits_and_loses_patience(replies: list[str], said: list[str]) -> None:
    persona = find_scenario("travel_change", "cancel_flexible").persona
    utterances = tuple(Utterance(index=n, turn=n, role=Role.BOT, text=text) for n, text in enumerate(replies))
    conversation = Conversation(conversation_id="c", config=ConversationConfig(), utterances=utterances)

    assert PersonaUser(load_workflow("travel_change"), persona, 0).reply(conversation) in said
