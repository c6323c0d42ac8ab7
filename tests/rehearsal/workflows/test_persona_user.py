"""What the deterministic user makes of replies that bots word freely."""

from segue.core.conversation import Conversation, ConversationConfig, Role, Utterance
from segue.testing.rehearsal.participants import PersonaUser, Questions, find_scenario, load_workflow
from tests.cases import cases


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
