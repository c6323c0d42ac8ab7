"""Markdown becomes HTML that shows everything and does nothing."""

import re
from html.parser import HTMLParser

import httpx
import pytest

from segue.server.markdown import render

from .serving import Json, chat

ACTIVE = {
    "script",
    "style",
    "iframe",
    "form",
    "input",
    "svg",
    "object",
    "embed",
    "link",
    "base",
    "meta",
    "video",
}
ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,<script>alert(1)</script>)",
    "[a](&#106;avascript:alert(1)) [b](vbscript:x) [c](file:///etc/passwd)",
    "![a](https://elsewhere.example/pixel.png) ![x](javascript:alert(1))",
    '[a](https://x.example "onmouseover=alert(1)") [b](<https://x.example/" onclick="alert(1)>)',
    "<a href='https://x.example' style='position:fixed' onclick='x()'>all</a>",
    '```python" onclick="alert(1)\nx\n```',
    "| a |\n|:-:|\n| <svg onload=alert(1)> |",
    "[x]: javascript:alert(1)\n\n[x] <javascript:alert(1)>",
]


class Elements(HTMLParser):
    """The elements of a document with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_in_it_acts(attack: str) -> None:
    for tag, attributes in Elements(render(attack)).found:
        assert tag not in ACTIVE
        assert not {*attributes} - {"href", "title", "class", "rel", "target", "start", "src", "alt"}
        assert re.match(r"data:image/(png|jpeg|gif|webp);base64,", attributes.get("src") or PIXEL)
        assert re.match(r"(https?|mailto):", attributes.get("href") or "https:")
        if tag == "a":
            assert (attributes["rel"], attributes["target"]) == ("noopener noreferrer", "_blank")


def test_html_is_shown_as_text_and_an_image_as_a_link() -> None:
    assert render("<b>bold</b>") == "<p>&lt;b&gt;bold&lt;/b&gt;</p>\n"
    assert 'href="https://x.example/a.png"' in (html := render("![A <map>](https://x.example/a.png)"))
    assert ">A &lt;map&gt;</a>" in html


PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize(
    ("text", "pictures"),
    [
        (f"![A <b>]({PIXEL})", 1),
        ("![A](data:image/svg+xml;base64,AA==)", 0),
        ("![A](https://x.example/a.png)", 0),
        (f"[A]({PIXEL})", 0),
        ("[A](DATA:image/png;base64,iVBORw0KGgo=)", 0),
    ],
)
def test_only_a_picture_that_comes_along_is_shown(text: str, pictures: int) -> None:
    found = Elements(render(text)).found
    shown = [attributes for tag, attributes in found if tag == "img"]
    assert shown == [{"src": PIXEL, "alt": "A <b>"}] * pictures
    assert not any((attributes.get("href") or "").lower().startswith("data:") for _, attributes in found)


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("$x^2$, \\(a<b\\) and $[0, 1)$", ["math: x^2", "math: a&lt;b", "math: [0, 1)"]),
        ("So\n$$\n- a\n= b\n$$\nit is", ["math display: - a\n= b"]),
        ("> \\[\n> x\n> \\]", ["math display: x"]),
        ("1. one\n   \\[ x \\]\n2. $$y$$", ["math display: x", "math display: y"]),
        ("It costs $5 and $10, $5–$10, **$5** or US$6, 5$ or 6$.", []),
        ("$HOME/$USER, \\$5$, `$x$`, $ x $, $$, \\[ and \\(", []),
        ("$$\nnever closed\n\ntext", []),
        ("```sh\necho $A$\n```", []),
    ],
)
def test_formulas_are_found_and_prices_are_text(text: str, formulas: list[str]) -> None:
    found = re.findall(r'<code class="(math[^"]*)">(.*?)</code>', render(text), re.DOTALL)
    assert [f"{kind}: {formula}" for kind, formula in found] == formulas


def test_tables_lists_and_code_are_kept() -> None:
    html = render("| a | b |\n|:--|--:|\n| 1 | **2** |\n\n3. three\n\n```python\nx < 1\n```\n\n~~no~~ `yes`\n")
    assert '<th class="left">a</th>' in html and '<td class="right"><strong>2</strong></td>' in html
    assert '<ol start="3">' in html and '<pre><code class="language-python">x &lt; 1\n</code></pre>' in html
    assert "<s>no</s> <code>yes</code>" in html and "style" not in html


def test_a_text_is_rendered_on_request(client: httpx.Client) -> None:
    assert client.post("/api/markdown", json={"text": "*yes*"}).json() == {"html": "<p><em>yes</em></p>\n"}
    assert client.post("/api/markdown", json={"text": "x" * 100_001}).status_code == 422
    assert client.post("/api/markdown", json={}).status_code == 422
    assert client.post("/api/markdown", json={"text": "x"}, headers={"Authorization": "Bearer no"}).status_code == 401


def test_answers_come_rendered_with_their_tasks(client: httpx.Client) -> None:
    result: Json = chat(client, "帮我规划北京3日游", mode="plan", session_id="rendered")[-1]["result"]
    expected = render(result["answer"])
    assert "<li>" in expected or "<p>" in expected
    (task,) = client.get("/api/sessions/rendered/tasks", params={"html": True}).json()["items"]
    assert task["html"] == expected
    path = f"/api/tasks/{result['task_id']}"
    assert client.get(path, params={"html": True}).json()["task"]["html"] == expected
    assert client.get(path).json()["task"]["html"] is None


def test_a_task_list_has_boxes() -> None:
    drawn = render("- [ ] pack **tea**\n- [x] book\n\n[ ] no item\n\n1. [X] paid\n\n   more\n2. `[ ] code`")
    assert re.findall(r"[☐☑] \w+", drawn) == ["☐ pack", "☑ book", "☑ paid"]
    assert drawn.count("[ ]") == 2
