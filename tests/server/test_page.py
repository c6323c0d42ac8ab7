"""The web page's files: reachable without a key, revalidated, and under a policy that lets nothing else in."""

import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote, urljoin

import httpx
import pytest

from segue.core.task import ACTIVE, OPEN, TaskStatus
from segue.nodes.digest import _ORDER, Kind
from segue.prompts.catalogue import catalogue
from segue.server.app import PAGE, PAGE_DOCUMENTS

from .serving import BETA, Json, Served, chat

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


# The page's sources: vendored files are unchanged, both languages say the same, and the page is small.


FIRST_LOAD_BYTES = 168_000
LISTED = re.compile(r"^\| `(\S+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)
TEXT = re.compile(r'^  "([\w.]+)":\s*"(.*)",?$', re.MULTILINE)
IMPORT = re.compile(r'^(?:import|export)\b[^;]*?from "(\.[^"]+)";', re.MULTILINE)
SOURCE_LINK = re.compile(r'(?:src|href)="page/([^"]+)"')


def texts(language: str) -> dict[str, str]:
    files = [PAGE / f"texts/{language}{part}.js" for part in ("", "-more", "-panels")]
    return dict(TEXT.findall("".join(file.read_text(encoding="utf-8") for file in files)))


def test_what_is_shown_first_needs_no_text_of_the_panels() -> None:
    panels = {*dict(TEXT.findall((PAGE / "texts/en-panels.js").read_text(encoding="utf-8")))}
    assert panels
    for file in (*PAGE.glob("*.js"), *PAGE.glob("components/*.js"), *PAGE.glob("state/*.js")):
        named = set(re.findall(r'"([\w.]+)"', file.read_text(encoding="utf-8")))
        assert not named & panels, file


def test_what_is_loaded_first_needs_no_text_that_is_loaded_later() -> None:
    later = {*texts("en")} - {*dict(TEXT.findall((PAGE / "texts/en.js").read_text(encoding="utf-8")))}
    for file in first_loaded():
        if file.endswith(".js") and not file.startswith("texts/"):
            assert not later & set(re.findall(r'\bt\("([\w.]+)"', (PAGE / file).read_text(encoding="utf-8"))), file


def test_vendored_files_are_those_that_the_readme_lists() -> None:
    listed = dict(LISTED.findall((PAGE / "vendor/README.md").read_text(encoding="utf-8")))
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (PAGE / "vendor").iterdir()
        if file.suffix == ".js"
    }
    assert found == listed


def test_each_text_exists_in_both_languages_with_the_same_values() -> None:
    english, chinese = texts("en"), texts("zh")
    assert len(english) > 100
    assert english.keys() == chinese.keys()
    differing = [
        key
        for key, text in english.items()
        if set(re.findall(r"{\w+}", text)) != set(re.findall(r"{\w+}", chinese[key]))
    ]
    assert not differing


def test_each_text_that_a_component_names_exists() -> None:
    known = texts("en")
    for file in PAGE.rglob("*.js"):
        for key in re.findall(r'\bt\("([\w.]+)"', file.read_text(encoding="utf-8")):
            assert key in known, f"{file}: {key}"


def test_the_page_has_the_statuses_of_tasks() -> None:
    turn = (PAGE / "state/turn.js").read_text(encoding="utf-8")
    active, more = (
        re.findall(r'"(\w+)"', found) for found in re.findall(r"^export const \w+ = new Set\(\[(.*)\]", turn, re.M)
    )
    assert (set(active), {*active, *more}) == (ACTIVE, OPEN), (
        "ACTIVE and OPEN of state/turn.js are those of core/task.py"
    )
    outcomes = (PAGE / "components/outcome.js").read_text(encoding="utf-8").partition("const OUTCOMES")[2]
    assert {*re.findall(r"^  (\w+): ", outcomes, re.M)} == {*TaskStatus}, "OUTCOMES of components/outcome.js has each"
    assert texts("en").keys() >= {f"status.{status}" for status in TaskStatus}


def test_the_page_has_the_kinds_of_a_digests_entries() -> None:
    digest = (PAGE / "panels/parts/digest.js").read_text(encoding="utf-8")
    listed = re.findall(r'"(\w+)"', digest.partition("const KINDS = [")[2].partition("]")[0])
    assert listed == [*_ORDER], "KINDS of panels/parts/digest.js are _ORDER of nodes/digest.py"
    assert {*_ORDER} == {*get_args(Kind)}
    for language in ("en", "zh"):
        assert texts(language).keys() >= {f"digest.{kind}" for kind in _ORDER}
        assert catalogue(language)["task"].keys() >= {f"digest_{kind}" for kind in _ORDER}


def test_no_text_is_left_that_no_component_names() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in PAGE.rglob("*.js") if file.parent.name != "texts")
    sources += (PAGE / "texts/index.js").read_text(encoding="utf-8")
    named, begun = ({*re.findall(pattern, sources)} for pattern in (r'"([\w.]+)"', r"`(\w+)\.\w*\$"))
    assert not [key for key in texts("en") if key not in named and key.split(".")[0] not in begun]


def first_loaded() -> set[str]:
    """The files that the page loads before anything is opened, in one language, by their path in the folder."""
    open_files = [
        *SOURCE_LINK.findall((PAGE / "index.html").read_text(encoding="utf-8")),
        "index.html",
        "icons.svg",
        "texts/zh.js",
    ]
    found: set[str] = set()
    while open_files:
        name = open_files.pop()
        if name in found:
            continue
        found.add(name)
        if name.endswith(".js"):
            file = PAGE / name
            for link in IMPORT.findall(file.read_text(encoding="utf-8")):
                open_files.append((file.parent / link).resolve().relative_to(PAGE).as_posix())
    return found


