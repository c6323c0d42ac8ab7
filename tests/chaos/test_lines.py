import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from segue.testing.chaos.traps import Lines, Unexpected, fail


def order(folder: Path) -> str:
    with (folder / "orders").open("a") as orders:
        orders.write("lamp\n")
    logging.getLogger("orders").info("ordered")
    try:
        return str(int("7"))
    finally:
        folder.exists()


def careful(folder: Path) -> str:
    (folder / "orders").write_text("lamp\n")
    try:
        return subprocess.list2cmdline(["a"])
    except OSError:
        return "unknown"


def _calling(call: Any, folder: Path) -> list[int]:
    lines = Lines()
    with lines.watched():
        call(folder)
    return lines.calling


def test_an_exception_may_come_from_what_calls_something_and_not_from_what_logs_or_tidies_up(tmp_path: Path) -> None:
    assert _calling(order, tmp_path) == [1, 2, 6]


@pytest.mark.parametrize("number", [1, 2, 6])
def test_an_exception_leaves_the_line_with_its_place(number: int, tmp_path: Path) -> None:
    with (
        pytest.raises(Unexpected, match=r"raised by segue chaos at test_lines.py:\d+"),
        Lines([number], fail).watched(),
    ):
        order(tmp_path)


def test_a_tool_that_expects_an_exception_catches_it(tmp_path: Path) -> None:
    with Lines([3], fail).watched():
        assert careful(tmp_path) == "unknown"
