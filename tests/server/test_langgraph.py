"""LangGraph's server API over graphs that Segue did not write."""

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from segue.checkpoints.graphs import GraphTables
from segue.checkpoints.saver import FencedSaver
from segue.core.errors import ConfigurationError
from segue.core.graph_objects import GraphEvent
from segue.runtime.graph_runs import KEPT_RUNS, GraphRuns, is_end
from segue.server import ServerSettings
from segue.server.langgraph.graphs import load_sources
from tests.cases import cases
from tests.polling import wait_until

from .langgraph_graphs import EFFECTS, GRAPHS
from .serving import ALPHA, BETA, KEY, KEYS, SECONDS, Served

Json = dict[str, Any]
ASKED = {"text": "hello"}
ALL = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "custom"]


@contextmanager
def serving(folder: Path, database: Any = "", **options: Any) -> Iterator[Served]:
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": GRAPHS}), encoding="utf-8")
    settings = ServerSettings(graphs=file, **{"chats_a_minute": 10_000, "requests_a_minute": 100_000, **options})
    with Served(database or folder / "segue.db", settings) as served:
        yield served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as opened:
        yield opened


@pytest.fixture
def sdk(served: Served) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=served.url) as opened:
        yield opened


def new_thread(client: httpx.Client, **fields: Any) -> str:
    return str(client.post("/threads", json=fields).json()["thread_id"])


def runs_of(served: Served) -> GraphRuns:
    runs: GraphRuns = served.application.state.langgraph.runs
    return runs


def change_object(served: Served, kind: str, object_id: str, status: str = "", **fields: Any) -> None:
    """Change what is stored, as another process would."""

    def change(rows: Any) -> None:
        stored = rows.get(kind, object_id)
        rows.put(replace(stored, status=status or stored.status, body={**stored.body, **fields}))

    served.do(runs_of(served).tables.write(change))


def events_of(served: Served, thread_id: str) -> Sequence[GraphEvent]:
    events: Sequence[GraphEvent] = served.do(runs_of(served).tables.read(lambda rows: rows.events(thread_id, 0)))
    return events


async def ensure(served: Served, thread_id: str) -> None:
    runs_of(served).ensure(thread_id)


def wait(client: httpx.Client, thread_id: str, graph: str, **fields: Any) -> Json:
    answer = client.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": graph, **fields})
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


def command(client: httpx.Client, thread_id: str, method: str, **params: Any) -> Json:
    given = {"id": 1, "method": method, "params": params}
    answer: Json = client.post(f"/threads/{thread_id}/commands", json=given).json()
    return answer


def until_end(client: httpx.Client, thread_id: str, since: int | None = None, channels: list[str] = ALL) -> list[Json]:
    """The events of a thread, until a run of it ends or asks."""
    body = {"channels": channels} | ({} if since is None else {"since": since})
    found = []
    with client.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as response:
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            found.append(json.loads(line.removeprefix("data: ")))
            params = found[-1]["params"]
            is_end = found[-1]["method"] == "lifecycle" and not params["namespace"]
            if is_end and params["data"]["event"] in ("completed", "failed", "interrupted"):
                return found
    raise AssertionError("the stream ended")


# Assistants.


def test_every_graph_and_every_agent_is_an_assistant(client: httpx.Client) -> None:
    found = client.post("/assistants/search", json={"limit": 100}).json()
    assert {*GRAPHS, "travel", "data"} <= {each["graph_id"] for each in found}
    answer = wait(client, new_thread(client), "travel", input={"messages": [{"role": "user", "content": "Hello"}]})
    assert answer["messages"][-1]["type"] == "ai"
    assert answer["messages"][-1]["content"]


def test_an_assistant_has_versions(client: httpx.Client) -> None:
    made = client.post("/assistants", json={"graph_id": "make", "config": {"configurable": {"who": "ann"}}}).json()
    path = f"/assistants/{made['assistant_id']}"
    changed = client.patch(path, json={"config": {"configurable": {"who": "bob"}}, "metadata": {"a": 1}}).json()
    assert (changed["version"], changed["metadata"]) == (2, {"a": 1})
    assert [each["version"] for each in client.post(f"{path}/versions", json={}).json()] == [2, 1]
    said = wait(client, new_thread(client), made["assistant_id"], input={})
    assert said["text"] == "threads.create_run bob"
    assert client.post(f"{path}/latest", json={"version": 1}).json()["config"]["configurable"]["who"] == "ann"
    assert client.delete(path).status_code == 204
    assert client.get(path).json() == {"detail": "Not Found"}


