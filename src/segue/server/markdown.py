"""Markdown as HTML that is safe to show."""

import re
from collections.abc import Sequence
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "hr", "img", "li", "ol", "p", "pre", "s", "strong", "ul"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "tbody", "td", "th", "thead", "tr"),
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "img": {"alt", "src"},
    "ol": {"start"},
    "td": {"class"},
    "th": {"class"},
}
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
_DOLLARS = re.compile(r"(?<![\w$])\$(?![\s$])([^$]{0,1000}?[^\s$\\])\$(?![\w$])")
"""A formula; neither of its dollars is beside a word: $5 and $10 are prices, $HOME/$USER is a path."""
_DELIMITERS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_INLINE_CHARS = 4_000
"""Characters that are searched for the end of a formula within a line or paragraph."""
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_ALIGNMENTS = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}


_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    attribute_filter=lambda tag, name, value: None if name == "href" and value[:5].lower() == "data:" else value,
    url_schemes={"http", "https", "mailto", "data"},
    url_relative="deny",
    link_rel="noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


def render(text: str) -> str:
    """Render tables, lists, code, links and pictures; HTML in the text is shown as text.

    Formulas are `code` elements of the class `math`, with `display` where they stand alone. An image of another host is
    a link to it: what loads it tells that host, and whoever wrote its address, that it was read.
    """
    return _CLEANER.clean(_MARKDOWN.render(text))


def _align_by_class(state: StateCore) -> None:
    """Name a cell's alignment by a class: the page's policy forbids style attributes."""
    for token in state.tokens:
        if alignment := _ALIGNMENTS.get(str(token.attrs.pop("style", ""))):
            token.attrs["class"] = alignment


def _draw_boxes(state: StateCore) -> None:
    """Show a task list's brackets as boxes."""
    for item, token in zip(state.tokens, state.tokens[2:], strict=False):  # a paragraph opens between the two
        first = token.children[0] if token.children else token
        if item.type == "list_item_open" and first.type == "text":
            first.content = _BOXES.get(first.content[:4], first.content[:4]) + first.content[4:]


def _image(_: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    address, name = str(tokens[index].attrs["src"]), escapeHtml(tokens[index].content)
    if _PICTURE.fullmatch(address):
        return f'<img src="{address}" alt="{name}">'
    return f'<a href="{escapeHtml(address)}">{name or escapeHtml(address)}</a>'


def _inline_math(state: StateInline, silent: bool) -> bool:
    begin, mark = state.pos + 2, state.src[state.pos : state.pos + 2]
    if close := _DELIMITERS.get(mark):
        end = state.src.find(close, begin + 1, begin + _INLINE_CHARS)
        text, after = state.src[begin:end], end + 2
    elif found := _DOLLARS.match(state.src, state.pos):
        end, text, after = found.end(), found[1], found.end()
    else:
        return False
    if end < 0:
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.content = text
        token.info = "display" if mark in ("$$", "\\[") else ""
    state.pos = after
    return True


def _block_math(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A formula whose delimiters begin and end a line."""
    lines = [state.getLines(first, first + 1, state.blkIndent, False).strip()]
    close = _DELIMITERS.get(lines[0][:2], "")
    unclosed = f"unclosed {close} before line {end}"
    if close in ("", "\\)") or unclosed in state.env:
        return False
    lines[0] = lines[0][2:]
    while not lines[-1].endswith(close):
        number = first + len(lines)
        if number >= end:
            state.env[unclosed] = True  # no later line needs to be asked
            return False
        lines.append(state.getLines(number, number + 1, state.blkIndent, False).strip())
    if not silent:
        token = state.push("math", "", 0)
        token.content = "\n".join(lines)[:-2]
        token.info = "display"
        token.block = True
    state.line = first + len(lines)
    return True


def _math(_: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    html = f'<code class="{" ".join(["math", token.info]).strip()}">{escapeHtml(token.content.strip())}</code>'
    return f"<p>{html}</p>\n" if token.block else html


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_MARKDOWN.core.ruler.push("align_by_class", _align_by_class)
_MARKDOWN.core.ruler.push("draw_boxes", _draw_boxes)
_MARKDOWN.add_render_rule("image", _image)
_MARKDOWN.inline.ruler.before("escape", "math", _inline_math)
_MARKDOWN.block.ruler.before("fence", "math", _block_math, {"alt": ["paragraph", "reference", "blockquote", "list"]})
_MARKDOWN.add_render_rule("math", _math)
