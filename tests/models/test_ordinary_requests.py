"""Ordinary requests to the shipped agents with the offline planner: answered right, or declined in so many words."""

import json
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.prompts.catalogue import Language
from tests.tools.data.sales import write_sales

from .ordinary_requests import DATA_CHINESE, DATA_ENGLISH, TRAVEL, Ordinary


async def last_turn(
    app: App, agent: str, session: str, turns: tuple[str, ...]
) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """The calls of the last turn, and its answer."""
    answer = ""
    for turn in turns:
        answer = (await app.ask(turn, session_id=session, agent=agent))["answer"]
    history = await app.history(session)
    since = max(place for place, message in enumerate(history) if message["role"] == "user")
    made = [call["function"] for message in history[since:] for call in message.get("tool_calls") or ()]
    return [(call["name"], json.loads(call["arguments"])) for call in made], answer


async def check(agent: str, rows: tuple[Ordinary, ...]) -> None:
    async with segue.open(":memory:") as app:
        for number, row in enumerate(rows):
            calls, answer = await last_turn(app, agent, f"s{number}", row.turns)
            said = (row.turns, calls, answer)
            for name, arguments in row.calls:
                assert any(name == called and arguments.items() <= given.items() for called, given in calls), said
            assert row.declined or calls, said
            assert not (row.declined and calls), said
            assert all(part in answer for part in row.says), said
            assert not any(part in answer for part in row.hides), said


async def test_the_travel_agent() -> None:
    await check("travel", TRAVEL)


@pytest.mark.parametrize(("language", "rows"), [("en", DATA_ENGLISH), ("zh", DATA_CHINESE)])
async def test_the_data_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: Language, rows: tuple[Ordinary, ...]
) -> None:
    monkeypatch.setenv("SEGUE_DATA", str(tmp_path))
    write_sales(tmp_path, language)
    await check("data", rows)
