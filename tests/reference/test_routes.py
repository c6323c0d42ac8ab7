"""Every route that the documentation names exists."""

import re

from reference.routes import openapi

from .blocks import PAGES

_NAMED = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[\w/{}.-]+)")
_CURL = re.compile(r"curl ((?:\\\n|[^\n])*)")


def template(path: str) -> str:
    """A path with every variable part alike, be it {task_id}, TASK_ID or {file:path}."""
    return re.sub(r"\{[^}]*\}|\b[A-Z]+_?ID\b|\bNAME\b", "{}", path.rstrip("/."))


def routes() -> set[tuple[str, str]]:
    return {(method.upper(), template(path)) for path, item in openapi()["paths"].items() for method in item}


def test_the_routes_that_prose_names_exist() -> None:
    named = {
        (method, template(path), page.name)
        for page in PAGES
        for method, path in _NAMED.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    known = routes()
    assert [each for each in sorted(named) if each[:2] not in known and each[1] != "/openapi.json"] == []


def test_the_routes_that_curl_calls_exist() -> None:
    commands = [command for page in PAGES for command in _CURL.findall(page.read_text(encoding="utf-8"))]
    called = {
        ("POST" if " -d " in command else "GET", template(re.findall(r"localhost:8000(/[^\s?']+)", command)[0]))
        for command in commands
    }
    patterns = [(method, re.escape(path).replace(r"\{\}", "[^/]+")) for method, path in routes()]
    for method, path in called:
        assert any(method == known and re.fullmatch(pattern, path) for known, pattern in patterns), path
    assert called
