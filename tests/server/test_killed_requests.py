"""Requests whose process is killed between two of their transactions: the same request again leaves nothing half done.

Each route that writes is killed as its first transaction begins, then as its second one does, and so on until it
answers. Every time another process takes the same request, with the same idempotency key. What clients see then is what
they see where nothing was killed.
"""

import json
import os
import re
import shutil
import signal
import traceback
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from langchain_core.messages import AIMessage

from segue.checkpoints.sqlite.database import SqliteSession
from segue.core.agents import Agent, Prices
from tests.cli.process import run_elsewhere
from tests.fakes import ScriptedChatModel, answer, choose
from tests.polling import wait_until

from .serving import Json, Served, ServerSettings, chat
from .shop import refund, reply

pytestmark = pytest.mark.slow

KEY = {"Idempotency-Key": "k"}
NOWHERE = "http://127.0.0.1:9/hook"
MOST = 10 if os.environ.get("WHOLE") else 3
"""Transactions of a request, fewer unless `WHOLE` is set; later ones are of its task, which `tests/crash` kills."""
USAGE = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}


def costly(_: Any) -> AIMessage:
    """An answer that costs 0.2 dollars."""
    return AIMessage("done", usage_metadata=USAGE)  # type: ignore[arg-type]


def ask_first(messages: Any) -> str:
    text = "\n".join(str(message.content) for message in messages)
    return answer("It is blue.") if '"blue"' in text else choose("ask_user", question="Which colour?")


def agents() -> list[Agent]:
    prices = Prices(input=100, output=1000)
    return [
        Agent(agent_id="a", model=ScriptedChatModel(reply), tools=(refund,), mode="react"),
        Agent(agent_id="b", model=ScriptedChatModel(reply), mode="direct"),
        Agent(agent_id="costly", model=ScriptedChatModel(costly), mode="direct", max_tokens=200, prices=prices),
    ]


# What is there before the request, and what it needs to know of that.


def nothing(_: httpx.Client) -> Json:
    return {}


def two_turns(client: httpx.Client) -> Json:
    for message in ("apples", "pears"):
        chat(client, message, agent_id="a", session_id="s")
    tasks = client.get("/api/sessions/s/tasks").json()["items"]
    timeline = client.get("/api/sessions/s/timeline").json()["items"]
    running = next(each for each in reversed(timeline) if each["next"])
    found = {"first": tasks[1]["task_id"], "last": tasks[0]["task_id"], "running": running["checkpoint_id"]}
    return {**found, "newest": timeline[-1]["checkpoint_id"]}


def a_branch(client: httpx.Client) -> Json:
    known = two_turns(client)
    client.post(f"/api/tasks/{known['last']}/branch", json={"session_id": "branched"}).raise_for_status()
    settle(client)
    return known


def a_file(client: httpx.Client) -> Json:
    return {"file": client.post("/api/attachments", params={"name": "a.txt"}, content=b"a text").json()["upload_id"]}


def a_file_in_a_branch(client: httpx.Client) -> Json:
    chat(client, "plums", agent_id="a", session_id="s", attachments=[a_file(client)["file"]])
    return a_branch(client)


def a_document(client: httpx.Client) -> Json:
    chat(client, "apples", agent_id="a", session_id="old", attachments=[a_file(client)["file"]])
    document = client.get("/api/sessions/old/export").json()
    client.delete("/api/sessions/old").raise_for_status()
    return {"document": document}


def a_question(client: httpx.Client) -> Json:
    chat(client, "please refund", agent_id="a", session_id="s")
    return {"task": client.get("/api/sessions/s/tasks").json()["items"][0]["task_id"]}


def two_over_a_limit(client: httpx.Client) -> Json:
    for name in ("s1", "s2", "s3"):
        chat(client, "go", agent_id="costly", session_id=name)
    waiting = client.get("/api/waiting").json()["items"]
    assert len(waiting) == 2
    return {"task": waiting[0]["task_id"]}


