"""`import segue` is next to free: nothing heavy is loaded before it is used."""

import subprocess
import sys

import pytest

import segue
from segue.core.events import Token

HEAVY = {"langgraph", "langchain_core", "langchain_openai", "openai", "pydantic", "typer", "rich", "pytest"}


def loaded_by(statement: str) -> set[str]:
    """The packages that a fresh interpreter holds after a statement."""
    program = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


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
