"""The usage of tasks, and what the service says about itself, over HTTP."""

from collections.abc import Sequence
from importlib.metadata import version

import httpx
import pytest

from segue.core.agents import Agent, Prices
from tests.fakes import ScriptedChatModel, answer

from .serving import BETA, Served, chat


@pytest.fixture(scope="module")
def own_agents() -> Sequence[Agent]:
    prices = Prices(input=1.0, output=1.0, currency="EUR")
    return [
        Agent(agent_id="priced", model=ScriptedChatModel([answer("1"), answer("2")]), mode="react", prices=prices),
        Agent(agent_id="unpriced", model=ScriptedChatModel([answer("3")]), mode="react"),
    ]


def test_usage_by_day_agent_and_model_is_that_of_the_keys_own_tasks(client: httpx.Client, served: Served) -> None:
    for agent in ("priced", "priced", "unpriced"):
        chat(client, "hello", session_id=f"s-{agent}", agent_id=agent)
    found = client.get("/api/usage", params={"days": 2, "utc_offset": 60}).json()
    assert (found["total"]["tasks"], found["total"]["calls"], found["total"]["cost"]) == (3, 3, None)
    assert [day["tasks"] for day in found["by_day"]] == [0, 3]
    by_agent = {row["agent"]: row for row in found["by_agent"]}
    assert (by_agent["unpriced"]["cost"], by_agent["unpriced"]["unpriced"]) == (None, 1)
    assert by_agent["priced"]["tasks"] == 2
    assert sum(row["tasks"] for row in found["by_model"]) == 3
    place = client.get("/api/sessions/s-priced/timeline").json()["items"][-1]["id"]
    client.post("/api/sessions/s-priced/fork", json={"checkpoint_id": place})
    assert client.get("/api/usage").json()["total"]["tasks"] == 3
    with served.client(headers=BETA) as stranger:
        assert stranger.get("/api/usage").json()["total"]["tasks"] == 0
    for wrong in ({"days": 0}, {"days": 367}, {"utc_offset": 1440}):
        assert client.get("/api/usage", params=wrong).status_code == 422


def test_the_service_says_what_it_is(client: httpx.Client, served: Served) -> None:
    about = client.get("/api/service").json()
    assert about["version"] == version("segue") and about["model"] == served.service.default_model
    settings = served.service.settings
    assert about["limits"]["requests_a_minute"] == settings.requests_a_minute
    assert about["limits"]["upload_bytes"] == settings.upload_bytes
