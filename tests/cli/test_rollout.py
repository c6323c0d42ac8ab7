"""`segue rollout`: which tasks it checks and changes."""

import json
from typing import Any

from .conftest import AGENTS, Shell

OLD, NEW = ("--agents", "agents.toml"), ("--agents", "new.toml")


def waiting(pages: Shell) -> list[str]:
    """Two tasks of version 1 and one of another agent that wait for an approval; new.toml has version 2."""
    text = AGENTS.replace('agent_id = "shop"', 'agent_id = "shop"\nversion = "{version}"')
    other = text[text.rindex("[[agent]]") :].replace('"shop"', '"other"')
    (pages.folder / "agents.toml").write_text((text + other).format(version="1"), encoding="utf-8")
    (pages.folder / "new.toml").write_text((text + other).format(version="2"), encoding="utf-8")
    for session, agent in (("a", "shop"), ("b", "shop"), ("c", "other")):
        done = pages("chat", "refund 50", "--agent", agent, "--session", session, *OLD)
        assert done.returncode == 3, done.stderr
    return [row["task_id"] for row in reversed(pages.rows("tasks"))]


def checked(pages: Shell, *arguments: str) -> list[str]:
    done = pages("rollout", *arguments, "--check", "--json", *NEW)
    return [task["task_id"] for task in json.loads(done.stdout)["tasks"]]


def choices(pages: Shell, *arguments: str) -> Any:
    done = pages("rollout", *arguments, "--json", *OLD)
    assert done.returncode == 0, done.stderr
    return {row["agent_id"]: (row["tasks"], row["on_upgrade"]) for row in json.loads(done.stdout)}


def test_the_tasks_that_are_named_are_checked_and_changed(pages: Shell) -> None:
    first, second, other = waiting(pages)
    assert checked(pages) == [first, second, other]
    assert checked(pages, second[:12]) == [second]
    assert checked(pages, first, other, "--agent", "other") == [other]
    assert checked(pages, first, "--version", "2") == []
    assert choices(pages, first, "--version", "2", "--pin") == {}
    assert choices(pages, first, other, "--agent", "shop", "--pin") == {"shop": ({"waiting": 1}, {"pin": 1})}
    assert choices(pages) == {"shop": ({"waiting": 2}, {"pin": 1}), "other": ({"waiting": 1}, {})}
    assert choices(pages, other) == {"other": ({"waiting": 1}, {})}


def test_a_task_that_has_ended_is_not_checked(pages: Shell) -> None:
    first, *_ = waiting(pages)
    assert pages("cancel", first, *OLD).returncode == 0
    done = pages("rollout", first, "--check", *NEW)
    assert done.returncode == 1
    assert b"is cancelled: only unfinished tasks can be checked." in done.stderr
