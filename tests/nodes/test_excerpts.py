"""What a prompt shows of a long result: its beginning, its end, and the fields that the request names."""

import json

from langchain_core.messages import ToolMessage

from segue.core.calls import CallKey, CallResult
from segue.nodes.context import FIELDS, Settled, excerpt, exchange, fields_named, truncate_result
from segue.nodes.history import shown_text

ORDER = {
    "order_id": 17,
    "lines": [{"sku": f"s{number}", "about": "words of a line " * 3} for number in range(60)],
    "payment_status": "open",
    "totalAmount": 420.5,
    "lines_after": ["more words " * 8 for _ in range(30)],
    "carrier": "DHL",
}
TEXT = json.dumps(ORDER)
REQUEST = "What is the payment status and the total of order 17?"


def test_a_result_keeps_its_beginning_its_end_and_the_fields_that_the_request_names() -> None:
    shown = excerpt(TEXT, 1_000, "ref", fields_named(TEXT, REQUEST))
    begin, _, rest = shown.partition("… [")
    note, _, end = rest.partition("] …")
    assert TEXT.startswith(begin) and len(begin) == 750
    assert TEXT.endswith(end) and end.endswith('"carrier": "DHL"}')
    assert f"recall(ref='ref', offset={len(begin)}); in them payment_status: \"open\", totalAmount: 420.5" in note
    assert note.startswith(f"{len(TEXT) - len(begin) - len(end)} more characters")
    assert len(begin) + len(end) + len("payment_status...") < 1_000


def test_without_a_request_there_is_no_field_and_what_fits_is_whole() -> None:
    assert "in them" not in excerpt(TEXT, 1_000)
    assert excerpt(TEXT, len(TEXT)) == TEXT
    assert truncate_result({"success": ORDER}, 100_000, request=REQUEST) == {"success": ORDER}


def test_fields_are_found_on_lines_in_chinese_and_by_any_word_that_says_something() -> None:
    lines = "Name: Ana\nDelivery date: 2027-03-01\nopen items: 3\nno field here"
    assert fields_named(lines, "When is the delivery?") == ["Delivery date"]
    assert fields_named(lines, "Which items are open, and what is the name?") == ["open items"]
    assert fields_named('{"余额": 300, "姓名": "王明"}', "余额还有多少？") == ["余额"]
    assert fields_named(TEXT, "Never mind.") == []


def test_more_fields_than_there_is_room_for_are_counted() -> None:
    rows = json.dumps([{"status": f"state {number}", "text": "x" * 60} for number in range(200)])
    told = excerpt(rows, 2_000, "", ["status"]).partition("in them ")[2].partition("]")[0]
    shown, left = told.split(", ")[:-1], told.split(", ")[-1]
    assert len(shown) > 5 and left.endswith(" more")
    assert len(shown) + int(left.split()[0]) > 150


def test_a_message_remembers_what_its_own_request_named() -> None:
    call = Settled("c", "look", {}, CallResult.done(ORDER).json(), CallKey("task", "trace", 0))
    message = exchange("", [call], request=REQUEST)[1]
    assert isinstance(message, ToolMessage) and message.additional_kwargs[FIELDS]
    assert 'payment_status: "open"' in shown_text(message, 1_000)
    short = Settled("c", "look", {}, CallResult.done({"status": "open"}).json(), CallKey("task", "trace", 0))
    assert FIELDS not in exchange("", [short], request=REQUEST)[1].additional_kwargs
