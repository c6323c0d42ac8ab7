"""What the site generates is complete, and what it says by hand agrees with the code."""

import dataclasses
import re
from importlib.metadata import version
from pathlib import Path

from typer.testing import CliRunner

import segue
from reference.__main__ import broken, foreign
from reference.commands import commands, describe_commands
from reference.events import describe_events
from reference.fields import describe_fields
from reference.pages import GENERATED, with_tables, write_pages, write_source
from reference.routes import describe_routes, describe_schemas, openapi
from segue.checkpoints.leases import LEASE_SECONDS, POSTGRES_LEASE_SECONDS
from segue.cli import app
from segue.cli.exits import EXIT_CODES, FAILED, PAUSED, USAGE, WAITING
from segue.core.agents import Agent, Budget, McpServer, Prices
from segue.core.events import TYPES
from segue.core.flows import FlowConfig
from segue.core.json import DEEPEST
from segue.core.lifecycle import MOST_TASKS
from segue.core.plan import MAX_STEPS
from segue.models.local import CONTEXT_TOKENS
from segue.models.openai.faults import RetryPolicy
from segue.models.openai.model import CONNECT_SECONDS
from segue.nodes.model_call import MOST_ASKS
from segue.nodes.react import MOST_REPAIRS
from segue.nodes.react_prompt import MOST_SUCCESSES
from segue.runtime.run import MAX_QUEUED, MAX_RUNNING
from segue.runtime.runner import TAKEOVER_SECONDS
from segue.server import ServerSettings
from segue.server.frames import MOST
from segue.tools.bound_tool import CallContext, Marks
from segue.tools.data.sandbox import ROWS
from segue.tools.data.sources import MOST_BYTES, MOST_COLUMNS, SECONDS
from tests.cases import cases

from .blocks import PAGES, ROOT


def page(name: str) -> str:
    return (ROOT / "docs/reference" / name).read_text(encoding="utf-8")


def test_every_command_is_described_with_its_options() -> None:
    text = describe_commands()
    assert {"chat", "serve", "memory forget", "import"} <= commands().keys()
    for name, command in commands().items():
        section = text.split(f"## segue {name}\n")[1].split("\n## ")[0]
        options = [option for param in command.params if not getattr(param, "hidden", False) for option in param.opts]
        assert [option for option in options if option.startswith("--") and option not in section] == []


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    said = set(re.findall(r"segue\.(\w+)", page("python.md")))
    assert [name for name in segue.__all__ if name not in said | {"Event"}] == []


def test_every_event_is_described_with_its_fields() -> None:
    text = describe_events()
    for kind, event in TYPES.items():
        section = text.split(f"### `{kind}`\n")[1].split("\n### ")[0]
        assert event.__doc__ and event.__doc__.splitlines()[0] in section
        assert [
            name for name in event.__annotations__ if name not in ("type", "durable") and f"`{name}`" not in section
        ] == []


@cases("kind", [Agent, Budget, McpServer, Prices, ServerSettings])
def test_every_key_of_the_agents_file_and_every_setting_of_the_service_has_a_meaning(kind: type) -> None:
    rows = [line for line in describe_fields(kind).splitlines() if line.startswith("| `")]
    assert {re.findall(r"`(\w+)`", row)[0] for row in rows} >= set(kind.__annotations__) - {"model_config"}
    assert [row for row in rows if row.endswith("|  |")] == [], "give the field a docstring"


def test_every_route_and_schema_is_described() -> None:
    document, routes, schemas = openapi(), describe_routes(), describe_schemas()
    names = document["components"]["schemas"]
    assert routes.count("### ") == sum(map(len, document["paths"].values()))
    assert [name for name in names if f"### {name} " not in schemas] == []
    assert set(re.findall(r"\(#(\w+)\)", routes + schemas)) <= {name.lower() for name in names}


def test_every_mark_and_every_field_of_a_calls_context_is_documented() -> None:
    names = [field.name for kind in (Marks, CallContext) for field in dataclasses.fields(kind)]
    assert [name for name in names if f"`{name}`" not in page("tools.md")] == []


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    documented = re.findall(r"^\| `(\d+)` \|", page("exit-codes.md"), re.MULTILINE)
    assert documented == [str(code) for code in (0, FAILED, USAGE, WAITING, PAUSED)]
    assert re.findall(r"\d+", EXIT_CODES) == documented
    assert f"Exit codes: {EXIT_CODES}." in " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())