def test_the_page_is_small() -> None:
    loaded = first_loaded()
    assert {"app.js", "components/sidebar.js", "vendor/signals-core.js", "styles/base.css"} <= loaded
    assert sum((PAGE / name).stat().st_size for name in loaded) < FIRST_LOAD_BYTES


@pytest.mark.parametrize("ending", ["js", "css"])
def test_no_file_is_long(ending: str) -> None:
    long = {
        file.name: lines
        for file in PAGE.rglob(f"*.{ending}")
        if "vendor" not in file.parts and (lines := file.read_text(encoding="utf-8").count("\n")) > 300
    }
    allowed = {"en.js", "zh.js", "en-panels.js", "zh-panels.js"}
    assert long.keys() <= allowed, long


# Lists as pages: what `next` leads to, over the routes of every list, and HEAD wherever GET is.


AT_ONCE = {"/api/agents", "/api/models", "/api/modes", "/api/workflows"}
"""Lists as long as what is configured: one page."""
PLACES: dict[str, Any] = {"session_id": "one"}


@pytest.fixture(scope="module")
def routes(client: httpx.Client) -> dict[str, Json]:
    """The GET routes that need no id of what is not there, by their path."""
    chat(client, "2+2", session_id="one")
    task = client.get("/api/sessions/one/tasks").json()["items"][0]["task_id"]
    filled = {"{session_id}": "one", "{task_id}": task, "{agent_id}": "travel", "{user_id}": "ann", "{name}": "react"}
    found = {}
    for template, methods in client.get("/openapi.json").json()["paths"].items():
        path = template
        for name, value in filled.items():
            path = path.replace(name, value)
        if "get" in methods and "{" not in path:
            found[path] = methods["get"]
    return found


def _walk(client: httpx.Client, path: str, limit: int) -> list[Json]:
    items, place = [], ""
    for _ in range(50):
        page = client.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{place}").json()
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next"] is None:
            return items
        place = f"&before={quote(str(page['next']))}"
    raise AssertionError("the pages do not end")


def test_every_session_is_reached_though_one_is_deleted_and_one_is_pinned_meanwhile(client: httpx.Client) -> None:
    names = [f"p{number}" for number in range(7)]
    for name in names:
        assert client.post("/api/sessions", json={"session_id": name, "title": "paged"}).status_code == 201
    chat(client, "2+2", session_id="p1")
    client.patch("/api/sessions/p3", json={"pinned": True})
    listed = [row["session_id"] for row in client.get("/api/sessions?q=paged").json()["items"]]
    assert listed[:2] == ["p3", "p1"] and sorted(listed) == names
    assert [row["session_id"] for row in _walk(client, "/api/sessions?q=paged", 2)] == listed
    first = client.get("/api/sessions?q=paged&limit=3").json()
    client.delete(f"/api/sessions/{listed[2]}")
    rest = client.get("/api/sessions", params={"q": "paged", "before": first["next"]}).json()["items"]
    assert [row["session_id"] for row in rest] == listed[3:]
    for name in names:
        client.delete(f"/api/sessions/{name}")


def test_a_page_holds_no_session_of_another_tenant(client: httpx.Client) -> None:
    for number in range(3):
        client.post("/api/sessions", json={"session_id": f"b{number}"}, headers=BETA)
    before = client.get("/api/sessions?limit=1", headers=BETA).json()["next"]
    mine = {row["session_id"] for row in _walk(client, "/api/sessions", 500)}
    assert {row["session_id"] for row in client.get("/api/sessions", params={"before": before}).json()["items"]} <= mine


def test_schedules_are_paged_in_their_order(client: httpx.Client) -> None:
    for seconds in (50, 20, 40, 10, 30):
        client.post("/api/schedules", json={"message": "hi", "at": time.time() + 3600 * seconds}).raise_for_status()
    whole = client.get("/api/schedules").json()["items"]
    assert len(whole) == 5 and _walk(client, "/api/schedules", 2) == whole


def test_every_list_is_a_page_and_refuses_what_is_none_of_its_pages(
    client: httpx.Client, routes: dict[str, Json]
) -> None:
    lists = 0
    for path, operation in routes.items():
        if not path.startswith("/api/") or "items" not in client.get(path, timeout=60).text[:20]:
            continue
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        if path not in AT_ONCE and not path.endswith("/timeline"):
            assert "limit" in names and names & {"before", "after"}, path
            lists += 1
    assert lists > 10
    for before in ("x", "[]", "[1]", '[0,1e999,"\\ud800"]', '[0,NaN,"a"]', "[" * 900):
        answered = client.get("/api/sessions", params={"before": before})
        assert answered.status_code in (200, 422), (before, answered.text)
    refused = client.get("/api/sessions", params={"before": "one"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (422, "NoSuchPage")


def test_head_answers_as_get_does_without_the_body(client: httpx.Client, routes: dict[str, Json]) -> None:
    paths = [*routes, "/", "/docs", "/page/app.js", "/openapi.json", "/.well-known/agent-card.json", "/nowhere"]
    assert {"/healthz", "/readyz", "/metrics", "/v1/models"} <= {*paths}
    assert any(path.endswith("/stream") for path in paths)
    for path in paths:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers.get("content-type") == got.headers.get("content-type"), path