def test_changes_at_once_make_a_version_each(client: httpx.Client) -> None:
    path = f"/assistants/{client.post('/assistants', json={'graph_id': 'make'}).json()['assistant_id']}"
    with ThreadPoolExecutor(8) as pool:
        changed = [*pool.map(lambda number: client.patch(path, json={"name": f"n{number}"}).json(), range(8))]
    assert sorted(each["version"] for each in changed) == [*range(2, 10)]
    assert [each["version"] for each in client.post(f"{path}/versions", json={}).json()] == [*range(9, 0, -1)]


def test_a_graph_is_drawn_and_described(client: httpx.Client) -> None:
    drawn = client.get("/assistants/asking/graph").json()
    assert {"first", "ask", "last"} <= {node["id"] for node in drawn["nodes"]}
    schemas = client.get("/assistants/asking/schemas").json()
    assert "text" in schemas["input_schema"]["properties"]
    assert client.get("/assistants/asking/subgraphs").json() == {}


# Runs and states.


def test_a_run_asks_and_goes_on(client: httpx.Client) -> None:
    thread_id = new_thread(client, metadata={"label": "asks"})
    asked = wait(client, thread_id, "asking", input=ASKED)
    assert asked["__interrupt__"][0]["value"] == {"question": "Send HELLO?"}
    state = client.get(f"/threads/{thread_id}/state").json()
    assert (state["next"], state["values"]["events"]) == (["ask"], ["first"])
    assert client.get(f"/threads/{thread_id}").json()["status"] == "interrupted"
    client.post(f"/threads/{thread_id}/state", json={"values": {"text": "Goodbye"}})
    done = wait(client, thread_id, "asking", command={"resume": "yes"})
    assert done == {"text": "Goodbye", "events": ["first", "answered yes", "last"]}
    thread = client.get(f"/threads/{thread_id}").json()
    assert (thread["status"], thread["values"]) == ("idle", done)
    history = client.post(f"/threads/{thread_id}/history", json={"limit": 100}).json()
    assert history[0]["values"] == done
    assert {each["metadata"]["source"] for each in history} == {"input", "loop", "update"}
    copied = client.post(f"/threads/{thread_id}/copy").json()["thread_id"]
    assert client.get(f"/threads/{copied}/state").json()["values"] == done
    found = client.post("/threads/search", json={"metadata": {"label": "asks"}, "status": "idle"}).json()
    assert {each["thread_id"] for each in found} == {thread_id, copied}
    earlier = next(each for each in history if each["next"] == ["ask"] and each["metadata"]["source"] == "loop")
    again = wait(client, thread_id, "asking", checkpoint=earlier["checkpoint"])
    assert again["text"] == "HELLO"


