"""The web page's files: reachable without a key, revalidated, and under a policy that lets nothing else in."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from segue.server.app import PAGE, PAGE_DOCUMENTS

from .serving import Served

POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
LINK = re.compile(r'(?:src|href)="([^"#][^"]*)"')


@pytest.fixture(scope="module")
def visitor(served: Served) -> Iterator[httpx.Client]:
    """A client without a key."""
    with served.client() as client:
        yield client


@pytest.mark.parametrize("path", PAGE_DOCUMENTS)
def test_a_document_and_all_that_it_links_to_are_there(visitor: httpx.Client, path: str) -> None:
    document = visitor.get(path)
    assert (document.status_code, document.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert visitor.head(path).status_code == 200
    for link in LINK.findall(document.text):
        found = visitor.get(urljoin(path, link))
        assert found.status_code == 200, link
        assert found.headers["content-security-policy"] == POLICY, link


def test_scripts_and_styles_have_their_types(visitor: httpx.Client) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    one_of_each = {(file.parent, file.suffix): file for file in PAGE.rglob("*")}
    for file in one_of_each.values():
        if kind := kinds.get(file.suffix):
            response = visitor.get(f"/page/{file.relative_to(PAGE).as_posix()}")
            assert response.headers["content-type"] == f"{kind}; charset=utf-8", file


def test_a_file_is_sent_again_only_if_it_changed(visitor: httpx.Client) -> None:
    first = visitor.get("/")
    assert first.headers["cache-control"] == "no-cache"
    again = visitor.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["cache-control"]) == (304, b"", "no-cache")
    assert visitor.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/page/nothing.js", "/page/", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page//etc"]
)
def test_nothing_else_is_served(visitor: httpx.Client, path: str) -> None:
    refused = visitor.get(path)
    assert (refused.status_code, refused.json()["error"]["type"]) == (404, "NotFound")


@pytest.mark.parametrize("path", ["/", "/page/index.html", "/api/modes", "/healthz", "/nowhere"])
def test_every_response_has_the_security_headers(visitor: httpx.Client, path: str) -> None:
    headers = visitor.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_documents_hold_no_inline_script_or_style() -> None:
    for document in PAGE.rglob("*.html"):
        text = document.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:|data:", text), document


def test_only_this_machines_name_reaches_the_page_without_keys(tmp_path: Path) -> None:
    with Served(tmp_path / "segue.db") as served, served.client() as client:
        assert client.get("/").status_code == 200
        assert client.get("/", headers={"Host": "elsewhere.example"}).status_code == 421
