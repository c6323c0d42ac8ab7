"""Statements of a person in a message, by the rules."""

import pytest

from segue.memory.statements import find_statements

from .statements import STATED, UNSTATED


def texts(message: str) -> list[str]:
    return [statement.text for statement in find_statements(message)]


def share(stated: list[tuple[str, list[str]]], unstated: list[str]) -> tuple[float, int]:
    """The share of messages with exactly their statements, and how many of those without one have some."""
    right = [texts(message) == expected for message, expected in stated]
    return sum(right) / len(right), sum(bool(texts(message)) for message in unstated)


def test_the_rules_find_what_they_were_written_for() -> None:
    assert [(message, texts(message)) for message, _ in STATED[:20]] == STATED[:20]
    assert [message for message in UNSTATED[:20] if texts(message)] == []


@pytest.mark.parametrize(
    "message",
    [
        "As the patient wrote, I'm diabetic.",
        "As Ms Lee's patient said yesterday, I'm diabetic.",
        "The patient wrote, I'm diabetic.",
        "According to the patient, I'm diabetic.",
        "正如病人所说，我有糖尿病。",
        "I am a teacher's pet.",
        "I'm living in a hotel this week.",
        "我对这件事过敏感",
        "我住在酒店三天",
        "我住在希尔顿酒店",
        "我住在上海三天",
    ],
)
def test_what_others_say_and_what_passes_is_no_statement(message: str) -> None:
    assert texts(message) == []


def test_what_resembles_it_is_a_statement() -> None:
    for message in (
        "As I said, I'm diabetic",
        "I'm a teacher",
        "I live in Rome",
        "我对花生过敏",
        "我住上海",
        "我住在酒店附近",
    ):
        assert len(texts(message)) == 1, message


def test_a_name_is_another_subject_than_how_its_bearer_is() -> None:
    for message in (
        "My wife's name is Eva. My wife is a vegetarian.",
        "My wife is called Eva. My wife is ninety.",
        "我妻子叫小美。我妻子是素食者。",
    ):
        assert len({statement.subject for statement in find_statements(message)}) == 2, message
    assert texts("My wife's name is Eva. My wife is called Ann.") == ["My wife is called Ann"]


def test_the_rules_find_most_of_what_was_kept_aside() -> None:
    found, wrong = share(STATED[20:], UNSTATED[20:])
    assert found >= 0.8 and wrong <= 1
