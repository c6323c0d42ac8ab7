"""Batches of rehearsals over HTTP: what is in the folder, and nothing beside it."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import segue
from segue.rehearsal import ConversationConfig, converse, write_log
from segue.rehearsal.batch import FILE, batch_of, log_file

from .serving import Served, ServerSettings

REPORT = {"batch": {"agents": "/home/ann/agents.toml"}, "judge": "", "missing": 1, "summary": {"calls": 5}}


@pytest.fixture
async def batches(tmp_path: Path) -> Path:
    """Two batches of two conversations: of one, one conversation ended and a report was written."""
    root = tmp_path / "rehearsals"
    config = ConversationConfig(
        workflow="travel_change", user_mode="rule_user", bot_mode="rule_bot", api_mode="backend"
    )
    for name in ("empty", "begun"):
        (root / name / "logs").mkdir(parents=True)
        batch_of(config, n=2).write(root / name)
    first = next(batch_of(config, n=2).conversations())
    async with segue.open(":memory:") as app:
        write_log(await converse(app, first.config, conversation_id="talk"), log_file(root / "begun", first))
    (root / "begun" / "report.json").write_text(json.dumps(REPORT), encoding="utf-8")
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    (root / "notes.txt").write_text("no batch", encoding="utf-8")
    return root


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


@pytest.mark.parametrize(
    "path", ["none", "..", "%2e%2e", "notes.txt", "begun/none", "begun/..%2f..%2fmanifest", "empty/x"]
)
def test_nothing_beside_the_batches_is_read(viewer: httpx.Client, path: str) -> None:
    assert viewer.get(f"/api/rehearsals/{path}").status_code == 404


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
