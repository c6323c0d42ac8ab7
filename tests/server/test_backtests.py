"""Backtests over HTTP: what they read, what they may name, and what becomes of them."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import segue
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError, UnknownThread
from segue.server.api.backtests import BacktestRequest, options_of
from segue.server.runs import State, begin
from segue.server.tenants import Tenant
from segue.testing.backtest import Backtest
from segue.testing.backtest.run import Progress
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.loopback import Gate, LoopbackServer

from .serving import ALPHA, BETA, KEYS, Json, Served, ServerSettings, chat

RAN: list[int] = []


@segue.tool
def refund(order: int) -> str:
    """Refund an order."""
    RAN.append(order)
    return f"refunded {order}"


def says(messages: Any) -> str:
    """Refunds an order once; carelessly another one."""
    text = str(messages)
    if "refunded" in text:
        return answer("Refunded.")
    return call_tool(("refund", {"order": 71 if "careless" in text else 17}))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[LoopbackServer]:
    """An endpoint that answers once its tests have ended."""
    end = threading.Event()
    with LoopbackServer([Gate("", "late", end)] * 20) as server:
        yield server
        end.set()


@pytest.fixture(scope="module")
def own_agents(endpoint: LoopbackServer) -> list[Agent]:
    older = Agent(agent_id="shop", version="1", prompt="Be careless.", mode="react", tools=(refund,))
    model = ScriptedChatModel(says)
    shop = older.model_copy(update={"version": "2", "prompt": "Be careful.", "model": model})
    slow = Agent(agent_id="slow", model="openai:slow", base_url=endpoint.base_url, api_key="secret-of-slow")
    return [shop.model_copy(update={"older": (older.model_copy(update={"model": model}),)}), slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backtests")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, own_agents: list[Agent], folder: Path) -> Iterator[Served]:
    """A service of two tenants, each with a session of the same name."""
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000, requests_a_minute=100_000, backtests=folder)
    with Served(tmp_path_factory.mktemp("served") / "segue.db", settings, agents=own_agents) as served:
        with served.client() as client:
            chat(client, "Refund my order", headers=ALPHA, session_id="mine", agent_id="shop")
            chat(client, "Thanks", headers=ALPHA, session_id="other", agent_id="shop")
            chat(client, "A secret of beta's", headers=BETA, session_id="mine", agent_id="shop")
        RAN.clear()
        yield served


def run(client: httpx.Client, name: str, headers: Json | None = None, **body: Any) -> Json:
    """A backtest that has ended."""
    started = client.post("/api/backtests", json={"name": name, **body}, headers=headers)
    assert started.status_code == 202, started.text
    assert started.json()["status"] in ("running", "done")
    while (view := client.get(f"/api/backtests/{name}", headers=headers).json())["status"] == "running":
        time.sleep(0.05)
    assert isinstance(view, dict)
    return view


CARELESS = [{"agent_id": "shop", "prompt": "Be careless."}]


def test_a_changed_prompt_is_compared_and_no_tool_runs(client: httpx.Client, served: Served) -> None:
    before = client.get("/api/sessions").json()
    view = run(client, "careless", sessions=["mine"], agents=CARELESS)
    assert (view["status"], view["done"], view["total"], view["error"]) == ("done", 1, 1, "")
    assert view["conclusion"] == "Out of 1 recorded task, 1 would have different effects."
    (task,) = view["report"]["tasks"]
    assert (task["session_id"], task["verdict"]) == ("mine", "other_effects")
    assert task["effects"]["changed"] == [{"name": "refund", "then": {"order": 17}, "now": {"order": 71}}]
    assert (view["report"]["models"], view["asked"]["agents"]) == ({"ScriptedChatModel": True}, CARELESS)
    assert (RAN, client.get("/api/sessions").json()) == ([], before)
    assert served.service.agents["shop"].prompt == "Be careful."
    in_chinese = client.get("/api/backtests/careless", headers={"Accept-Language": "zh"}).json()
    assert in_chinese["conclusion"] == "在 1 个录制的任务中，1 个会造成不同的改动。"


def test_an_unchanged_agent_is_the_same_and_a_version_is_taken_by_name(client: httpx.Client) -> None:
    same = run(client, "same", model="recorded", since="1h")
    assert same["conclusion"] == "Nothing would change: all 2 recorded tasks would behave the same."
    assert same["report"]["models"] == {"recorded": False}
    older = run(client, "older", agents=[{"agent_id": "shop", "version": "1"}], baseline=True)
    assert older["report"]["summary"]["other_effects"] == 2
    assert older["report"]["baseline"]["summary"]["same"] == 2
    confirmed = run(client, "confirmed", agents=[{"agent_id": "shop", "version": "1"}], confirm=True)
    (group,) = confirmed["report"]["confirmation"]["groups"]
    assert (group["tool"], group["new"], group["old"], group["exceeds_noise"]) == ("refund", 10, 0, True)
    listed = client.get("/api/backtests").json()["items"]
    assert {"same", "older"} <= {each["name"] for each in listed}
    assert all([*each["report"]] == ["summary"] for each in listed)


def test_a_cost_is_estimated_before_anything_is_answered(client: httpx.Client) -> None:
    body = {"name": "cost", "agents": [{"agent_id": "shop", "version": "1"}], "confirm": True}
    found = client.post("/api/backtests/estimate", json=body, headers=ALPHA)
    assert found.status_code == 200, found.text
    cost = found.json()
    assert (cost["turns"], cost["most_turns"]) == (2, 22)
    assert cost["text"].startswith("This answers 2 turns, with a confirmation up to 22.")
    assert client.get("/api/backtests/cost", headers=ALPHA).status_code == 404
    wrong = {"name": "cost", "agents": [{"agent_id": "nobody"}]}
    assert client.post("/api/backtests/estimate", json=wrong, headers=ALPHA).status_code == 422


def test_a_key_sees_its_own_sessions_and_backtests_only(client: httpx.Client) -> None:
    own = run(client, "own", headers=BETA, agents=CARELESS)
    assert [task["message"] for task in own["report"]["tasks"]] == ["A secret of beta's"]
    assert "secret" not in json.dumps(run(client, "whole", agents=CARELESS))
    assert client.get("/api/backtests/own").status_code == 404
    assert client.post("/api/backtests/own/stop").status_code == 404
    assert "own" not in {each["name"] for each in client.get("/api/backtests").json()["items"]}
    refused = client.post("/api/backtests", json={"name": "theirs", "sessions": ["other"]}, headers=BETA)
    assert refused.status_code == 404 and "other" in refused.json()["error"]["message"]


WRONG: dict[str, Json] = {
    "agent": {"agents": [{"agent_id": "none"}]},
    "version": {"agents": [{"agent_id": "shop", "version": "3"}]},
    "mode": {"agents": [{"agent_id": "shop", "mode": "none"}]},
    "file as a model": {"agents": [{"agent_id": "shop", "model": "local:/etc/passwd"}]},
    "file in place of all models": {"model": "local:/etc/passwd"},
    "file as a judge": {"judge": "local:/etc/passwd"},
    "judge that reads nothing": {"judge": "offline"},
    "tools": {"agents": [{"agent_id": "shop", "tools": ["os:system"]}]},
    "key": {"agents": [{"agent_id": "shop", "api_key": "k"}]},
    "endpoint": {"agents": [{"agent_id": "shop", "base_url": "http://127.0.0.1:1"}]},
    "MCP server": {"agents": [{"agent_id": "shop", "mcp": [{"name": "m", "command": "sh"}]}]},
    "live reads": {"live_reads": True},
    "age": {"since": "soon"},
    "policy": {"effects": "run"},
    "sample": {"sample": 0},
    "folder": {"name": "../new"},
    "long name": {"name": "𠀀" * 64},
    "name that is taken": {"name": "careful"},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_request_may_not_name_is_refused(client: httpx.Client, folder: Path, wrong: str) -> None:
    if wrong == "name that is taken":
        run(client, "careful")
    refused = client.post("/api/backtests", json={"name": "new", **WRONG[wrong]})
    assert refused.status_code == (409 if wrong == "name that is taken" else 422), refused.text
    assert not (folder / "alpha" / "new").exists()


def test_one_runs_at_a_time_and_is_stopped(client: httpx.Client) -> None:
    slow = {"name": "slow", "agents": [{"agent_id": "shop", "model": "openai:slow"}]}
    assert client.post("/api/backtests", json=slow).json()["status"] == "running"
    for name, headers in (("slow", ALPHA), ("second", ALPHA), ("second", BETA)):
        refused = client.post("/api/backtests", json={"name": name}, headers=headers)
        assert refused.status_code == 409 and "shop" not in refused.text
    stopped = client.post("/api/backtests/slow/stop").json()
    assert (stopped["status"], stopped["report"], stopped["conclusion"]) == ("stopped", None, "")
    assert client.get("/api/backtests/slow").json()["status"] == "stopped"
    run(client, "after")


def test_backtests_survive_a_restart(folder: Path, served: Served, client: httpx.Client, tmp_path: Path) -> None:
    run(client, "kept", sessions=["mine"], agents=CARELESS)
    cut = folder / "alpha" / "cut"
    cut.mkdir()
    (cut / "state.json").write_text(json.dumps({"created_at": "2026", "asked": {}, "done": 3, "total": 9}), "utf-8")
    (folder / "alpha" / "damaged").mkdir()
    (folder / "alpha" / "damaged" / "state.json").write_text("[1", encoding="utf-8")
    with Served(tmp_path / "new.db", ServerSettings(keys=KEYS, backtests=folder)) as later, later.client() as again:
        found = {each["name"]: each for each in again.get("/api/backtests", headers=ALPHA).json()["items"]}
        assert found["kept"]["conclusion"] and "damaged" not in found
        assert (found["cut"]["status"], found["cut"]["done"], found["cut"]["total"]) == ("interrupted", 3, 9)
        refused = again.get("/api/backtests/damaged", headers=ALPHA)
        assert refused.status_code == 422 and str(folder) not in refused.text


@pytest.mark.parametrize("left", [{}, {"state.json": {"created_at": "2026", "asked": {"seed": 3}, "done": 1}}])
def test_one_whose_process_was_killed_begins_again_with_the_same_request(
    client: httpx.Client, folder: Path, left: Json
) -> None:
    name = f"killed-{len(left)}"
    killed = folder / "alpha" / name
    killed.mkdir(parents=True)
    (killed / ".lock").touch()
    for file, form in left.items():
        (killed / file).write_text(json.dumps(form), encoding="utf-8")
        other = client.post("/api/backtests", json={"name": name, "seed": 4})
        assert other.status_code == 409 and other.json()["error"]["type"] == "BacktestExists"
    assert run(client, name, seed=3)["status"] == "done"


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"created_at": "2026", "asked": {}, "status": "lost"},
        {"created_at": "2026", "asked": [], "status": "done"},
        {"created_at": "2026", "asked": {}, "status": "done", "summary": {"same": "many"}},
    ],
)
def test_one_that_is_damaged_is_left_out_of_the_list(client: httpx.Client, folder: Path, form: Json) -> None:
    damaged = folder / "alpha" / "misshapen"
    damaged.mkdir(parents=True, exist_ok=True)
    (damaged / "state.json").write_text(json.dumps(form), "utf-8")
    listed = client.get("/api/backtests")
    assert listed.status_code == 200 and "misshapen" not in {each["name"] for each in listed.json()["items"]}
    refused = client.get("/api/backtests/misshapen")
    assert refused.status_code == 422 and "state.json" in refused.json()["error"]["message"]


def test_a_list_reads_no_report(client: httpx.Client, folder: Path) -> None:
    run(client, "large", model="recorded")
    (folder / "alpha" / "large" / "backtest.json").write_text("[", "utf-8")
    (listed,) = (each for each in client.get("/api/backtests").json()["items"] if each["name"] == "large")
    assert listed["conclusion"].startswith("Nothing would change") and listed["report"]["summary"]["same"] == 2
    assert client.get("/api/backtests/large").status_code == 422


def test_one_that_ends_while_it_is_read_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(created_at="2026", asked={})
    state.write(tmp_path)

    def ends(folder: Path) -> bool:
        replace(state, status="done").write(folder)
        return False

    monkeypatch.setattr("segue.server.runs._is_held", ends)
    assert State.read(tmp_path).status == "done"


async def test_a_report_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    folder = tmp_path / "full"

    async def make(on_progress: Progress) -> Backtest:
        (folder / "backtest.json").mkdir()
        return Backtest(tasks=[])

    await begin(folder, {}, make, Tenant("alpha"))
    state = State.read(folder)
    assert (state.status, state.error) == ("failed", "The file backtest.json cannot be written: Is a directory.")


def test_one_that_cannot_be_stored_leaves_its_name_free(
    client: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("segue.testing.rehearsal.simulate.os.replace", full)
        refused = client.post("/api/backtests", json={"name": "unstored"})
    assert refused.status_code == 422 and "No space left" in refused.text and str(folder) not in refused.text
    assert run(client, "unstored", sessions=["mine"], model="recorded")["status"] == "done"


async def test_a_failure_names_sessions_as_the_key_knows_them(tmp_path: Path) -> None:
    async def make(on_progress: Progress) -> Backtest:
        raise UnknownThread("alpha:mine")

    await begin(tmp_path / "new", {}, make, Tenant("alpha"))
    assert State.read(tmp_path / "new").error.startswith("There is no session 'mine'")


def test_without_a_folder_there_are_none() -> None:
    with Served() as plain, plain.client() as client:
        assert client.get("/api/backtests").json() == {"items": [], "next": None}
        assert client.get("/api/backtests/any").json()["error"]["message"] == "There is no backtest 'any'."
        refused = client.post("/api/backtests", json={"name": "any"})
        assert refused.status_code == 422 and "SEGUE_BACKTESTS" in refused.json()["error"]["message"]


async def test_a_configured_model_comes_with_its_endpoint_and_another_one_with_the_agents() -> None:
    here = Agent(agent_id="here", model="openai:a", base_url="http://here/v1", api_key="k1")
    there = Agent(agent_id="there", model="openai:b", base_url="http://there/v1", api_key="k2")
    async with segue.open(":memory:", agents=[here, there]) as app:
        agents = {agent.agent_id: agent for agent in app.agents.values()}

        def changed(model: str) -> tuple[Any, ...]:
            body = BacktestRequest(name="n", agents=[{"agent_id": "here", "model": model}])
            (agent,) = options_of(body, app, agents, Tenant("alpha"))["agents"]
            assert agent.api_key
            return agent.model, agent.base_url, agent.api_key.get_secret_value()

        assert changed("openai:a") == ("openai:a", "http://here/v1", "k1")
        assert changed("openai:b") == ("openai:b", "http://there/v1", "k2")
        assert changed("openai:c") == ("openai:c", "http://here/v1", "k1")
        with pytest.raises(ConfigurationError, match=r"There is no model 'local:m\.gguf' here"):
            changed("local:m.gguf")
