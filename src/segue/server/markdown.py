"""Markdown as HTML that is safe to show."""

from collections.abc import Sequence
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "tbody", "td", "th", "thead", "tr"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "td": {"class"}, "th": {"class"}}
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_ALIGNMENTS = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)


def render(text: str) -> str:
    """Render tables, lists, code and links; HTML in the text is shown as text, an image as a link to it."""
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


def _image_as_link(_: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    address = str(tokens[index].attrs["src"])
    return f'<a href="{escapeHtml(address)}">{escapeHtml(tokens[index].content or address)}</a>'


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_MARKDOWN.core.ruler.push("align_by_class", _align_by_class)
_MARKDOWN.core.ruler.push("draw_boxes", _draw_boxes)
_MARKDOWN.add_render_rule("image", _image_as_link)
