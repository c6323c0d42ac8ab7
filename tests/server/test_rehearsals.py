"""Batches of rehearsals over HTTP: what is in the folder, and nothing beside it."""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import segue
from segue.testing.rehearsal import ConversationConfig, converse, write_log
from segue.testing.rehearsal.batch import FILE, batch_of, log_file

from .serving import Served, ServerSettings

REPORT = {"batch": {"agents": "/home/ann/agents.toml"}, "judge": "", "missing": 1, "summary": {"calls": 5}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches of two conversations: of one, one conversation ended and a report was written."""
    root = tmp_path_factory.mktemp("made")
    config = ConversationConfig(
        workflow="travel_change", user_mode="rule_user", bot_mode="rule_bot", api_mode="backend"
    )
    for name in ("empty", "begun"):
        (root / name / "logs").mkdir(parents=True)
        batch_of(config, n=2).write(root / name)
    first = next(batch_of(config, n=2).conversations())

    async def talk() -> None:
        async with segue.open(":memory:") as app:
            write_log(await converse(app, first.config, conversation_id="talk"), log_file(root / "begun", first))

    asyncio.run(talk())
    (root / "begun" / "report.json").write_text(json.dumps(REPORT), encoding="utf-8")
    (root / "notes.txt").write_text("no batch", encoding="utf-8")
    return root


@pytest.fixture
def batches(made: Path, tmp_path: Path) -> Path:
    """The same in a folder of one's own, beside a file that is none of theirs."""
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    return Path(shutil.copytree(made, tmp_path / "rehearsals"))


@pytest.fixture
def viewer(batches: Path, tmp_path: Path) -> Iterator[httpx.Client]:
    settings = ServerSettings(rehearsals=batches)
    with Served(tmp_path / "segue.db", settings) as served, served.client() as client:
        yield client


def test_batches_and_a_conversation_of_one(viewer: httpx.Client, batches: Path) -> None:
    listed = {batch["name"]: batch for batch in viewer.get("/api/rehearsals").json()["items"]}
    assert {name: (batch["conversations"], batch["ended"]) for name, batch in listed.items()} == {
        "begun": (2, 1),
        "empty": (2, 0),
    }
    assert listed["begun"]["report"] == {"summary": {"calls": 5}} and listed["empty"]["report"] is None
    begun = viewer.get("/api/rehearsals/begun").json()
    assert begun["workflow"] == "travel_change"
    assert begun["report"] == {"judge": "", "missing": 1, "summary": {"calls": 5}}
    (log,) = (batches / "begun" / "logs").iterdir()
    talk = viewer.get(f"/api/rehearsals/begun/{log.stem}").json()
    assert [said["role"] for said in talk["utterances"]][:2] == ["USER", "BOT"]
    assert talk["ending"] == "user_ended"


def test_nothing_beside_the_batches_is_read(viewer: httpx.Client) -> None:
    for path in ("none", "..", "%2e%2e", "notes.txt", "begun/none", "begun/..%2f..%2fmanifest", "empty/x"):
        assert viewer.get(f"/api/rehearsals/{path}").status_code == 404, path


def test_a_damaged_report_is_named(viewer: httpx.Client, batches: Path) -> None:
    (batches / "begun" / "report.json").write_text("[1", encoding="utf-8")
    refused = viewer.get("/api/rehearsals/begun")
    assert refused.status_code == 422 and "report.json cannot be read" in refused.json()["error"]["message"]


def test_a_batch_that_cannot_be_read_hides_no_other(viewer: httpx.Client, batches: Path) -> None:
    (batches / "empty" / FILE).write_text("{", encoding="utf-8")
    assert [batch["name"] for batch in viewer.get("/api/rehearsals").json()["items"]] == ["begun"]
    refused = viewer.get("/api/rehearsals/empty")
    message = refused.json()["error"]["message"]
    assert refused.status_code == 422 and f"The file {FILE} cannot be read" in message and str(batches) not in message


def test_without_a_folder_there_are_none(client: httpx.Client) -> None:
    assert client.get("/api/rehearsals").json() == {"items": [], "next": None}
    assert client.get("/api/rehearsals/any").json()["error"]["message"] == "There is no rehearsal 'any'."


@pytest.mark.slow
def test_a_batch_is_run_and_compared_with_another(viewer: httpx.Client) -> None:
    (travel,) = [each for each in viewer.get("/api/workflows").json()["items"] if each["name"] == "travel_change"]
    scenario, other = travel["scenarios"][:2]
    for name in ("one", "two"):
        body = {"name": name, "workflow": "travel_change", "n": 2, "scenarios": [scenario, other]}
        started = viewer.post("/api/rehearsals", json=body)
        assert (started.status_code, started.json()["running"]) == (202, True)
        assert viewer.post("/api/rehearsals", json={**body, "name": "third"}).status_code == 409
        while (batch := viewer.get(f"/api/rehearsals/{name}").json())["running"]:
            time.sleep(0.05)
        assert (batch["ended"], batch["error"]) == (2, "")
        assert list(batch["report"]["scenarios"]) == [scenario, other]
    other_batch = {"name": "one", "workflow": "device_return", "n": 1}
    assert viewer.post("/api/rehearsals", json=other_batch).status_code == 409
    found = viewer.get("/api/rehearsals/two/compare", params={"against": "one"}).json()
    assert [row["scenario"] for row in found["scenarios"]] == [scenario, other]
    assert [row["a"]["success"] == row["b"]["success"] for row in found["conversations"]] == [True, True]
    assert viewer.get("/api/rehearsals/two/compare", params={"against": "empty"}).status_code == 422


def test_a_batch_that_names_what_is_not_there_is_refused(viewer: httpx.Client, batches: Path) -> None:
    body = {"name": "new", "workflow": "travel_change", "n": 1}
    for wrong in (
        {"scenarios": ["none"]},
        {"workflow": "none"},
        {"bot_agent": "none"},
        {"name": "../new"},
        {"name": "𠀀" * 64},
        {"n": 0},
    ):
        assert viewer.post("/api/rehearsals", json={**body, **wrong}).status_code in (404, 422), wrong
    assert not (batches / "new").exists()


def test_a_batch_is_stopped(viewer: httpx.Client) -> None:
    body = {"name": "long", "workflow": "travel_change", "n": 50}
    assert viewer.post("/api/rehearsals", json=body).status_code == 202
    stopped = viewer.post("/api/rehearsals/long/stop").json()
    assert (stopped["running"], stopped["error"], stopped["ended"] < 50) == (False, "", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_mode": "this:s"},
        {"bot_mode": "this:s"},
        {"api_mode": "this:s"},
        {"api_mode": "tools", "tools": ["this:s"]},
        {
            "api_mode": "request",
            "apis": [{"name": "a", "url": "http://127.0.0.1:1/"}],
            "allowed_hosts": ["127.0.0.1"],
        },
    ],
    ids=["user", "bot", "api", "tools", "host"],
)
def test_a_batch_reaches_what_the_service_allows_only(
    viewer: httpx.Client, batches: Path, wrong: dict[str, object]
) -> None:
    """As a conversation does: no module is imported, and no host is called, that the settings do not name."""
    body = {"name": "new", "n": 1, "user_mode": "dummy_user", "bot_mode": "dummy_bot", **wrong}
    refused = viewer.post("/api/rehearsals", json=body)
    assert refused.status_code == 422, refused.text
    assert "this" not in sys.modules
    assert not (batches / "new").exists()
