"""The pages that the site is built from: `docs/`, the README and what is generated."""

import re
import shutil
import tomllib
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import segue.core.errors

from .commands import describe_commands
from .events import describe_events, describe_ids
from .fields import (
    describe_agent,
    describe_allow_rule,
    describe_audit,
    describe_budget,
    describe_deadlines,
    describe_mcp_server,
    describe_oauth,
    describe_prices,
    describe_quotas,
    describe_receiver,
    describe_remote_agent,
    describe_schedule,
    describe_settings,
    describe_spend,
)
from .routes import describe_routes, describe_schemas, describe_statuses

ROOT = Path(__file__).parents[1]


def _example(file: Path) -> str:
    """A file of the examples as a block of code."""
    return f'```python title="{file.name}"\n{file.read_text(encoding="utf-8")}```'


GENERATED: dict[str, Callable[[], str]] = {
    "agent": describe_agent,
    "budget": describe_budget,
    "commands": describe_commands,
    "errors": lambda: f"```text\n{segue.core.errors.__doc__}```",
    "event-ids": describe_ids,
    "events": describe_events,
    "mcp-server": describe_mcp_server,
    "allow-rule": describe_allow_rule,
    "approval-deadlines": describe_deadlines,
    "receiver": describe_receiver,
    "remote-agent": describe_remote_agent,
    "oauth": describe_oauth,
    "audit": describe_audit,
    "prices": describe_prices,
    "quotas": describe_quotas,
    "schedule": describe_schedule,
    "routes": describe_routes,
    "schemas": describe_schemas,
    "settings": describe_settings,
    "spend": describe_spend,
    "statuses": describe_statuses,
    **{file.stem: partial(_example, file) for file in sorted((ROOT / "examples/migration").glob("*.py"))},
}
"""What takes the place of a page's `<!-- generated: name -->`, with all that is up to an `<!-- end of name -->`."""
_PLACE = re.compile(r"<!-- generated: ([\w-]+) -->(?:\n.*?\n<!-- end of \1 -->)?", re.DOTALL)
_TABLE = re.compile(r"<!-- generated: ([\w-]+) -->\n.*?\n<!-- end of \1 -->", re.DOTALL)
_NOTE = re.compile(r"<!-- repository only -->\n.*?\n<!-- end of repository only -->\n+", re.DOTALL)
"""What only those need who read the page where it lies."""
_HOME = "A Python engine for agents that survive crashes"
"""The title of the home page, before the site's name."""
_BARE = re.compile(r"(?m)^( +(?:[A-Z]\w+)(?:, [A-Z]\w+)*)\.$")
"""Errors of a docstring that are named without a description."""


def write_pages(out: Path) -> None:
    """Write the pages into an empty folder, links of the README and its like adapted to it."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(ROOT / "docs", out)
    for source, name in (
        ("README.md", "index.md"),
        ("README.zh.md", "index.zh.md"),
        ("CONTRIBUTING.md", "contributing.md"),
        ("CHANGELOG.md", "changes.md"),
    ):
        (out / name).write_text(_relocated((ROOT / source).read_text(encoding="utf-8")), encoding="utf-8")
    index = out / "index.md"
    index.write_text(f"---\ntitle: {_HOME}\n---\n\n{index.read_text(encoding='utf-8')}", encoding="utf-8")
    for page in out.rglob("*.md"):
        page.write_text(fill(page.read_text(encoding="utf-8"), page, out), encoding="utf-8")


def write_tables() -> None:
    """Rewrite the tables that the pages of `docs/` hold themselves."""
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if (updated := with_tables(text)) != text:
            page.write_text(updated, encoding="utf-8")


def with_tables(text: str) -> str:
    """A page of `docs/` with its tables as they should be."""
    return _TABLE.sub(
        lambda found: f"<!-- generated: {found[1]} -->\n\n{GENERATED[found[1]]()}\n\n<!-- end of {found[1]} -->", text
    )


def fill(text: str, page: Path, root: Path) -> str:
    """A page with what is generated, the version, and the script of its diagrams."""
    filled = _PLACE.sub(lambda found: GENERATED[found[1]](), _NOTE.sub("", text))
    filled += f"\n\n*Segue {version('segue')}*{{ .version }}\n"
    if "```mermaid" not in filled:
        return filled
    up = "../" * len(page.relative_to(root).parts[1:])
    return f'{filled}\n<script src="{up}mermaid.js"></script>\n'


def write_source(out: Path) -> None:
    """Write the package as a wheel has it, for the API's pages."""
    shutil.rmtree(out, ignore_errors=True)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package, folder in settings["tool"]["setuptools"]["package-dir"].items():
        target = out / package.replace(".", "/")
        target.mkdir(parents=True, exist_ok=True)
        for module in (ROOT / folder).glob("*.py"):
            text = module.read_text(encoding="utf-8")
            (target / module.name).write_text(
                _BARE.sub(r"\1: see [Errors](python.html#errors).", text), encoding="utf-8"
            )


def _relocated(text: str) -> str:
    """A page of the root folder with links that hold in the site."""
    for old, new in (
        ("](docs/", "]("),
        ("](README.md)", "](index.md)"),
        ("](README.zh.md)", "](index.zh.md)"),
        ("](CONTRIBUTING.md", "](contributing.md"),
        ("](CHANGELOG.md", "](changes.md"),
    ):
        text = text.replace(old, new)
    return re.sub(r"\[([^\]]*)\]\((?:examples|LICENSE|benchmarks)[^)]*\)", r"\1", text)