@cases(
    "row, values",
    [
        ("rounds of `react`", (Agent(agent_id="a").max_iteration,)),
        ("rounds of a flow", (FlowConfig(description="f").max_round,)),
        ("steps of a plan", (MAX_STEPS,)),
        ("subtasks of a goal", (MOST_TASKS,)),
        ("repairs of one failure", (MOST_REPAIRS,)),
        ("replies that cannot be read", (MOST_ASKS,)),
        ("equal calls that succeed", (MOST_SUCCESSES,)),
        ("attempts of one request", (RetryPolicy.attempts, RetryPolicy().first_delay)),
        ("connecting", (CONNECT_SECONDS,)),
        ("the first piece of a reply", (Agent(agent_id="a").read_timeout,)),
        ("a whole reply", (RetryPolicy.reply_timeout,)),
        ("a `Retry-After`", (RetryPolicy.max_retry_after,)),
        ("tokens of a local model", (CONTEXT_TOKENS,)),
        ("tasks that run at once in a process", (MAX_RUNNING,)),
        ("tasks that wait for them", (MAX_QUEUED,)),
        ("a lease of an owner", (LEASE_SECONDS, POSTGRES_LEASE_SECONDS)),
        ("between two looks of `segue serve`", (TAKEOVER_SECONDS,)),
        ("an answer or a document nested", (DEEPEST,)),
        ("a file", (MOST_BYTES >> 20, MOST_COLUMNS)),
        ("a query", (ROWS, SECONDS)),
        ("a frame of the stream", (MOST,)),
    ],
)
def test_the_limits_are_those_of_the_source(row: str, values: tuple[float, ...]) -> None:
    (limit,) = re.findall(rf"^\| {re.escape(row)}[^|]*\| ([^|]*)\|", page("limits.md"), re.MULTILINE)
    assert re.findall(r"\d+", limit)[: len(values)] == [f"{value:g}" for value in values]


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r'= "([\w/.-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8")))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages - named if not page.startswith("decisions/")} == set()


def test_the_pages_are_written_with_all_that_is_generated(tmp_path: Path) -> None:
    write_pages(tmp_path / "pages")
    texts = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "pages").rglob("*.md")}
    assert not [name for name, text in texts.items() if re.search("<!-- (generated|end of|repository)", text)]
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert set(re.findall(r"<!-- generated: ([\w-]+) -->", sources)) == GENERATED.keys()
    assert "](docs/" not in texts["index.md"]
    assert [name for name, text in texts.items() if f"*Segue {version('segue')}*" not in text] == []
    assert texts["index.md"].startswith("---\ntitle: "), "the site's name alone would be there twice"
    assert '<script src="mermaid.js">' in texts["architecture.md"]


@cases(
    "name, row",
    [
        ("agents-file.md", "| `agent_id` |"),
        ("events.md", "### `tool_call`"),
        ("http.md", "| `503` |"),
        ("limits.md", "| `upload_bytes` |"),
        ("python.md", "SegueError"),
        ("../guides/from-create-agent.md", "create_agent("),
        ("../guides/from-langgraph.md", "StateGraph("),
        ("../guides/from-openai-agents.md", "Runner.run("),
    ],
)
def test_the_tables_in_a_page_are_those_of_the_source(name: str, row: str) -> None:
    assert row in page(name)
    assert page(name) == with_tables(page(name)), "make docs writes them anew"


def test_a_bar_in_code_shows_no_escape() -> None:
    assert "zh\\|en" not in describe_commands()
    assert "<code>--language zh&#124;en</code>" in describe_commands()


def test_the_source_is_written_as_a_package(tmp_path: Path) -> None:
    write_source(tmp_path)
    assert (tmp_path / "segue/tools/registry.py").is_file()
    assert "UnknownTask, ThreadBusy, ModelError: see [Errors](python.html#errors)." in (
        tmp_path / "segue/app.py"
    ).read_text("utf-8")


def test_broken_links_and_what_is_loaded_from_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://example.com"></a><a href="a.html#x"></a><a href="../examples"></a>'
        '<script src="mermaid.js"></script><script src="https://cdn.example/x.js"></script>'
        '<link rel="stylesheet" href="https://fonts.example/x.css">',
        encoding="utf-8",
    )
    assert len(foreign(tmp_path)) == 2
    assert broken(tmp_path) == ["a.html: ../examples"]


# Every route that the documentation names exists.


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
