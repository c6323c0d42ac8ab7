"""Each promise of docs/security.md names tests, and they exist."""

import re
from pathlib import Path

from tests.cases import cases

ROOT = Path(__file__).parents[2]
PROMISES = re.findall(
    r"(?m)^\| (?!promise|---)(.+?) \| (.+?) \|$", (ROOT / "docs/security.md").read_text(encoding="utf-8")
)
_TEST = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)::(test_\w+)`")


def test_there_are_promises() -> None:
    assert len(PROMISES) > 20


@cases("promise, tests", PROMISES)
def test_a_promise_names_tests_that_exist(promise: str, tests: str) -> None:
    named = _TEST.findall(tests)
    assert tests == ", ".join(f"`{file}::{name}`" for file, name in named), promise
    for file, name in named:
        assert re.search(rf"(?m)^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8")), (file, name)