def two_completions(client: httpx.Client) -> Json:
    messages = [{"role": "user", "content": "apples"}]
    said = client.post("/v1/chat/completions", json={"model": "a", "messages": messages, "user": "ann"}).json()
    messages += [said["choices"][0]["message"], {"role": "user", "content": "pears"}]
    client.post("/v1/chat/completions", json={"model": "a", "messages": messages, "user": "ann"}).raise_for_status()
    return {"messages": [*messages[:2], {"role": "user", "content": "plums"}]}


def two_responses(client: httpx.Client) -> Json:
    first = client.post("/v1/responses", json={"model": "a", "input": "apples"}).json()["id"]
    body = {"model": "a", "input": "pears", "previous_response_id": first}
    client.post("/v1/responses", json=body).raise_for_status()
    return {"first": first}


# The requests.


class Route(NamedTuple):
    """A request, with what is there before."""

    method: str
    path: str
    body: Callable[[Json], Any] = lambda _: None
    before: Callable[[httpx.Client], Json] = nothing
    again: Sequence[int] = ()
    """Other statuses of the same request where all was done, as that has no key."""
    headers: tuple[tuple[str, str], ...] = ()
    has_key: bool = True
    """Whether the route does once what has the same key; or the same request means the same."""


def a2a(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


A2A = (("A2A-Version", "1.0"),)
ROUTES: dict[str, Route] = {
    "create a session": Route("POST", "/api/sessions", lambda _: {"title": "Rome", "agent_id": "b"}),
    "change a session": Route(
        "PATCH",
        "/api/sessions/s",
        lambda _: {"title": "Rome", "agent_id": "b", "model": "offline", "pinned": True, "archived": True},
        a_branch,
    ),
    "fork": Route("POST", "/api/sessions/s/fork", lambda known: {"checkpoint_id": known["newest"]}, two_turns),
    "edit a message": Route(
        "POST", "/api/sessions/s/edit", lambda known: {"checkpoint_id": known["running"], "message": "kiwis"}, two_turns
    ),
    "edit a state": Route(
        "POST",
        "/api/sessions/s/edit",
        lambda known: {"checkpoint_id": known["running"], "state": {"objective": "kiwis"}},
        two_turns,
    ),
    "edit a state into a named session": Route(
        "POST",
        "/api/sessions/s/edit",
        lambda known: {"checkpoint_id": known["running"], "state": {"objective": "kiwis"}, "session_id": "e"},
        two_turns,
    ),
    "branch at the first turn": Route("POST", "/api/tasks/{first}/branch", lambda _: {}, two_turns),
    "branch": Route("POST", "/api/tasks/{last}/branch", lambda _: {"message": "kiwis"}, two_turns),
    "import": Route("POST", "/api/sessions/import", lambda known: {"document": known["document"]}, a_document),
    "delete": Route("DELETE", "/api/sessions/s", before=a_file_in_a_branch, again=[404]),
    "share": Route("POST", "/api/sessions/s/share", lambda _: {}, two_turns, has_key=False),
    "chat": Route(
        "POST",
        "/api/chat",
        lambda known: {"message": "apples", "agent_id": "a", "session_id": "new", "attachments": [known["file"]]},
        a_file,
    ),
    "chat in a session": Route(
        "POST", "/api/chat", lambda _: {"message": "plums", "agent_id": "a", "session_id": "s"}, two_turns
    ),
    "answer": Route("POST", "/api/tasks/{task}/answer", lambda _: {"verdicts": "reject"}, a_question),
    "answer with a limit": Route("POST", "/api/tasks/{task}/answer", lambda _: {"limit": 5}, two_over_a_limit),
    "cancel": Route("POST", "/api/tasks/{task}/cancel", before=a_question, again=[409]),
    "rate": Route("POST", "/api/tasks/{last}/rating", lambda _: {"rating": 5}, two_turns),
    "prune": Route("POST", "/api/sessions/s/prune", lambda _: {"retention": "1"}, two_turns),
    "prefer a mode": Route("PUT", "/api/users/default/preferences", lambda _: {"default_mode": "direct"}),
    "schedule": Route("POST", "/api/schedules", lambda _: {"message": "hello", "every": "0 9 * * mon"}),
    "start a conversation": Route(
        "POST",
        "/api/conversations",
        lambda _: {"user_mode": "scripted_user", "script": ["apples"], "bot_mode": "segue:react", "bot_agent": "a"},
    ),
    "create a conversation of OpenAI's": Route("POST", "/v1/conversations", lambda _: {"metadata": {"city": "Rome"}}),
    "change a conversation of OpenAI's": Route(
        "POST", "/v1/conversations/s", lambda _: {"metadata": {"city": "Rome"}}, two_turns
    ),
    "complete": Route(
        "POST",
        "/v1/chat/completions",
        lambda known: {"model": "a", "messages": known["messages"], "user": "ann"},
        two_completions,
    ),
    "respond": Route(
        "POST",
        "/v1/responses",
        lambda known: {"model": "a", "input": "plums", "previous_response_id": known["first"]},
        two_responses,
    ),
    "run over AG-UI": Route(
        "POST",
        "/ag-ui/a",
        lambda _: {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "apples"}]},
    ),
    "send over A2A": Route(
        "POST",
        "/a2a/a",
        lambda _: a2a(
            "SendMessage",
            message={"messageId": "m", "role": "ROLE_USER", "contextId": "c", "parts": [{"text": "apples"}]},
            configuration={"taskPushNotificationConfig": {"url": NOWHERE}},
        ),
        headers=A2A,
    ),
    "add a webhook over A2A": Route(
        "POST",
        "/a2a/a",
        lambda known: a2a("CreateTaskPushNotificationConfig", taskId=known["last"], id="hook", url=NOWHERE),
        two_turns,
        headers=A2A,
    ),
}