def test_a_failed_run_says_why(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    error = {"error": "ValueError", "message": "no such order"}
    assert wait(client, thread_id, "failing", input=ASKED) == {"__error__": error}
    thread = client.get(f"/threads/{thread_id}").json()
    assert (thread["status"], thread["error"]) == ("error", error)
    assert client.get(f"/threads/{thread_id}/runs").json()[0]["status"] == "error"


def test_a_run_without_a_thread(client: httpx.Client) -> None:
    answer = client.post("/runs/wait", json={"assistant_id": "noting", "input": {"text": "alone"}})
    assert "alone" in answer.json()["known"]
    thread_id = answer.headers["location"].split("/")[2]
    assert not [each for each in client.post("/threads/search", json={"ids": [thread_id]}).json()]
    batch = client.post("/runs/batch", json=[{"assistant_id": "noting", "input": {"text": "b"}}] * 2).json()
    assert [each["status"] for each in batch] == ["pending", "pending"]


def begin_slow(client: httpx.Client, thread_id: str, **fields: Any) -> str:
    answer = client.post(f"/threads/{thread_id}/runs", json={"assistant_id": "slow", "input": ASKED, **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run_id"])


def until_status(client: httpx.Client, path: str, status: str) -> None:
    deadline = time.monotonic() + SECONDS
    while client.get(path).json()["status"] != status:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_rests(client: httpx.Client, thread_id: str) -> None:
    deadline = time.monotonic() + SECONDS
    while client.get(f"/threads/{thread_id}/state").json()["next"] != ["rest"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_busy_thread(client: httpx.Client) -> None:
    """A further run is refused, waits, or takes the place of the one before."""
    thread_id = new_thread(client)
    run_id = begin_slow(client, thread_id)
    until_rests(client, thread_id)
    refused = client.post(
        f"/threads/{thread_id}/runs", json={"assistant_id": "slow", "input": {}, "multitask_strategy": "reject"}
    )
    assert refused.status_code == 409
    assert client.post(f"/threads/{thread_id}/state", json={"values": {"text": "x"}}).status_code == 409
    queued = begin_slow(client, thread_id)
    assert client.get(f"/threads/{thread_id}/runs/{queued}").json()["status"] == "pending"
    answer = client.post(f"/threads/{thread_id}/runs/{queued}/cancel", params={"wait": "1"})
    last = wait(client, thread_id, "noting", input={"text": "n"}, multitask_strategy="interrupt")
    assert answer.status_code == 204
    assert "n" in last["known"]
    assert client.get(f"/threads/{thread_id}/runs/{run_id}").json()["status"] == "interrupted"
    assert client.get(f"/threads/{thread_id}/runs/{queued}").json()["status"] == "interrupted"
    rolled = begin_slow(client, thread_id)
    until_rests(client, thread_id)
    wait(client, thread_id, "noting", input={"text": "m"}, multitask_strategy="rollback")
    assert client.get(f"/threads/{thread_id}/runs/{rolled}").status_code == 404
    history = client.post(f"/threads/{thread_id}/history", json={"limit": 100}).json()
    assert rolled not in {each["metadata"]["run_id"] for each in history}


def test_a_cancelled_run_ends(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    run_id = begin_slow(client, thread_id)
    until_rests(client, thread_id)
    path = f"/threads/{thread_id}/runs/{run_id}"
    assert client.post(f"{path}/cancel").status_code == 202
    assert client.get(f"{path}/join").json()["events"] == ["first"]
    until_status(client, f"/threads/{thread_id}", "interrupted")
    assert client.post(f"{path}/cancel").status_code == 404
    until_end(client, thread_id)


def test_a_run_that_was_cancelled_does_not_go_on_after_a_crash(served: Served, client: httpx.Client) -> None:
    thread_id = new_thread(client)
    given = {"assistant_id": "noting", "input": {"text": "too late"}, "after_seconds": 600}
    run_id = client.post(f"/threads/{thread_id}/runs", json=given).json()["run_id"]
    change_object(served, "run", run_id, "running", due=0.0, attempts=1, requested="interrupt")
    served.do(ensure(served, thread_id))
    until_status(client, f"/threads/{thread_id}/runs/{run_id}", "interrupted")
    assert client.get("/store/items", params={"namespace": "notes.own", "key": "too late"}).json() is None


def test_a_cancelled_run_whose_graph_cannot_be_opened_ends(served: Served, client: httpx.Client) -> None:
    thread_id = new_thread(client)
    config = {"configurable": {"who": "nobody"}}
    given = {"assistant_id": "make", "input": {"text": "x"}, "config": config, "after_seconds": 600}
    run_id = client.post(f"/threads/{thread_id}/runs", json=given).json()["run_id"]
    change_object(served, "run", run_id, "running", due=0.0, attempts=1, requested="interrupt")
    served.do(ensure(served, thread_id))
    until_status(client, f"/threads/{thread_id}/runs/{run_id}", "interrupted")
    thread = client.get(f"/threads/{thread_id}").json()
    assert (thread["status"], thread["error"]["message"]) == ("error", "nobody is no user")
    assert client.get(f"/threads/{thread_id}/state").status_code == 200


def test_a_run_that_is_submitted_again_goes_on(served: Served, client: httpx.Client) -> None:
    """As by two processes that begin the run of a cron."""
    thread_id = new_thread(client)
    run_id = begin_slow(client, thread_id)
    until_rests(client, thread_id)
    runs = runs_of(served)
    run = served.do(runs.tables.read(lambda rows: rows.get("run", run_id)))
    for strategy in ("interrupt", "rollback", "reject"):
        served.do(runs.submit(run, strategy))
    assert "requested" not in served.do(runs.tables.read(lambda rows: rows.get("run", run_id))).body
    client.post(f"/threads/{thread_id}/runs/{run_id}/cancel", params={"wait": "1"})


def test_a_cancelled_run_ends_after_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, save, stored = GraphTables.write, FencedSaver.aput, Counter[str]()
    go = asyncio.Event()

    async def hold_last(tables: GraphTables, work: Any, *, brief: bool = False) -> Any:
        if not brief or stored["steps"] < 2:
            return await store(tables, work, brief=brief)
        stored["begun"] += 1
        await go.wait()
        await asyncio.sleep(0.5)  # as long as the end of the run needs that does not wait for it
        try:
            return await store(tables, work, brief=brief)
        finally:
            stored["done"] += 1

    async def save_and_count(saver: FencedSaver, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        saved = await save(saver, config, checkpoint, metadata, versions)
        stored["steps"] = metadata["step"] + 1
        return saved

    async def let_go() -> None:
        go.set()

    monkeypatch.setattr(GraphTables, "write", hold_last)
    monkeypatch.setattr(FencedSaver, "aput", save_and_count)
    with serving(tmp_path) as served, served.client() as client:
        thread_id = new_thread(client)
        run_id = command(client, thread_id, "run.start", assistant_id="slow", input=ASKED)["result"]["run_id"]
        wait_until(lambda: stored["begun"])
        client.post(f"/threads/{thread_id}/runs/{run_id}/cancel")
        served.do(let_go())
        until_status(client, f"/threads/{thread_id}/runs/{run_id}", "interrupted")
        wait_until(lambda: stored["begun"] == stored["done"])
        events = events_of(served, thread_id)
    assert [event.event["method"] for event in events].count("checkpoints") == 3
    assert is_end(events[-1])


def test_a_thread_that_another_process_deletes_leaves_nothing(served: Served, client: httpx.Client) -> None:
    thread_id = new_thread(client)
    begin_slow(client, thread_id)
    until_rests(client, thread_id)
    runs = runs_of(served)
    served.do(runs.tables.write(lambda rows: rows.delete_thread(thread_id)))
    wait_until(lambda: thread_id not in runs._threads)
    assert not events_of(served, thread_id)


def test_the_events_of_the_last_runs_are_kept(served: Served, client: httpx.Client) -> None:
    """Those of runs that were rolled back go, too."""
    thread_id = new_thread(client)
    for _ in range(KEPT_RUNS + 2):
        later = begin_slow(client, thread_id, after_seconds=600)
        client.post(f"/threads/{thread_id}/runs/{later}/cancel", params={"action": "rollback"})
    wait(client, thread_id, "noting", input={"text": "kept"})
    events = events_of(served, thread_id)
    assert len({event.run_id for event in events}) == KEPT_RUNS
    assert is_end(events[-1])


def test_a_run_begins_later(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    body = {"assistant_id": "noting", "input": {"text": "later"}, "after_seconds": 0.3}
    run_id = client.post(f"/threads/{thread_id}/runs", json=body).json()["run_id"]
    assert wait(client, thread_id, "noting", input={"text": "now"})
    assert client.get(f"/threads/{thread_id}/runs/{run_id}").json()["status"] == "pending"
    assert "later" in client.get(f"/threads/{thread_id}/runs/{run_id}/join").json()["known"]


# Streams.


def test_the_stream_of_a_run_is_joined_where_it_was_left(sdk: SyncLangGraphClient) -> None:
    thread_id = sdk.threads.create()["thread_id"]
    modes: Any = ["values", "updates", "custom", "tasks", "checkpoints", "debug"]
    parts = [*sdk.runs.stream(thread_id, "asking", input=ASKED, stream_mode=modes)]
    assert parts[0].event == "metadata"
    assert {part.event for part in parts} == {"metadata", *modes}
    assert [part.data for part in parts if part.event == "custom"] == [{"name": "progress", "step": "first"}]
    assert "__interrupt__" in [part for part in parts if part.event == "values"][-1].data
    run_id = parts[0].data["run_id"]
    middle = len(parts) // 2
    rest = [*sdk.runs.join_stream(thread_id, run_id, stream_mode=modes, last_event_id=parts[middle].id)]
    assert [part.data for part in rest[1:]] == [part.data for part in parts[middle + 1 :]]


def test_messages_are_streamed_piece_by_piece(sdk: SyncLangGraphClient) -> None:
    given = {"messages": [{"role": "user", "content": "Count"}]}
    thread_id = sdk.threads.create()["thread_id"]
    parts = [*sdk.runs.stream(thread_id, "talking", input=given, stream_mode=["messages", "messages-tuple"])]
    pieces = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert "".join(pieces) == "one two three"
    assert len(pieces) > 1
    partial: Any = [part.data[0]["content"] for part in parts if part.event == "messages/partial"]
    assert partial[-1] == "one two three"
    assert [part.event for part in parts][1] == "messages/metadata"


def test_a_failure_is_the_last_of_a_stream(sdk: SyncLangGraphClient) -> None:
    parts = [*sdk.runs.stream(None, "failing", input=ASKED)]
    assert (parts[-1].event, parts[-1].data["message"]) == ("error", "no such order")


def test_the_events_of_a_thread_are_replayed_without_a_gap(client: httpx.Client) -> None:
    thread_id = str(uuid.uuid4())
    begun = command(client, thread_id, "run.start", assistant_id="asking", input=ASKED)
    assert begun["meta"] == {"applied_through_seq": 0}
    events = until_end(client, thread_id)
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
    asked = next(event for event in events if event["method"] == "input.requested")["params"]["data"]
    assert asked["payload"] == {"question": "Send HELLO?"}
    assert until_end(client, thread_id, since=3) == events[3:]
    only = until_end(client, thread_id, channels=["lifecycle", "custom:progress"])
    assert [event["method"] for event in only] == ["lifecycle", "custom", "lifecycle"]
    wrong = command(client, thread_id, "input.respond", interrupt_id="other", response=1, namespace=[])
    assert wrong["error"] == "no_such_interrupt"
    interrupt_id = asked["interrupt_id"]
    answer = command(client, thread_id, "input.respond", interrupt_id=interrupt_id, response="yes", namespace=[])
    assert answer["meta"] == {"applied_through_seq": len(events)}
    rest = until_end(client, thread_id, since=len(events))
    assert rest[-1]["params"]["data"]["event"] == "completed"
    values = [event["params"]["data"] for event in rest if event["method"] == "values"]
    assert values[-1]["events"] == ["first", "answered yes", "last"]
    again = command(client, thread_id, "input.respond", interrupt_id=interrupt_id, response="yes", namespace=[])
    assert again["error"] == "no_such_interrupt"


@cases(
    "method, params, error",
    [
        ("nope", {}, "unknown_command"),
        ("run.start", {}, "invalid_argument"),
        ("run.start", {"assistant_id": "nobody"}, "unknown_error"),
        ("agent.getTree", {}, "not_supported"),
        ("input.respond", {"responses": ["x"]}, "unknown_error"),
        ("input.respond", {"interrupt_id": "1", "config": "x"}, "unknown_error"),
    ],
)
def test_a_wrong_command(client: httpx.Client, method: str, params: Json, error: str) -> None:
    assert command(client, new_thread(client), method, **params)["error"] == error


def test_a_websocket_has_commands_and_events(served: Served, client: httpx.Client) -> None:
    thread_id = str(uuid.uuid4())
    url = f"ws://127.0.0.1:{served.port}/threads/{thread_id}/stream/events"

    def send(socket: Any, method: str, **params: Any) -> None:
        socket.send(json.dumps({"id": 7, "method": method, "params": params}))

    with connect(url, proxy=None, additional_headers={"X-Request-Id": "abc-123"}) as socket:
        assert socket.response and socket.response.headers["X-Request-Id"] == "abc-123"
        socket.send("no JSON")
        assert json.loads(socket.recv())["error"] == "invalid_argument"
        send(socket, "subscription.subscribe", channels=["lifecycle"])
        assert json.loads(socket.recv())["result"] == {"subscription_id": "1"}
        send(socket, "run.start", assistant_id="noting", input={"text": "socket"})
        heard: list[Json] = []
        while not heard or heard[-1].get("params", {}).get("data", {}).get("event") != "completed":
            heard.append(json.loads(socket.recv(SECONDS)))
        assert {each.get("type") for each in heard} == {"success", "event"}
        send(socket, "subscription.unsubscribe", subscription_id="1")
        assert json.loads(socket.recv())["type"] == "success"
    with pytest.raises(InvalidStatus), connect(url, proxy=None, origin="http://elsewhere.example"):  # type: ignore[arg-type]
        pass


def test_a_websocket_answers_what_it_refuses(tmp_path: Path) -> None:
    with serving(tmp_path, streams=2, chats_a_minute=1) as served:
        url = f"ws://127.0.0.1:{served.port}/threads/{uuid.uuid4()}/stream/events"
        with connect(url, proxy=None) as socket:

            def ask(method: str, params: Any) -> Json:
                socket.send(json.dumps({"id": 7, "method": method, "params": params}))
                answer: Json = json.loads(socket.recv(SECONDS))
                assert answer["id"] == 7
                return answer

            def subscribe() -> Json:
                return ask("subscription.subscribe", {"channels": ["custom"]})

            wrong: list[Any] = [[], "1", {}, None]
            assert {ask("subscription.unsubscribe", each)["error"] for each in wrong} == {"invalid_argument"}
            named = [subscribe()["result"]["subscription_id"] for _ in range(2)]
            assert subscribe()["error"] == "unknown_error"
            assert ask("subscription.unsubscribe", {"subscription_id": named[0]})["result"] == {}
            assert ask("subscription.unsubscribe", {"subscription_id": named[0]})["error"] == "no_such_subscription"
            named.append(subscribe()["result"]["subscription_id"])
            assert named == ["1", "2", "3"]
            begin = {"assistant_id": "noting", "input": {"text": "one a minute"}}
            assert ask("run.start", begin)["type"] == "success"
            assert ask("run.start", begin)["error"] == "unknown_error"
        wait_until(lambda: not +served.service._open_streams)


# RemoteGraph.


def test_a_remote_graph_is_used_as_a_local_one(sdk: SyncLangGraphClient) -> None:
    remote = RemoteGraph("asking", sync_client=sdk)
    config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}
    sdk.threads.create(thread_id=config["configurable"]["thread_id"])
    asked = remote.invoke(ASKED, config)
    assert asked["events"] == ["first"]
    assert remote.get_state(config).next == ("ask",)
    done = remote.invoke(Command(resume="yes"), config)
    assert done["events"] == ["first", "answered yes", "last"]
    remote.update_state(config, {"text": "changed"})
    assert remote.get_state(config).values["text"] == "changed"
    assert len([*remote.get_state_history(config)]) > 3
    assert "ask" in remote.get_graph().nodes


# The store and crons.


def test_the_store_is_shared_by_graphs_and_clients(sdk: SyncLangGraphClient, client: httpx.Client) -> None:
    store = sdk.store
    store.put_item(("notes", "given"), key="written", value={"text": "By hand.", "stars": 3})
    known = wait(client, new_thread(client), "noting", input={"text": "remembered"})["known"]
    assert {"written", "remembered"} <= {*known}
    found = store.search_items(("notes",), filter={"stars": {"$gte": 3}})["items"]
    assert [item["key"] for item in found] == ["written"]
    assert store.list_namespaces(prefix=["notes"], max_depth=1)["namespaces"] == [["notes"]]
    store.delete_item(("notes", "given"), key="written")
    assert store.get_item(("notes", "given"), key="written") is None


def test_a_cron_begins_a_run_when_it_is_due(served: Served, client: httpx.Client) -> None:
    given = {"assistant_id": "noting", "schedule": "0 0 1 1 *", "input": {"text": "by cron"}, "metadata": {"c": 1}}
    cron = client.post("/runs/crons", json=given).json()
    assert cron["next_run_date"].endswith("-01-01T00:00:00+00:00")
    path = f"/runs/crons/{cron['cron_id']}"
    changed = client.patch(path, json={"schedule": "0 1 1 1 *", "stream_subgraphs": None}).json()
    assert changed["next_run_date"].endswith("01:00:00+00:00")
    assert [each["cron_id"] for each in client.post("/runs/crons/search", json={"metadata": {"c": 1}}).json()] == [
        cron["cron_id"]
    ]
    change_object(served, "cron", cron["cron_id"], due=time.time())
    wait_until(lambda: client.get("/store/items", params={"namespace": "notes.own", "key": "by cron"}).json())
    assert client.delete(path).status_code == 204
    assert client.delete(path).status_code == 404


def test_a_cron_that_cannot_begin_stops_no_other(served: Served, client: httpx.Client) -> None:
    given = {"assistant_id": "noting", "schedule": "0 0 1 1 *"}
    texts = [f"cron {uuid.uuid4()}" for _ in range(2)]
    first, second = (client.post("/runs/crons", json={**given, "input": {"text": text}}).json() for text in texts)
    payload = {**first["payload"], "stream_mode": "nothing"}
    change_object(served, "cron", first["cron_id"], due=time.time(), payload=payload)
    change_object(served, "cron", second["cron_id"], due=time.time())
    wait_until(lambda: client.get("/store/items", params={"namespace": "notes.own", "key": texts[1]}).json())
    for cron in (first, second):
        path = f"/runs/crons/{cron['cron_id']}"
        wait_until(lambda path=path: client.get(path).json()["next_run_date"].endswith("-01-01T00:00:00+00:00"))
        client.delete(path)


# Errors.

NOWHERE = str(uuid.UUID(int=1))
UPDATE_BY_NOBODY = [{"updates": [{"values": {"text": "x"}, "as_node": "nobody"}]}]


@cases(
    "method, path, body, status, detail",
    [
        ("GET", "/threads/x", None, 422, "Invalid thread ID: must be a UUID"),
        ("GET", f"/threads/{NOWHERE}", None, 404, f"Thread with ID {NOWHERE} not found"),
        ("GET", f"/assistants/{NOWHERE}", None, 404, "Not Found"),
        ("POST", "/assistants", {"graph_id": "nothing"}, 404, "Graph 'nothing' not found."),
        ("POST", "/threads", b"{", 422, "Invalid JSON in request body"),
        ("POST", "/threads", {"metadata": 5}, 422, "metadata"),
        ("POST", f"/threads/{NOWHERE}/runs", {"assistant_id": "asking"}, 404, "Thread or assistant not found."),
        ("POST", "/runs/wait", {"assistant_id": "nothing"}, 422, "Invalid assistant: 'nothing'."),
        ("POST", "/runs/wait", {"assistant_id": "asking", "stream_mode": "x"}, 422, "stream_mode"),
        ("POST", "/runs/wait", {"assistant_id": "asking", "config": {"configurable": "x"}}, 422, "configurable"),
        ("POST", "/runs/batch", [{"assistant_id": "noting", "thread_id": 5}], 422, "thread_id"),
        ("GET", f"/threads/{NOWHERE}/history?limit=x", None, 422, "limit"),
        ("GET", f"/threads/{NOWHERE}/history?limit=0", None, 422, "limit"),
        ("POST", "/threads", {"graph_id": "asking", "supersteps": UPDATE_BY_NOBODY}, 400, "nobody"),
        ("POST", "/runs/wait", {"assistant_id": "asking", "stream_mode": "events"}, 501, "stream_mode 'events'"),
        ("POST", "/runs/wait", {"assistant_id": "asking", "webhook": "http://x"}, 501, "webhook of runs"),
        ("PUT", "/store/items", {"namespace": ["a."], "key": "k", "value": {}}, 422, "Namespace label 'a.'"),
        ("POST", "/store/items/search", {"query": "x"}, 501, "query"),
        ("POST", "/runs/crons", {"assistant_id": "asking", "schedule": "zz"}, 422, "Invalid cron schedule: 'zz'"),
        ("POST", "/runs/crons", {"assistant_id": "asking", "schedule": "0 0 1 1 *", "stream_mode": "x"}, 422, "mode"),
        (
            "POST",
            "/runs/crons",
            {"assistant_id": "asking", "schedule": "0 0 1 1 *", "stream_mode": ["events"]},
            501,
            "mode",
        ),
        ("POST", f"/threads/{NOWHERE}/stream/events", {"channels": ["x"]}, 422, "channels has the unknown 'x'."),
        ("GET", f"/threads/{NOWHERE}/stream", None, 501, "is not supported by Segue."),
    ],
)
def test_what_is_wrong_is_said(
    client: httpx.Client, method: str, path: str, body: Any, status: int, detail: str
) -> None:
    content: Json = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    answer = client.request(method, path, **content)
    assert answer.status_code == status
    assert detail in answer.json()["detail"]


def test_a_thread_whose_state_is_refused_is_not_made(client: httpx.Client) -> None:
    given = {"thread_id": str(uuid.uuid4()), "graph_id": "asking", "supersteps": UPDATE_BY_NOBODY}
    assert client.post("/threads", json=given).status_code == 400
    assert client.get(f"/threads/{given['thread_id']}").status_code == 404


def test_tenants_have_their_own(tmp_path: Path) -> None:
    with serving(tmp_path, keys=KEYS) as served, served.client() as nobody:
        alpha, beta = served.client(headers=ALPHA), served.client(headers={"x-api-key": BETA["Authorization"][7:]})
        assert nobody.post("/threads", json={}).status_code == 401
        assert nobody.get("/ok").json() == {"ok": True}
        thread_id = new_thread(alpha, metadata={"whose": "alpha"})
        wait(alpha, thread_id, "noting", input={"text": "secret"})
        assert beta.get(f"/threads/{thread_id}").status_code == 404
        assert beta.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "noting"}).status_code == 404
        assert command(beta, thread_id, "run.start", assistant_id="noting", input={})["type"] == "error"
        assert beta.post("/threads/search", json={}).json() == []
        assert wait(beta, new_thread(beta), "noting", input={"text": "other"})["known"] == ["other"]
        made = alpha.post("/assistants", json={"graph_id": "noting"}).json()["assistant_id"]
        assert beta.get(f"/assistants/{made}").status_code == 404
        with beta.stream("POST", f"/threads/{thread_id}/stream/events", json={"channels": ALL}) as response:
            assert response.read() == b""
        url = f"ws://127.0.0.1:{served.port}/threads/{thread_id}/stream/events"
        with pytest.raises(InvalidStatus), connect(url, proxy=None):
            pass
        with connect(url, proxy=None, additional_headers={"x-api-key": KEY}) as socket:
            socket.send(json.dumps({"id": 1, "method": "subscription.subscribe", "params": {"channels": ALL}}))
            assert json.loads(socket.recv())["type"] == "success"
        alpha.close()
        beta.close()


def test_a_deleted_thread_leaves_nothing(
    served: Served, client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EFFECTS, str(tmp_path / "effects.txt"))
    thread_id = new_thread(client)
    assert wait(client, thread_id, "paying", input={"messages": []})["messages"][-1]["content"] == "All are paid."
    assert (tmp_path / "effects.txt").read_text().split() == ["0", "1", "2", "3", "4"]
    assert client.delete(f"/threads/{thread_id}").status_code == 204
    assert client.get(f"/threads/{thread_id}").status_code == 404
    database = served.service.app._storage.database
    for table in ("graph_objects", "graph_events", "checkpoints", "writes", "calls"):
        statement = f"SELECT 1 FROM {table} WHERE thread_id LIKE '%{thread_id}'"
        assert not served.do(database.read(lambda connection, asked=statement: connection.fetched(asked)))


# The file.


@cases(
    "text, reason",
    [
        ("{", "cannot be read"),
        ('{"graphs": {}}', 'has no "graphs"'),
        ('{"graphs": {"a": "nowhere"}}', "needs a place"),
        ('{"graphs": {"a": "nowhere:graph"}}', "cannot be imported"),
        ('{"graphs": {"a": "./none.py:graph"}}', "cannot be imported from ./none.py:graph"),
        ('{"graphs": {"a": "json:__name__"}}', "is of the type str"),
        ('{"graphs": {"a": "operator:add"}}', "has the parameters"),
        ('{"graphs": {"a": "tests.server.langgraph_graphs:asking"}, "http": {}}', "http, which Segue does not support"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "langgraph.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=reason.replace(".", r"\.")):
        load_sources(file)


@pytest.mark.postgres
def test_postgresql_keeps_the_same(tmp_path: Path, postgres_url: str) -> None:
    with serving(tmp_path, database=postgres_url) as served, served.client() as client:
        thread_id = str(uuid.uuid4())
        command(client, thread_id, "run.start", assistant_id="asking", input=ASKED)
        events = until_end(client, thread_id)
        assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
        done = wait(client, thread_id, "asking", command={"resume": "yes"})
        assert done["events"] == ["first", "answered yes", "last"]
        copied = client.post(f"/threads/{thread_id}/copy").json()["thread_id"]
        assert client.get(f"/threads/{copied}/state").json()["values"] == done
        slow = new_thread(client)
        run_id = begin_slow(client, slow)
        until_rests(client, slow)
        client.post(f"/threads/{slow}/runs/{run_id}/cancel", params={"wait": "1", "action": "rollback"})
        assert client.get(f"/threads/{slow}/runs/{run_id}").status_code == 404
        assert "kept" in wait(client, new_thread(client), "noting", input={"text": "kept"})["known"]
        assert client.delete(f"/threads/{thread_id}").status_code == 204


def test_a_step_is_stored_after_its_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies right after a checkpoint would not run the step again."""
    store, save = GraphTables.write, FencedSaver.aput
    early: list[object] = []

    async def store_late(tables: GraphTables, work: Any, *, brief: bool = False) -> Any:
        await asyncio.sleep(0.05 if brief else 0)
        return await store(tables, work, brief=brief)

    async def save_and_look(saver: FencedSaver, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        saved = await save(saver, config, checkpoint, metadata, versions)
        thread_id = config["configurable"]["thread_id"]
        events = await served.application.state.langgraph.runs.tables.read(lambda rows: rows.events(thread_id, 0))
        updates = sum(each.event["method"] == "updates" for each in events)
        if updates < metadata["step"]:
            early.append((metadata, updates))
        return saved

    monkeypatch.setenv(EFFECTS, str(tmp_path / "effects.txt"))
    monkeypatch.setattr(GraphTables, "write", store_late)
    monkeypatch.setattr(FencedSaver, "aput", save_and_look)
    with serving(tmp_path) as served, served.client() as client:
        thread_id = new_thread(client)
        command(client, thread_id, "run.start", assistant_id="paying", input={"messages": []})
        assert until_end(client, thread_id)
        wait(client, new_thread(client), "paying", input={"messages": []}, stream_mode="updates")
    assert not early


def test_a_stored_result_ends_its_call_in_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that the ledger knows is not made again, and clients hear of its end."""
    monkeypatch.setenv(EFFECTS, str(tmp_path / "effects.txt"))
    with serving(tmp_path) as served, served.client() as client:
        thread_id = new_thread(client)
        wait(client, thread_id, "paying", input={"messages": []})
        history = client.get(f"/threads/{thread_id}/history?limit=100").json()
        before = next(each for each in reversed(history) if each["next"] == ["tools"])["checkpoint"]
        run = {"assistant_id": "paying", "input": None, "checkpoint": before, "stream_mode": ["tools"]}
        text = client.post(f"/threads/{thread_id}/runs/stream", json=run).text
        told = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert [each["event"] for each in told if each.get("tool_call_id") == "call-0"] == ["tool-started", "tool-finished"]
    assert (tmp_path / "effects.txt").read_text().split().count("0") == 1
