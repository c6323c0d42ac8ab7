"""A text that would be links, images and HTML, where Markdown takes it for more than a text."""

from markdown_it import MarkdownIt

HOSTILE = (
    "[pay](javascript:alert(1)) [more](https://elsewhere.example) ![dot](https://elsewhere.example/dot.png) "
    "\\[both](javascript:1) <img src=https://elsewhere.example/x.png> &lt;b> ` | [late](https://elsewhere.example) `"
)


def check_inert(markdown: str) -> None:
    """The text is there as it was written, and nothing else came of it."""
    page = MarkdownIt("commonmark").enable("table").render(markdown)
    assert "elsewhere.example" in page and "<img" not in page
    links = [part.partition('"')[0] for part in page.split('<a href="')[1:]]
    assert all(link.startswith("logs/") for link in links), links
