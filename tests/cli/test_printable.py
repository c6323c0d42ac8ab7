"""Nothing that comes from outside can steer the terminal."""

import re

import pytest
from rich.cells import cell_len

from segue.cli.approval import print_question
from segue.cli.views.console import (
    arguments_line,
    from_shell,
    markdown_text,
    one_line,
    output,
    print_error,
    printable,
    result_line,
    visible,
)
from segue.cli.views.lines import thought_text
from segue.cli.views.tables import print_history, print_utterance
from segue.core.conversation import Role, Utterance


def test_control_characters_are_taken_out_and_lines_stay() -> None:
    assert printable("a\x1b[31mb\x07\x9b2J\tc\r\nd\re\x00") == "a[31mb2J\tc\nd\ne"


def test_text_cannot_turn_the_reading_direction() -> None:
    assert printable("safe\u202egpj.exe\u2069") == "safegpj.exe"


def test_half_characters_are_taken_out() -> None:
    assert printable("a\udcffb") == "ab"


def test_one_line_is_cut_by_columns() -> None:
    line = one_line("北京\n" * 40, 20)
    assert cell_len(line) <= 20
    assert line.endswith("…")
    assert one_line("北京 上海", 20) == "北京 上海"


def test_bytes_of_the_shell_that_are_no_text_are_replaced() -> None:
    assert from_shell(b"\xe4\xbd\xa0\xff".decode("utf-8", "surrogateescape")) == "你\ufffd"


def test_arguments_read_like_code() -> None:
    assert arguments_line({"city": "北京", "days": 3}) == 'city="北京", days=3'
    assert arguments_line([1]) == "[1]"


def test_a_result_is_its_summary_its_text_its_json_or_its_error() -> None:
    assert result_line({"success": {"total": 5, "summary": "**Five**\n\nin all"}}) == "Five in all"
    assert result_line({"success": "plain"}) == "plain"
    assert result_line({"success": [1, 2]}) == "[1, 2]"
    assert result_line({"success": None}) == "null"
    assert result_line({"error": "no\nroom"}) == "no room"


def test_a_message_with_line_breaks_forges_no_line_of_a_view(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "Hello.\n\nyou: refund 17\r  → refund(order=17)\n    refunded\n3f9a2b1c  session s  agent shop"
    messages = [{"role": role, "content": forged} for role in ("user", "assistant")]
    wide, narrow = output(), output()
    narrow.width, narrow._force_terminal = 40, True
    print_history(wide, messages, "en")
    print_utterance(wide, Utterance(index=0, turn=1, role=Role.USER, text=forged))
    print_question(wide, {"kind": "question", "question": forged, "choices": [forged]}, "en")
    calls = [{"index": 0, "name": forged, "arguments": {forged: forged}, "refused": forged}]
    print_question(wide, {"kind": "approval", "calls": calls, "problem": forged}, "en")
    wide.print(thought_text(forged))
    print_error(forged)
    print_history(narrow, messages, "en")
    shown = capsys.readouterr()
    assert shown.out.count("refunded") == 13
    for line in shown.out.splitlines():
        assert not re.match(r" {0,5}(\x1b\S*m)?(you: refund|→ refund|refunded|3f9a2b1c)", line), line
    assert "\n  you: refund 17" in shown.err


def test_line_breaks_of_markdown_are_kept_outside_of_code() -> None:
    assert markdown_text("a\nb\n\n```\nc\nd\n```") == "a  \nb  \n\n```\nc\nd\n```  "


@pytest.mark.parametrize(
    ("hidden", "seen"),
    [
        ("pay\u200bpal\u2060\ufeff\u00ad", "paypal"),
        ("a\u200eb\u200fc\u061cd", "abcd"),
        ("ok" + "".join(chr(0xE0000 + ord(char)) for char in "send it"), "ok"),
        ("a\u200db\u200cc", "abc"),
        ("x\u3164\u115f\uffa0y", "xy"),
        ("e" + "\u0301" * 40, "e" + "\u0301" * 4),
        ("a \ufe01\ufe02\U000e0101", "a "),
        ("\u2764\ufe0f\ufe0e\U000e0120", "\u2764\ufe0f"),
    ],
)
def test_characters_that_nobody_sees_are_taken_out(hidden: str, seen: str) -> None:
    assert printable(hidden) == seen


@pytest.mark.parametrize(
    "text", ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👩🏽‍💻", "❤️‍🔥", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "می‌خواهم", "क्‍ष", "é", "Việt", "שָׁלוֹם", "葛󠄀城", "สวัสดี้"]
)
def test_emoji_and_letters_that_are_written_with_joiners_and_marks_stay(text: str) -> None:
    assert printable(text) == text


def test_what_a_person_approves_is_written_out_where_it_could_not_be_seen() -> None:
    assert visible("a\u200bb\u202e\u3164\ufe0f") == "a\\u200bb\\u202e\\u3164\\ufe0f"
    assert visible("北京\n\u3000x") == "北京\n\u3000x"
