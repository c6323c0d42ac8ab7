"""Markdown as rules and as passages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PASSAGE_CHARS = 1_000
_HASHES = re.compile(r"#{1,6}\s+")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)、．]|[（(]?[一二三四五六七八九十]+[）)、.])\s*(?=\S)")
_FENCE = re.compile(r"```|~~~")


@dataclass(frozen=True)
class Passage:
    """A piece of a file: `title` is its heading path."""

    title: str
    text: str


def rules_of(text: str) -> list[str]:
    """Each item of a list and each paragraph; headings only say where they are."""
    rules: list[list[str]] = []
    continued = False
    for line in text.splitlines():
        stripped = line.strip()
        item = _ITEM.match(line)
        if not stripped or _heading(stripped) is not None:
            continued = False
        elif item or not continued:
            rules.append([line[item.end() :].strip() if item else stripped])
            continued = True
        else:
            rules[-1].append(stripped)
    return [" ".join(lines) for lines in rules]


def passages_of(text: str, name: str) -> Iterator[Passage]:
    """The paragraphs below each heading, put together and cut to about a thousand characters."""
    heading, kept = "", ""
    fenced = False
    for block in _blocks(text):
        found = None if fenced else _heading(block)
        if _FENCE.match(block.lstrip()):
            fenced = len(_FENCE.findall(block)) % 2 == 1
        if found is not None or len(kept) + len(block) > PASSAGE_CHARS:
            yield from _cut(kept, name, heading)
            kept = ""
        if found is not None:
            heading = found
        else:
            kept = f"{kept}\n\n{block}".strip()
    yield from _cut(kept, name, heading)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs; a heading is one of its own."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line.strip() or _heading(line) is not None:
            if block:
                yield "\n".join(block)
            block = []
            if line.strip():
                yield line.strip()
        else:
            block.append(line.rstrip())


def _heading(text: str) -> str | None:
    """The words of a heading, without the hashes around them; None where the text is not one."""
    hashes = _HASHES.match(text)
    if hashes is None:
        return None
    words = text[hashes.end() :].removesuffix("\n").rstrip("#").rstrip()
    return None if "\n" in words else words


def _cut(text: str, name: str, heading: str) -> Iterator[Passage]:
    title = f"{name} › {heading}" if heading else name
    for start in range(0, len(text), PASSAGE_CHARS):
        yield Passage(title, text[start : start + PASSAGE_CHARS])
