"""Who a failed conversation is attributed to, and the turn that is cited."""

import pytest

pytest.importorskip("matplotlib")

from segue.core.conversation import Conversation, ConversationConfig, Ending, EndReason, Role, Utterance
from segue.testing.rehearsal.batch import Planned
from segue.testing.rehearsal.grades import Verdict, outcome_of
from segue.testing.rehearsal.participants import find_backend, find_scenario
from segue.testing.rehearsal.report import Outcome
from tests.cases import cases

NAME = "cancel_flexible"
CONFIG = ConversationConfig(workflow="travel_change", scenario=NAME, api_mode="backend", seed=1)
BEGIN, END = "U I have to cancel my trip.", "U [END]"
FIND = "C find_booking reference=QP6618 surname=Lindqvist"
VERIFY = "C verify_passenger reference=QP6618 birth_date=1995-09-09"
QUOTE = "C quote_cancellation reference=QP6618"
CANCEL = "C cancel_booking reference=QP6618"
ALL = (BEGIN, FIND, "R 200", VERIFY, "R 200", QUOTE, "R 200", CANCEL, "R 200", "B It is cancelled.", END)


def spoken(lines: tuple[str, ...]) -> list[Utterance]:
    """Utterances from short lines: U and B say something, C calls name=value …, R is a status code and a controller."""
    said: list[Utterance] = []
    turn = 0
    for index, line in enumerate(lines):
        kind, _, rest = line.partition(" ")
        turn += kind == "U"
        if kind in "UB":
            ends, role = rest.endswith("[END]"), Role.USER if kind == "U" else Role.BOT
            said.append(Utterance(index=index, turn=turn, role=role, text=rest.removesuffix("[END]"), ends=ends))
        elif kind == "C":
            name, *pairs = rest.split()
            given = dict(pair.split("=") for pair in pairs)
            said.append(Utterance(index=index, turn=turn, role=Role.BOT, action=name, action_input=given))
        else:
            code, _, controller = rest.partition(" ")
            last = said[-1]
            said.append(
                Utterance(
                    index=index,
                    turn=turn,
                    role=Role.API,
                    action=last.action,
                    action_input=last.action_input,
                    status_code=int(code),
                    controller=controller,
                )
            )
    return said


def graded(
    *lines: str, reason: EndReason = EndReason.USER_ENDED, done: bool = False, verdict: Verdict | None = None
) -> Outcome:
    """The outcome of a conversation; `done`: the backend's state is the expected one."""
    state = find_backend("travel_change").initial(1)
    conversation = Conversation(
        conversation_id="c",
        config=CONFIG,
        utterances=tuple(spoken(lines)),
        state={"API": find_scenario("travel_change", NAME).expected_state(state) if done else state},
        ending=Ending(reason=reason, turns=1),
    )
    return outcome_of(
        conversation, Planned(conversation_id="c", scenario=NAME, trial=1, worker=1, config=CONFIG), verdict
    )


@cases(
    "lines, party, turn, reason",
    [
        ((BEGIN, FIND, "R 503", "B Something is down.", END), "tool", 1, "find_booking failed with status 503"),
        (
            (BEGIN, "B Your date of birth?", "U I was born on 1970-01-01.", END),
            "user",
            2,
            "1970-01-01, which is not in its persona",
        ),
        ((BEGIN, "B What is your booking reference?", END), "user", 2, "ended the conversation instead of answering"),
        (
            (BEGIN, "B Reference?", "U Hm.", "B Your name?", "U Hm.", "B And?", "U Hm."),
            "user",
            4,
            "repeated itself 3 times",
        ),
        ((BEGIN, CANCEL, "R 409 node_dependency", "B No.", END), "agent", 1, "was refused by node_dependency"),
        (
            (BEGIN, FIND.replace("QP", "QQ"), "R 404", "B No.", END),
            "agent",
            1,
            'QQ6618", "surname": "Lindqvist"}), expected',
        ),
        ((*ALL[:7], "B It is cancelled.", END), "agent", 1, 'cancel_booking({"reference": "QP6618"}) was never called'),
    ],
)
def test_a_failure_is_attributed_by_the_first_rule_that_applies(
    lines: tuple[str, ...], party: str, turn: int, reason: str
) -> None:
    outcome = graded(*lines)
    assert outcome.rule_success is False
    assert outcome.fault
    assert (outcome.fault.party, outcome.fault.turn) == (party, turn)
    assert reason in outcome.fault.reason()


def test_a_user_that_says_nothing_is_the_users_fault() -> None:
    outcome = graded(BEGIN, reason=EndReason.USER_FAILED)
    assert outcome.fault
    assert outcome.fault.party == "user"


def test_a_user_that_gives_up_when_asked_the_same_again_is_not_at_fault() -> None:
    question = "B What is your booking reference?"
    outcome = graded(BEGIN, question, "U QP6618", question, END)
    assert outcome.fault
    assert outcome.fault.party == "agent"


def test_success_needs_no_fault_unless_the_judge_objects() -> None:
    assert graded(*ALL, done=True).fault is None
    verdict = Verdict(success=False, reason="rude", party="agent", turn=1)
    outcome = graded(*ALL, done=True, verdict=verdict)
    assert (outcome.success, outcome.judge_success) == (True, False)
    assert outcome.fault
    assert (outcome.fault.party, outcome.fault.reason()) == ("judge", "all rules are met, but the judge says: rude")


def test_a_changed_state_that_nobody_asked_for_is_the_agents_fault() -> None:
    outcome = graded(*ALL[:-2], "C change_booking reference=QP6618", "R 200", *ALL[-2:])
    assert outcome.fault
    assert (outcome.fault.party, outcome.fault.index) == ("agent", 9)
    assert "it called change_booking, which was not expected; bookings.QP6618" in outcome.fault.reason()


def test_the_reason_says_that_the_turn_limit_ended_the_conversation() -> None:
    outcome = graded(BEGIN, "B What is your name?", reason=EndReason.TURN_LIMIT)

    assert outcome.fault and outcome.fault.party == "agent"
    assert "was never called; the turn limit of 1 ended the conversation" in outcome.fault.reason()


def test_the_goodbye_of_the_user_is_no_turn() -> None:
    assert graded(*ALL, done=True).turns == 1
