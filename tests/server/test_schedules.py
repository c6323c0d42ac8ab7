"""Messages for later, over HTTP."""

import time
from typing import get_args

import httpx
import pytest

from segue.core.agents import Agent
from segue.core.notifications import Kind
from segue.core.schedules import LATER
from segue.server.api.schedules import NotificationView
from tests.polling import wait_until

from .serving import BETA, Held, Served
from .shop import reply


@pytest.fixture(scope="module")
def own_agents(held: Held) -> list[Agent]:
    return [held.agent("a", reply)]


def test_a_message_is_sent_later_by_the_service(client: httpx.Client) -> None:
    body = {"message": "apples", "agent_id": "a", "session_id": "later", "mode": "direct"}
    made = client.post("/api/schedules", json={**body, "at": time.time() + 3})
    assert made.status_code == 201, made.text
    form = made.json()
    assert (form["session_id"], form["active"], form["agent_id"], form["every"]) == ("later", True, "a", None)
    path = f"/api/schedules/{form['schedule_id']}"
    wait_until(lambda: client.get(path).json()["last_task"] is not None)
    task = client.get(f"/api/tasks/{client.get(path).json()['last_task']}").json()["task"]
    assert (task["session_id"], task["message"]) == ("later", "apples")
    assert client.get(path).json()["next_run"] is None


def test_schedules_are_listed_paused_and_deleted_by_their_tenant(client: httpx.Client, served: Served) -> None:
    body = {"message": "m", "every": "0 9 * * mon", "timezone": "Europe/Berlin", "agent_id": "a"}
    once = {"Idempotency-Key": "weekly"}
    made = [client.post("/api/schedules", json=body, headers=once).json() for _ in range(2)]
    assert made[0] == made[1] and ":" not in made[0]["schedule_id"]
    named = f"/api/schedules/{made[0]['schedule_id']}"
    assert made[0]["schedule_id"] in [each["schedule_id"] for each in client.get("/api/schedules").json()["items"]]
    with served.client(headers=BETA) as stranger:
        assert stranger.get("/api/schedules").json()["items"] == []
        answers = [stranger.get(named), stranger.delete(named), stranger.patch(named, json={"active": False})]
        assert [each.status_code for each in answers] == [404] * 3
    paused = client.patch(named, json={"active": False}).json()
    assert (paused["active"], paused["next_run"]) == (False, None)
    assert client.patch(named, json={"active": True}).json()["next_run"] == made[0]["next_run"]
    assert client.delete(named).status_code == 204 and client.get(named).status_code == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "Give either a time"),
        ({"at": "2020-01-01"}, "has passed"),
        ({"every": "0 9 * *"}, "is not a cron expression"),
        ({"every": "0 9 * * *", "timezone": "Mars"}, "There is no time zone"),
        ({"at": "18:00", "agent_id": "nobody"}, "There is no agent"),
    ],
)
def test_bad_input_says_what_to_give(client: httpx.Client, body: dict[str, str], says: str) -> None:
    refused = client.post("/api/schedules", json={"message": "m", "agent_id": "a", **body})
    assert refused.status_code == 422 and says in refused.json()["error"]["message"]
    chinese = client.post("/api/schedules", json={"message": "m", **body}, headers={"Accept-Language": "zh"})
    assert says not in chinese.json()["error"]["message"]


def test_a_schedule_says_what_its_tasks_ask_a_person(client: httpx.Client, served: Served) -> None:
    body = {"message": "m", "at": "2090-01-01", "agent_id": "a", "mode": "plan", "ask_user": False, "review_plan": True}
    made = client.post("/api/schedules", json=body)
    assert made.status_code == 201, made.text
    stored = served.do(served.service.app.schedules.get(f"alpha:{made.json()['schedule_id']}"))
    assert stored.options["reply_options"] == {"ask_user": False, "review_plan": True, "remember": False}
    refused = client.post("/api/schedules", json={**body, "mode": "direct"})
    assert refused.status_code == 422 and "makes no plan to review" in refused.text


def test_the_schema_of_a_notification_names_every_kind() -> None:
    kind = NotificationView.model_json_schema()["properties"]["kind"]
    assert {*kind["enum"]} == {*get_args(Kind), *LATER, "stopped"}
