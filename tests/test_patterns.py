"""What reads the texts of others takes twice as long for twice the length, whatever the text repeats."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest

from segue.cli.views.console import markdown_text, one_line, printable, visible
from segue.core.conversation import without_end
from segue.core.decision import CodeMarks, find_object, read_steps
from segue.core.errors import InvalidWorkflow, UnreadableReply
from segue.core.plan import lines_of, numbered_line, numbered_plan
from segue.memory.files import blocks_of
from segue.memory.folder import pieces_of
from segue.memory.statements import find_statements
from segue.models.markup import find_mark, read_markup
from segue.models.offline import planner, understanding
from segue.models.reply import ThinkTags
from segue.nodes import participants
from segue.nodes.chat import rule_for
from segue.nodes.model_call import JsonStrings
from segue.passages import passages_of, rules_of
from segue.prompts.catalogue import accepted_language, language_of, without_quotations
from segue.testing.rehearsal.converter import convert_text
from tests.adversarial import SHAPES, Shape, grows, patterns

pytestmark = pytest.mark.slow
BY_THEIR_READER = {
    "segue.prompts.catalogue._QUOTED": "without_quotations gives it closed quotation marks only",
    "segue.models.offline.understanding._QUOTED": "quotations gives it closed quotation marks only",
    "segue.memory.statements._QUOTED": "own_sentences gives it closed quotation marks only",
}
"""Patterns that are quadratic by themselves, and why no text makes them so."""


def think(given: str) -> None:
    tags = ThinkTags()
    for start in range(0, len(given), 500):
        tags.feed(given[start : start + 500])


def lenient(read: Callable[[str], object]) -> Callable[[str], object]:
    def run(given: str) -> None:
        with suppress(UnreadableReply, InvalidWorkflow):
            read(given)

    return run


READERS: list[tuple[Callable[[str], object], tuple[Shape, ...]]] = [
    (lambda given: list(passages_of(given, "name")), (Shape("# a\n"), Shape("#", "# "), Shape("```\n"))),
    (rules_of, (Shape("a\n"), Shape("- a\n"), Shape("#", "# "))),
    (without_end, (Shape("[END]"), Shape(" [END]"), Shape(" ", after=""))),
    (lenient(find_object), (Shape('{"}'), Shape('{"}":['), Shape('{"a":'), Shape('{},"'))),
    (lenient(read_steps), (Shape("```"), Shape("\n", "```"), Shape("1. a\n"))),
    (lines_of, (Shape("a\n", "1. a\n"), Shape("1. a\n"))),
    (numbered_plan, (Shape("1. a\n"),)),
    (numbered_line, tuple(Shape(unit, "step 1", "\n\0") for unit in (" ", ".1", "1", "一"))),
    (lambda given: list(JsonStrings().feed(given)), (Shape('{"'), Shape('{"a":"'), Shape("\\ud83d", '{"a":"'))),
    (
        lambda given: read_markup(given, {"add": {"properties": {"a": {}}}}),
        (
            *(Shape(unit, "[TOOL_CALLS] ", " x(") for unit in ("call:", "to=", "functions.a:0", "[")),
            *(Shape(unit, "<tool_call>add</tool_call> x ", "{") for unit in ("<tool_call> x ", "a[ARGS]{} ", "`<")),
            *map(Shape, ("<tool_call>", "<tool_call>add</tool_call>\nx ", "to=functions.", "<pre", '"<tool_call>')),
            *(Shape("(", before) for before in ("[add", "<tool_code>add")),
        ),
    ),
    (lambda given: find_mark(given, CodeMarks()), (Shape("`<tool_call>"), Shape("x to=functions."), Shape("call:"))),
    (think, (Shape("<think>"), Shape("</think>"), Shape("</thin", "<think>"), Shape("\u3000"))),
    (find_statements, (Shape("“a"), Shape("i am "), Shape("我"), Shape("a, "), Shape("  ", "i like"))),
    (without_quotations, tuple(map(Shape, "“「『《`'\"/"))),
    (language_of, (Shape("“"), Shape("中"))),
    (accepted_language, (Shape("en;q=0.5,"), Shape("-"))),
    (printable, (Shape("👩\u200d"), Shape("\u0301"), Shape("\ufe0f"), Shape("\x1b["), Shape("\U000e0061"))),
    (one_line, (Shape("中"), Shape("\u200d"))),
    (visible, (Shape("\u200d"),)),
    (markdown_text, (Shape("```\n"),)),
    (understanding.quotations, (Shape("“"), Shape("「"), Shape("「」"))),
    (understanding.arithmetic, (Shape("+ ", "1"), Shape("1+"), Shape("1 "), Shape("% "))),
    (lambda given: understanding.unused(given, ()), (Shape("中"), Shape("ab "))),
    (lambda given: planner.result_text(given, "en"), (Shape("… [1 more characters ", "{"), Shape("\u3000"))),
    (lenient(participants._read), (Shape("[END]"), Shape("\t"), Shape("Assistant "), Shape("\n\n"))),
    (lenient(participants.read_output), (Shape("```\n"), Shape("Thought:\n"), Shape("*"), Shape("<"))),
    (
        rule_for,
        tuple(map(Shape, ("“", "plan ", "a day ", ", then ", "need a ", "break ", "Aa ", "三天", "先", "。再"))),
    ),
    (lambda given: list(blocks_of(given)), (Shape("## 2026-01-01 00:00:00 UTC · round 1 · b\n\nTask t\n"),)),
    (
        lenient(lambda given: convert_text("a.mmd", given)),
        (
            Shape(" ", "graph TD\nA --"),
            *(Shape(f"{kind}\n", "graph TD\n") for kind in ("A --> B", "A([", "x", "A -- x")),
        ),
    ),
    (lenient(lambda given: convert_text("a.yaml", given)), (Shape("- [", "a: "), Shape("  ANSWER.a()\n", "pdl: |\n"))),
    (lambda given: pieces_of([("name", given)], 8000), (Shape("a\n\n"), Shape("\\"))),
]
"""Functions that read what users, models, tools and documents say, each with shapes of its own."""


def test_no_pattern_is_quadratic() -> None:
    found = patterns()
    assert len(found) > 150
    slow = [
        f"{used.name} ({used.method}) on {shape}"
        for used in found
        if used.name not in BY_THEIR_READER
        for shape in used.shapes()
        if grows(used.read, shape)
    ]
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize(("read", "own"), READERS)
def test_no_reader_is_quadratic(read: Callable[[str], object], own: tuple[Shape, ...]) -> None:
    assert not [shape for shape in (*SHAPES, *own) if grows(read, shape)]


@pytest.mark.parametrize("slow", [r"\s+x", r"“[^”]*”"])
def test_the_judge_notices_a_quadratic_pattern(slow: str) -> None:
    shape = Shape("“" if slow[0] == "“" else " ")
    assert any(grows(re.compile(slow).search, shape, size=4_000) for _ in range(3))  # in doubt, it says no


def test_the_judge_lets_a_linear_pattern_pass() -> None:
    assert not grows(re.compile(r"(?<!\s)\s++x").search, Shape(" "))