def send(client: httpx.Client, name: str, known: Json) -> int:
    """Send the request, with its key; returns the status."""
    route = ROUTES[name]
    path, headers = route.path.format(**known), {**KEY, **dict(route.headers)}
    answered = client.request(route.method, path, json=route.body(known), headers=headers)
    assert "error" not in answered.json() if path.startswith("/a2a") else True, answered.text
    return answered.status_code


# The processes, each of which has the database for itself.


def served(folder: str, name: str) -> Served:
    spend = {"per_day": 0.3} if ROUTES[name].before is two_over_a_limit else None
    settings = ServerSettings(push_hosts=("127.0.0.1",), chats_a_minute=10_000, requests_a_minute=100_000)
    return Served(Path(folder, "segue.db"), settings, agents=agents(), spend=spend)


def prepare(folder: str, name: str) -> None:
    """Store what is there before the request."""
    with served(folder, name) as service, service.client() as client:
        known = ROUTES[name].before(client)
        settle(client)
    Path(folder, "known.json").write_text(json.dumps(known), encoding="utf-8")


def send_and_die(folder: str, name: str, number: int) -> None:
    """Send the request, and be killed as its transaction of that number begins, or else once it is answered."""
    with served(folder, name) as service, service.client() as client:
        begin, numbers = SqliteSession.begin, count(1)

        def begin_or_die(self: SqliteSession, **about: Any) -> None:
            if next(numbers) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            begin(self, **about)

        SqliteSession.begin = begin_or_die  # type: ignore[method-assign]
        send(client, name, known_of(folder))
        os._exit(0)


def send_and_report(folder: str, name: str) -> None:
    """Send the request, and write its status and what clients see then."""
    with served(folder, name) as service, service.client() as client:
        status = send(client, name, known_of(folder))
        settle(client)
        found = {"status": status, "seen": seen(client)}
    Path(folder, "report.json").write_text(json.dumps(found), encoding="utf-8")


def known_of(folder: str) -> Json:
    known: Json = json.loads(Path(folder, "known.json").read_text(encoding="utf-8"))
    return known


