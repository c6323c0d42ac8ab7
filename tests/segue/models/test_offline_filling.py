"""Arguments from a sentence, by schema alone."""

from typing import Any

import pytest

from segue.models.offline_cards import Card, read_card
from segue.models.offline_filling import read_arguments
from segue.tools.registry import as_tool

from .offline_tools import LIBRARY, MACHINES

CARDS: dict[str, Card] = {source.__name__: read_card(as_tool(source).spec) for source in (*LIBRARY, *MACHINES)}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("opening_hours", "northgate today?", {"branch": ["Northgate"]}),
        ("opening_hours", "河西馆和东门馆", {"branch": ["河西馆", "东门馆"]}),
        ("opening_hours", "不要河西馆，要东门馆", {"branch": ["东门馆"]}),
        ("opening_hours", "「南馆」几点开门", {"branch": ["南馆"]}),
        ("renew_loan", "renew L-017 for two weeks", {"loan_id": ["L-017"], "weeks": [2]}),
        ("renew_loan", "L-017续借三周", {"loan_id": ["L-017"], "weeks": [3]}),
        ("renew_loan", "L-017 和 L-018，9周", {"loan_id": ["L-017", "L-018"], "weeks": [9]}),
        ("renew_loan", "XL-0171", {}),
        ("late_fee", "L-020, 5", {"loan_id": ["L-020"], "weeks": [5]}),
        ("late_fee", "L-020, 5 yuan", {"loan_id": ["L-020"]}),
        ("find_books", "books about deep sea, novels please", {"subject": ["deep sea"], "kinds": [["novel"]]}),
        ("find_books", "有没有关于鲸鱼的小说和画册", {"subject": ["鲸鱼的小说和画册"], "kinds": [["小说", "画册"]]}),
        ("find_books", "“whales” atlas", {"subject": ["whales"], "kinds": [["atlas"]]}),
        ("find_books", "anything new?", {}),
        ("alarms", "M-01 严重和轻微", {"machine": ["M-01"], "severities": [["严重", "轻微"]]}),
        ("alarms", "critical ones of M-13", {"machine": ["M-13"], "severities": [["critical"]]}),
        ("machines_by_temperature", "温度80以上", {"temp_min": [80]}),
        ("machines_by_temperature", "temperature under 40.5", {"temp_max": [40.5]}),
        ("machines_by_temperature", "temperature between 20 and 30", {"temp_min": [20], "temp_max": [30]}),
        ("machines_by_temperature", "温度20到30度", {"temp_min": [20], "temp_max": [30]}),
        ("machines_by_temperature", "不超过60", {"temp_max": [60]}),
        ("machines_by_temperature", "within 3 days", {}),
        ("open_ticket", "紧急工单：“泵漏水”", {"title": ["泵漏水"], "urgent": [True]}),
        ("open_ticket", 'not urgent, ticket "leak"', {"title": ["leak"], "urgent": [False]}),
        ("move_load", "to M-02 from M-01", {"source": ["M-01"], "target": ["M-02"]}),
        ("move_load", "M-03, then M-04", {"source": ["M-03"], "target": ["M-04"]}),
        ("compute", "算 3 加 4", {"formula": ["3 + 4"]}),
    ],
)
def test_arguments_are_read_by_the_schema(name: str, text: str, expected: dict[str, Any]) -> None:
    assert read_arguments(CARDS[name], text) == expected


def test_a_number_in_a_quotation_or_an_id_is_no_argument() -> None:
    assert read_arguments(CARDS["late_fee"], "L-020 「12」") == {"loan_id": ["L-020"]}


def test_a_value_outside_its_bounds_is_left_for_the_tool_to_refuse() -> None:
    assert read_arguments(CARDS["renew_loan"], "L-017 for 40 weeks")["weeks"] == [40]


def test_a_specification_without_any_marks_can_be_read() -> None:
    card = read_card({"type": "function", "function": {"name": "ping"}})
    assert (card.title, card.parameters, card.read_only) == ("ping", (), False)
