"""`import segue` is next to free: nothing heavy is loaded before it is used."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import BaseModel

import segue
from segue.core.events import Token
from tests.loopback import LoopbackServer, Text

HEAVY = {"langgraph", "langchain_core", "langchain_openai", "openai", "pydantic", "typer", "rich", "pytest"}


UNUSED = {
    "a2a", "duckdb", "fastapi", "filelock", "genai_prices", "jinja2", "matplotlib", "mcp", "numpy", "procrastinate",
    "prometheus_client", "prompt_toolkit", "psycopg", "segue.lifecycle", "segue.mcp",
    "segue.testing", "segue.server", "sse_starlette", "starlette", "uvicorn", "watchfiles",
}  # fmt: skip
"""What a first answer of an endpoint without a domain name, without an agents file, has no use for."""

_CHAT = """
import atexit, sys
from segue.cli import main
atexit.register(lambda: print(*sys.modules))
sys.argv = ["segue", "chat", "hi", "--mode", sys.argv[1], "--model", "openai:m", "--db", sys.argv[2]]
main()
"""

_COLLECT = """
import gc, sys
from contextlib import suppress
from segue.cli import main
sys.argv = ["segue", "--version"]
with suppress(SystemExit):
    main()
before = gc.get_threshold()[0]
gc.unfreeze()
gc.collect()
print(before, gc.get_threshold()[0], gc.get_freeze_count() > 0, len(gc.callbacks))
"""


def loaded_by(statement: str) -> set[str]:
    """The packages that a fresh interpreter holds after a statement."""
    program = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.slow
async def test_a_first_answer_loads_only_what_it_needs(tmp_path: Path) -> None:
    async with LoopbackServer([Text("Here it is.", usage={"prompt_tokens": 9, "completion_tokens": 3})]) as server:
        environ = {**os.environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-c", _CHAT, "direct", str(tmp_path / "a.db")]
        run = partial(subprocess.run, command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
        done = await asyncio.to_thread(run)
    answer, _, modules = done.stdout.rstrip().rpartition("\n")
    assert "Here it is." in answer
    assert {"langgraph", "openai"} <= set(modules.split())
    assert not UNUSED & set(modules.split())


@pytest.mark.slow
def test_a_command_collects_its_first_garbage_late_and_then_leaves_out_what_it_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _COLLECT], check=True, capture_output=True, text=True)
    assert done.stdout.split()[-4:] == ["500000", "10000", "True", "0"]


@pytest.mark.slow
def test_no_pattern_of_a_model_repeats_a_class_up_to_a_number() -> None:
    """Each takes megabytes and tens of milliseconds when it is imported: `max_length` says the same."""
    import_module("segue.server.app")
    patterns = [
        (f"{model.__module__}.{model.__name__}.{name}", pattern)
        for model in _models(BaseModel)
        if model.__module__.startswith("segue.")
        for name, field in model.model_fields.items()
        for limit in field.metadata
        if (pattern := getattr(limit, "pattern", None))
    ]
    assert "segue.core.agents.Agent.agent_id" in dict(patterns)
    assert not [name for name, pattern in patterns if re.search(r"\\w[^{]*\{\d*,\d+\}", pattern)]


def _models(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in kind.__subclasses__():
        yield model
        yield from _models(model)


@pytest.mark.slow
def test_import_segue_loads_nothing_heavy() -> None:
    loaded = loaded_by("import segue")
    assert "segue" in loaded
    assert not loaded & HEAVY


@pytest.mark.slow
def test_an_app_loads_no_client_of_a_model_that_it_does_not_use() -> None:
    assert "openai" not in loaded_by("import segue.app")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Agent", "Budget"])
def test_a_name_brings_its_module_when_it_is_used(name: str) -> None:
    assert "pydantic" in loaded_by(f"import segue; segue.{name}")


def test_every_public_name_is_there() -> None:
    assert all(getattr(segue, name) is not None for name in segue.__all__)
    assert segue.events.Token is Token
    assert issubclass(segue.errors.ThreadBusy, segue.SegueError)