def settle(client: httpx.Client) -> None:
    """Wait until every task has ended, or waits for a person."""

    def settled() -> bool:
        found = [task for name in names(client) for task in client.get(f"/api/sessions/{name}/tasks").json()["items"]]
        return all(task["status"] in ("done", "waiting", "error", "cancelled") for task in found)

    wait_until(settled)


def names(client: httpx.Client) -> list[str]:
    """Every session, those of branches and bots among them."""
    found = []
    for archived in (False, True):
        which: Json = {"archived": archived, "bots": True, "limit": 500}
        for row in client.get("/api/sessions", params=which).json()["items"]:
            branches = client.get(f"/api/sessions/{row['session_id']}/branches").json()["items"]
            found += [row["session_id"], *(branch["session_id"] for branch in branches)]
    return sorted({*found})


def seen(client: httpx.Client) -> Json:
    """What clients see of everything, without ids and times."""
    paths = ("/v1/files", "/api/schedules", "/api/notifications", "/api/waiting", "/api/users/default/preferences")
    found = {path: client.get(path).json() for path in paths}
    sessions = [plain(session(client, name)) for name in names(client)]
    return {**plain(found), "sessions": sorted(sessions, key=json.dumps)}


def session(client: httpx.Client, name: str) -> Json:
    address = f"/api/sessions/{name}"
    lists = ("tasks", "history", "branches", "share", "permissions", "snapshots")
    found = {each: client.get(f"{address}/{each}", params={"limit": 500}).json().get("items", []) for each in lists}
    found["snapshots"] = len(found["snapshots"])
    return {"session": client.get(address).json(), **found}


_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{8,}|\\bs-[0-9a-z]+")


_CHANGING = ("attempts", "next_attempt", "error", "seconds")
"""How far a notification was sent by now, and how long a conversation took."""


def plain(value: Any) -> Any:
    """A value without ids and times."""
    match value:
        case dict():
            return {name: plain(each) for name, each in value.items() if name not in _CHANGING}
        case list():
            return [plain(each) for each in value]
        case str():
            return _ID.sub("ID", value)
        case float() | int() if value > 1e9:
            return "TIME"
    return value


def warm_up(folder: str, name: str) -> None:
    """Import and build what a service does once: processes that are forked from this one have it."""
    with served(folder, name):
        pass


def forked(work: Callable[..., None], *given: Any) -> int:
    """The exit code of a process that does this work, negative for a signal."""
    if (pid := os.fork()) == 0:
        try:
            work(*given)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the process ends with it
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reports(root: str, name: str) -> None:
    """Write what clients see where nothing is killed, then where each of the request's transactions was."""
    original, warm = Path(root, "original"), Path(root, "warm")
    original.mkdir()
    warm.mkdir()
    warm_up(str(warm), name)
    assert forked(prepare, str(original), name) == 0
    assert forked(send_and_report, shutil.copytree(original, Path(root, "0")), name) == 0
    for number in range(1, MOST + 1):
        folder = shutil.copytree(original, Path(root, str(number)))
        code = forked(send_and_die, str(folder), name, number)
        assert code == -signal.SIGKILL or (code == 0 and number > 1), number
        if code == 0 and not ROUTES[name].has_key:
            return
        assert forked(send_and_report, str(folder), name) == 0, number
        if code == 0:
            return


@pytest.mark.parametrize("name", ROUTES)
def test_a_request_is_finished_by_the_same_request(tmp_path: Path, name: str) -> None:
    assert run_elsewhere(reports, str(tmp_path), name) == 0
    undisturbed, *killed = (
        json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(tmp_path.glob("*/report.json"), key=lambda file: int(file.parent.name))
    )
    assert undisturbed["status"] < 300 and killed
    for number, found in enumerate(killed, start=1):
        assert found["status"] in (undisturbed["status"], *ROUTES[name].again), number
        assert found["seen"] == undisturbed["seen"], number
