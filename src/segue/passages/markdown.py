"""Markdown as rules and as passages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PASSAGE_CHARS = 1_000
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)、．]|[（(]?[一二三四五六七八九十]+[）)、.])\s*(?=\S)")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True)
class Passage:
    """A piece of a file: `title` is its heading path."""

    title: str
    text: str


def rules_of(text: str) -> list[str]:
    """Each item of a list and each paragraph; headings only say where they are."""
    rules: list[str] = []
    continued = False
    for line in text.splitlines():
        stripped = line.strip()
        item = _ITEM.match(line)
        if not stripped or _HEADING.match(stripped):
            continued = False
        elif item or not continued:
            rules.append(line[item.end() :].strip() if item else stripped)
            continued = True
        else:
            rules[-1] = f"{rules[-1]} {stripped}"
    return rules


def passages_of(text: str, name: str) -> Iterator[Passage]:
    """The paragraphs below each heading, put together and cut to about a thousand characters."""
    heading, kept = "", ""
    fenced = False
    for block in _blocks(text):
        found = None if fenced else _HEADING.match(block)
        if _FENCE.match(block):
            fenced = len(_FENCE.findall(block)) % 2 == 1
        if found or len(kept) + len(block) > PASSAGE_CHARS:
            yield from _cut(kept, name, heading)
            kept = ""
        if found:
            heading = found[1]
        else:
            kept = f"{kept}\n\n{block}".strip()
    yield from _cut(kept, name, heading)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs; a heading is one of its own."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line.strip() or _HEADING.match(line):
            if block:
                yield "\n".join(block)
            block = []
            if line.strip():
                yield line.strip()
        else:
            block.append(line.rstrip())


def _cut(text: str, name: str, heading: str) -> Iterator[Passage]:
    title = f"{name} › {heading}" if heading else name
    for start in range(0, len(text), PASSAGE_CHARS):
        yield Passage(title, text[start : start + PASSAGE_CHARS])
