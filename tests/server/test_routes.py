"""Every route once, for what it is there for."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph

from segue.core.agents import Agent
from segue.core.errors import DamagedCheckpoint, DamagedRow, UnreadableState
from segue.graphs.react import graph as react_graph
from segue.server.api.agents import HEIGHT, Box, Layout, lay_out
from segue.server.errors import status_of
from tests.fakes import ScriptedChatModel, answer, call_tool

from .serving import ALPHA, READY, Held, Json, Served, ServerSettings, chat, follow, types


@pytest.fixture(scope="module")
def own_agents(held: Held) -> list[Agent]:
    script = [call_tool(("note", {"name": "one"}), thought="I note", observe="nothing yet"), answer("noted")]
    return [held.agent("noter", script), Agent(agent_id="quiet", model=ScriptedChatModel(lambda _: answer("yes")))]


@pytest.fixture(scope="module")
def noted(client: httpx.Client) -> Json:
    """The result of a task that made one call."""
    result: Json = chat(client, "note it", agent_id="noter", session_id="notes", user_id="ann")[-1]["result"]
    return result


@pytest.fixture(scope="module")
def planned(client: httpx.Client) -> Json:
    """The result of a task with a plan."""
    result: Json = chat(client, "帮我规划北京3日游，包括景点和预算", mode="plan", session_id="plans")[-1]["result"]
    return result


def test_a_task_whole(client: httpx.Client, noted: Json) -> None:
    trace = client.get(f"/api/tasks/{noted['task_id']}").json()
    task = trace["task"]
    assert (task["session_id"], task["user_id"], task["agent_id"]) == ("notes", "ann", "noter")
    assert (task["status"], task["result"]["answer"], task["error"]) == ("done", "noted", None)
    assert noted["model"] == task["model"] == task["result"]["model"] == "ScriptedChatModel"
    assert types(trace["events"])[0] == "state_changed" and "tool_result" in types(trace["events"])
    (call,) = trace["calls"]
    assert (call["name"], call["state"], call["outcome"]) == ("note", "done", {"success": "noted one"})


def test_the_statuses_of_a_task(client: httpx.Client, noted: Json) -> None:
    items = client.get(f"/api/tasks/{noted['task_id']}/states").json()["items"]
    assert [(change["old"], change["new"]) for change in items] == [("pending", "running"), ("running", "done")]


def test_events_page_by_page(client: httpx.Client, planned: Json) -> None:
    path = f"/api/tasks/{planned['task_id']}/events"
    whole = client.get(path, params={"limit": 500}).json()
    assert whole["next"] is None
    seen, after = [], 0
    while after is not None:
        page = client.get(path, params={"after": after, "limit": 7}).json()
        seen += page["items"]
        after = page["next"]
    assert seen == whole["items"] and len(seen) > 14


def test_modes_have_labels_and_descriptions_in_the_language_of_the_request(client: httpx.Client) -> None:
    english = client.get("/api/modes").json()
    assert [mode["name"] for mode in english["modes"]] == english["items"]
    assert {
        "name": "plan",
        "label": "Plan",
        "description": "writes a plan first, shows it, then executes it",
    } in english["modes"]
    chinese = client.get("/api/modes", headers={"Accept-Language": "zh"}).json()["modes"]
    assert {"name": "direct", "label": "快速响应", "description": "一次模型调用，不用工具：问候、常识"} in chinese


def test_a_task_page_by_page(client: httpx.Client, planned: Json) -> None:
    path = f"/api/tasks/{planned['task_id']}"
    whole = client.get(path).json()
    assert whole["next"] is None and len(whole["calls"]) > 2
    events, calls, place, sizes = [], [], {}, []
    while place is not None:
        page = client.get(path, params={"limit": 2, **place}).json()
        assert page["task"] == whole["task"]
        events, calls, place = events + page["events"], calls + page["calls"], page["next"]
        sizes.append((len(page["events"]), len(page["calls"])))
    assert (events, calls) == (whole["events"], whole["calls"])
    assert max(sizes) == (2, 2) and sizes[-1][1] == 0


def test_recursions_page_by_page(client: httpx.Client, noted: Json) -> None:
    path = f"/api/tasks/{noted['task_id']}/recursions"
    whole = client.get(path).json()
    assert whole["next"] is None and len(whole["items"]) > 1
    first = client.get(path, params={"limit": 1}).json()
    others = client.get(path, params={"after": first["next"]}).json()
    assert first["items"] + others["items"] == whole["items"] and others["next"] is None


def test_agents_and_what_they_were_asked(client: httpx.Client, noted: Json) -> None:
    agents = client.get("/api/agents").json()["items"]
    assert [agent["agent_id"] for agent in agents] == ["travel", "data", "noter", "quiet"]
    travel, data, noter = agents[0], agents[1], agents[2]
    assert (travel["default"], travel["model"], travel["reads_files"], travel["error"]) == (True, "offline", False, "")
    modes = client.get("/api/modes").json()["items"]
    assert travel["mode"] == "auto" and modes == [*travel["modes"], "conversation"]
    assert (data["default"], data["reads_files"]) == (False, True)
    assert [(tool["name"], tool["needs_approval"]) for tool in noter["tools"]] == [("hold", False), ("note", False)]
    assert noter["tools"][0]["description"] == "Wait until it is let go."
    assert noter["suggestions"] == ["Wait until it is let go", "Note something"]
    english, chinese = (
        client.get("/api/agents", headers={"Accept-Language": tag}).json()["items"][0]["suggestions"]
        for tag in ("en", "zh")
    )
    assert "Hangzhou" in english[2] and "杭州" in chinese[2] and travel["suggestions"] == english
    (task,) = client.get("/api/agents/noter/tasks").json()["items"]
    assert task["task_id"] == noted["task_id"]


def test_which_model_answers_is_said_everywhere(client: httpx.Client, noted: Json, planned: Json) -> None:
    offline, scripted = client.get("/api/models").json()["items"]
    assert offline == {"model": "offline", "offline": True, "default": True, "agents": ["travel", "data"]}
    assert (scripted["offline"], scripted["default"], scripted["agents"]) == (False, False, ["noter", "quiet"])
    assert (planned["model"], noted["model"]) == ("offline", scripted["model"])


def test_lists_page_by_page(client: httpx.Client) -> None:
    ids = [chat(client, f"question {n}", agent_id="quiet", session_id="long")[0]["task_id"] for n in range(5)]
    for path in ("/api/agents/quiet/tasks", "/api/sessions/long/tasks"):
        seen: list[str] = []
        before = None
        while True:
            page = client.get(path, params={"limit": 2, **({"before": before} if before else {})}).json()
            seen += [task["task_id"] for task in page["items"]]
            if (before := page["next"]) is None:
                break
        assert seen == ids[::-1], path


def test_sessions_and_their_histories(client: httpx.Client, noted: Json) -> None:
    session = next(s for s in client.get("/api/sessions").json()["items"] if s["session_id"] == "notes")
    assert (session["turns"], session["message"], session["status"]) == (1, "note it", "done")
    history = client.get("/api/sessions/notes/history").json()
    assert [message["role"] for message in history["items"]] == ["user", "assistant", "tool", "assistant"]
    assert history["next"] is None
    seen: list[Json] = []
    before: Any = None
    while True:
        page = client.get("/api/sessions/notes/history", params={"limit": 3, **({"before": before} if before else {})})
        seen = page.json()["items"] + seen
        if (before := page.json()["next"]) is None:
            break
    assert seen == history["items"]
    assert len(client.get("/api/sessions", params={"limit": 1}).json()["items"]) == 1


def test_a_session_is_renamed_and_found(client: httpx.Client) -> None:
    for name, message in (("first", "Trains to Xi'an"), ("second", "成都的美食")):
        chat(client, message, agent_id="quiet", session_id=name)
        chat(client, "And then?", agent_id="quiet", session_id=name)

    def found(text: str) -> dict[str, str]:
        items = client.get("/api/sessions", params={"q": text}).json()["items"]
        return {session["session_id"]: session["title"] for session in items}

    assert found("TRAINS") == {"first": "Trains to Xi'an"} and found("美食") == {"second": "成都的美食"}
    assert found("then?") == {} and found(" ")["first"] == "Trains to Xi'an"
    assert client.patch("/api/sessions/first", json={"title": "  Spring\n100% "}).status_code == 204
    assert found("spring") == found("0%") == found("xi'an") == {"first": "Spring 100%"}
    (session,) = client.get("/api/sessions", params={"q": "spring"}).json()["items"]
    assert (session["turns"], session["message"], session["agent_id"]) == (2, "And then?", "quiet")
    assert client.patch("/api/sessions/first", json={"title": ""}).status_code == 204
    assert found("spring") == {} and found("xi'an") == {"first": "Trains to Xi'an"}
    assert client.patch("/api/sessions/nowhere", json={"title": "x"}).status_code == 404
    assert client.patch("/api/sessions/first", json={"title": "x" * 201}).status_code == 422


def test_a_deleted_session_leaves_no_title(client: httpx.Client) -> None:
    chat(client, "one", agent_id="quiet", session_id="named")
    client.patch("/api/sessions/named", json={"title": "Kept?"})
    assert client.delete("/api/sessions/named").status_code == 204
    chat(client, "two", agent_id="quiet", session_id="named")
    assert client.get("/api/sessions", params={"q": "two"}).json()["items"][0]["title"] == "two"


def test_snapshots_and_a_fork_of_one(client: httpx.Client, noted: Json) -> None:
    page = client.get("/api/sessions/notes/snapshots", params={"limit": 2}).json()
    assert len(page["items"]) == 2 and page["next"] == page["items"][-1]["checkpoint_id"]
    newest = page["items"][0]["checkpoint_id"]
    forked = client.post("/api/sessions/notes/fork", json={"checkpoint_id": newest, "session_id": "twin"})
    assert forked.status_code == 201 and forked.json()["session_id"] == "twin"
    assert client.get("/api/sessions/twin/history").json() == client.get("/api/sessions/notes/history").json()
    taken = client.post("/api/sessions/notes/fork", json={"checkpoint_id": newest, "session_id": "twin"})
    assert (taken.status_code, taken.json()["error"]["type"]) == (409, "ThreadExists")
    unknown = client.post("/api/sessions/notes/fork", json={"checkpoint_id": "nope"})
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (422, "UnknownSnapshot")
    assert "GET /api/sessions/" in unknown.json()["error"]["message"]
    own_name = client.post("/api/sessions/notes/fork", json={"checkpoint_id": newest}).json()["session_id"]
    assert client.get(f"/api/sessions/{own_name}/history").status_code == 200


def test_a_users_mode_is_used_where_a_message_names_none(client: httpx.Client) -> None:
    assert client.get("/api/users/bea/preferences").json() == {"default_mode": "", "mode_history": []}
    path = "/api/users/bea/preferences"
    assert client.put(path, json={"default_mode": "direct"}).json()["default_mode"] == "direct"
    assert chat(client, "今天想聊聊", user_id="bea")[-1]["result"]["mode"] == "direct"
    assert chat(client, "今天想聊聊", user_id="bea", mode="react")[-1]["result"]["mode"] == "react"
    assert chat(client, "今天想聊聊", user_id="cid")[-1]["result"]["mode"] == "react"
    assert [used["mode"] for used in client.get(path).json()["mode_history"]] == ["react", "direct"]
    wild = client.put(path, json={"default_mode": "wild"})
    assert (wild.status_code, wild.json()["error"]["type"]) == (422, "UnknownMode")
    assert client.put(path, json={"default_mode": ""}).status_code == 200
    assert chat(client, "今天想聊聊", user_id="bea")[-1]["result"]["mode"] == "react"


def test_a_rating_stays_with_its_task(client: httpx.Client, noted: Json) -> None:
    assert client.post(f"/api/tasks/{noted['task_id']}/rating", json={"rating": 4}).json()["rating"] == 4
    assert client.get(f"/api/tasks/{noted['task_id']}").json()["task"]["rating"] == 4
    (used,) = client.get("/api/users/ann/preferences").json()["mode_history"]
    assert (used["query"], used["mode"], used["rating"]) == ("note it", "react", 4)
    for wrong in (0, 6, 2.5, "five", True, None):
        assert client.post(f"/api/tasks/{noted['task_id']}/rating", json={"rating": wrong}).status_code == 422


def test_what_cannot_be_done_with_a_task_is_a_conflict(client: httpx.Client, noted: Json) -> None:
    for verb, body in (("pause", None), ("resume", None), ("cancel", None), ("answer", {"verdicts": "approve"})):
        refused = client.post(f"/api/tasks/{noted['task_id']}/{verb}", json=body)
        assert (refused.status_code, refused.json()["error"]["type"]) == (409, "TaskError"), verb


def test_an_error_is_in_the_language_that_the_request_accepts(client: httpx.Client, noted: Json) -> None:
    path = f"/api/tasks/{noted['task_id']}/pause"
    said = {
        tags: client.post(path, headers={"Accept-Language": tags})
        for tags in ("en;q=0.1, zh-CN;q=0.9", "en-GB,zh;q=0.5", "fr")
    }
    assert {(each.status_code, each.json()["error"]["type"]) for each in said.values()} == {(409, "TaskError")}
    chinese, english, other = (each.json()["error"]["message"] for each in said.values())
    assert chinese == f"任务 {noted['task_id']} 已完成：只有正在运行的任务才能暂停。"
    assert english == other == f"Task {noted['task_id']} is done: only a running task can be paused."


REFUSED = {
    401: ("GET", "/api/modes", {"headers": {"Authorization": "Bearer none"}}, "需要 API 密钥"),
    404: ("GET", "/api/tasks/nothing", {}, "没有任务“nothing”。"),
    405: ("PUT", "/api/modes", {}, "此路径不支持这个方法。"),
    422: (
        "POST",
        "/api/chat",
        {"json": {"message": "", "mood": 1}},
        "请求无效：body.message: 至少 1 个字符; body.mood: 没有此项。",
    ),
}


def test_a_field_that_is_not_known_names_the_one_that_is_meant(client: httpx.Client) -> None:
    refused = client.post("/api/chat", json={"message": "x", "agent": "travel", "wait": "soon"}).json()["error"]
    reasons = "body.wait: must be a number; body.agent: unknown field; use agent_id"
    assert refused["message"] == f"{reasons}."


@pytest.mark.parametrize(
    ("body", "chinese"),
    [({"message": " "}, "消息是空的"), ({"message": "x", "mode": "no"}, "没有名为“no”的模式"), ({}, "请求无效")],
)
def test_the_language_of_a_message_is_that_of_its_errors(client: httpx.Client, body: Json, chinese: str) -> None:
    headers = {"Accept-Language": "en"}
    refused = client.post("/api/chat", json={**body, "language": "zh"}, headers=headers).json()["error"]["message"]
    assert refused.startswith(chinese)
    assert client.post("/api/chat", json=body, headers=headers).json()["error"]["message"].isascii()


def test_modes_and_graphs(client: httpx.Client) -> None:
    modes = ["direct", "react", "plan", "plan_react", "lifecycle", "controller", "auto", "conversation"]
    listed = client.get("/api/modes").json()
    assert listed["items"] == [mode["name"] for mode in listed["modes"]] == modes
    assert all(mode["label"] != mode["name"] and mode["description"] for mode in listed["modes"])
    drawn = client.get("/api/graphs/react").json()
    assert drawn["mermaid"] == react_graph.get_graph().draw_mermaid()
    assert {node["name"] for node in drawn["nodes"]} == {*react_graph.get_graph().nodes}
    assert {(edge["source"], edge["target"]) for edge in drawn["edges"] if edge["conditional"]} >= {
        ("CALL_LLM", "PLAN")
    }


def test_a_mode_and_a_default_agent_of_ones_own_are_offered(tmp_path: Path, held: Held) -> None:
    shout: StateGraph[Any] = StateGraph(dict)
    shout.add_node("SHOUT", lambda state: {})
    shout.add_edge(START, "SHOUT")
    shout.add_edge("SHOUT", END)
    own = ServerSettings(default_agent="mine")
    agent = held.agent("mine", lambda _: answer("mine"))
    options = {"agents": [agent], "modes": {"shout": shout}}
    with Served(tmp_path / "segue.db", own, **options) as served, served.client() as client:
        assert "shout" in client.get("/api/modes").json()["items"]
        drawn = client.get("/api/graphs/shout").json()
        assert [node["name"] for node in drawn["nodes"]] == ["__start__", "SHOUT", "__end__"]
        assert chat(client)[-1]["result"]["answer"] == "mine"
        agents = client.get("/api/agents").json()["items"]
        assert [agent["agent_id"] for agent in agents if agent["default"]] == ["mine"]


def test_probes_need_no_key(served: Served) -> None:
    with served.client() as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").json() == READY


def test_a_session_whose_name_is_chinese_can_be_used(client: httpx.Client) -> None:
    with client.stream("POST", "/api/chat", json={"message": "你好", "session_id": "会话:一"}) as response:
        assert response.headers["x-session-id"] == "%E4%BC%9A%E8%AF%9D:%E4%B8%80"
        response.read()
    assert client.get("/api/sessions/会话:一/history").json()["items"][0]["content"] == "你好"


def test_no_work_is_lost_when_the_service_stops_and_starts_again(tmp_path: Path, held: Held) -> None:
    path, settings = tmp_path / "segue.db", ServerSettings(drain_seconds=20)
    agents = [held.agent("h", [call_tool(("hold", {}), ("note", {"name": "two"})), answer("both")])]
    held.go.clear()
    with Served(path, settings, agents=agents) as served, served.client() as client:
        with client.stream("POST", "/api/chat", json={"message": "go", "agent_id": "h"}) as response:
            assert held.begun.wait(60)
            from segue.server.lifespan import drain

            stopping = served.begin(drain(served.service))
            served.do(served.service.app.tasks.list())  # by then the task is asked to pause
            held.go.set()
            last = [*response.iter_text()][-1]
            assert '"type":"done"' in last and '"status":"paused"' in last
        stopping.result(60)
        task_id = response.headers["x-task-id"]
    effects = [*held.effects]
    with Served(path, settings, agents=agents) as served, served.client(headers=ALPHA) as client:
        forms = [form for _, form in follow(client, task_id)]
    assert forms[-1]["result"]["answer"] == "both"
    assert effects[-1:] == ["one"] and held.effects == [*effects, "two"]


def test_every_damage_of_a_session_is_a_conflict() -> None:
    damages = (DamagedCheckpoint("s", "odd"), DamagedRow("s", "odd", "task 't'"), UnreadableState("s", "odd"))
    assert [status_of(error) for error in damages] == [409] * 3


def test_a_message_and_a_schedule_name_memory_files_for_a_flow(client: httpx.Client) -> None:
    asked = {"message": "What is 2 + 2?", "mode": "controller", "memory_files": {"rules": "gone.md"}}
    events = chat(client, **asked)
    assert "There is no memory file gone.md: create it" in next(e for e in events if e["type"] == "error")["message"]
    made = client.post("/api/schedules", json={**asked, "at": "2027-12-01T18:00+01:00"})
    assert made.status_code == 201
    for wrong in ({"mode": "react"}, {"memory_files": {"rules": "../gone.md"}}, {"memory_files": {"rules": ""}}):
        for path, more in (("/api/chat", {}), ("/api/schedules", {"at": "2027-12-01T18:00+01:00"})):
            refused = client.post(path, json={**asked, **wrong, **more})
            assert refused.status_code == 422 and "memory" in refused.json()["error"]["message"], refused.text
    assert client.post("/api/chat", json={**asked, "mode": "conversation"}).status_code == 422


# Drawings of graphs: nothing overlaps, and every edge begins and ends at its nodes.


NAMES = ["__start__", "INPUT", "CALL_LLM", "CALL_TOOL", "A", "A_NODE_WITH_A_LONG_NAME", "__end__"]
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=20)


def overlap(one: Box, other: Box) -> bool:
    return (
        abs(one.x - other.x) < (one.width + other.width) / 2 and abs(one.y - other.y) < (one.height + other.height) / 2
    )


def ends(path: str) -> tuple[tuple[float, float], tuple[float, float]]:
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    return (numbers[0], numbers[1]), (numbers[-2], numbers[-1])


def check(nodes: Sequence[str], edges: Sequence[tuple[str, str]], drawn: Layout) -> None:
    boxes = {box.name: box for box in drawn.boxes}
    assert [*boxes] == [*nodes]
    assert not [pair for pair in combinations(boxes.values(), 2) if overlap(*pair)]
    for box in boxes.values():
        assert box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= drawn.width
        assert box.y - box.height / 2 >= 0 and box.y + box.height / 2 <= drawn.height
    assert {(curve.source, curve.target) for curve in drawn.curves} == {*edges}
    for curve in drawn.curves:
        for (x, y), name in zip(ends(curve.path), (curve.source, curve.target), strict=True):
            box = boxes[name]
            assert abs(x - box.x) <= box.width / 2 + 0.1 and abs(y - box.y) <= HEIGHT / 2 + 0.1


@settings(deadline=None, max_examples=60, derandomize=True)
@given(EDGES)
def test_any_graph_is_drawn_without_overlaps(edges: list[tuple[str, str]]) -> None:
    check(NAMES, edges, lay_out(NAMES, edges))


@pytest.mark.parametrize("nodes", [["one"], ["one", "two"]])
def test_a_graph_without_edges_is_drawn(nodes: list[str]) -> None:
    check(nodes, [], lay_out(nodes, []))


def test_edges_lead_downwards_but_for_those_that_lead_back() -> None:
    edges = [("start", "think"), ("think", "act"), ("act", "think"), ("think", "end"), ("act", "act")]
    at = {box.name: box.y for box in lay_out(["start", "think", "act", "end"], edges).boxes}
    assert at["start"] < at["think"] < at["act"] == at["end"]
