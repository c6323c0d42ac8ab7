"""A damaged row of one session stops nothing else: for every table, the service, its lists and the doctor go on."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import httpx
import pytest

from segue.app import App
from segue.checkpoints.sqlite.state import SCRIPTS
from segue.cli.commands.doctor import findings
from segue.cli.settings import Settings
from segue.core.agents import Agent, Prices
from segue.core.timeline import Retention
from segue.server import ServerSettings
from tests.checkpoints.damage import CUT_OFF, NO_TEXT, copied
from tests.fakes import ScriptedChatModel

from .serving import ALPHA, BETA, KEYS, Served, chat, ending, follow
from .shop import refund, reply

HURT = "alpha:hurt"
JSON = frozenset({
    *("about", "answer", "arguments", "attachment", "attachments", "asked_by", "body", "client_tools", "config"),
    *("data", "decisions", "details", "event", "metadata", "notes", "options", "outcome", "reply_options", "result"),
    *("seals",),
})  # fmt: skip
WRONG = "'x'"
LISTS = (
    *("sessions", "waiting", "schedules", "permissions", "notifications", "search?q=apples", "sessions/{0}"),
    *("sessions/{0}/tasks", "sessions/{0}/history", "sessions/{0}/snapshots", "sessions/{0}/branches"),
    *("sessions/{0}/share", "sessions/{0}/timeline", "sessions/{0}/export", "usage", "audit", "agents/a/tasks"),
    *("users/u/preferences", "service"),
)
OWNER = {
    "habits": "1",
    "audit": "position = (SELECT max(position) FROM audit)",
    "checkpoints": f"""(thread_id, checkpoint_ns, checkpoint_id) IN (
        SELECT thread_id, checkpoint_ns, max(checkpoint_id) FROM checkpoints
        WHERE thread_id = '{HURT}' AND checkpoint_ns = '' GROUP BY 1, 2)""",
    "branches": f"root = '{HURT}'",
    "preferences": "user_id = 'alpha:u'",
    "schedules": "schedule_id LIKE 'alpha:%'",
    "search_terms": "term = 'apples'",
    "uploads": "owner LIKE 'alpha%'",
    "tasks": f"thread_id = '{HURT}' AND status = 'running'",
    "spend": f"thread_id = '{HURT}'",
}
"""Which row is damaged, where it is not the first one of the session."""
UNSEEN = (("events", "scope"), ("events", "idx"))
"""They only say which call's result an event shows."""
ROWS = f"""
    INSERT INTO lease_queue (thread_id, expires_at) VALUES ('{HURT}', 1);
    INSERT INTO webhooks SELECT task_id, 'w', thread_id, '{{}}' FROM tasks WHERE thread_id = '{HURT}' LIMIT 1;
    INSERT INTO sent_events (task_id, thread_id, name, data, sent_at, key)
        SELECT task_id, thread_id, 'e', '{{"data": 1}}', 1, 'k' FROM tasks WHERE thread_id = '{HURT}' LIMIT 1;
    INSERT INTO notifications SELECT 'n', thread_id, task_id, 'r', 'stopped', '{{}}', 1, 1, 1, NULL FROM tasks
        WHERE thread_id = '{HURT}' LIMIT 1;
    UPDATE tasks SET status = 'running', result = NULL
        WHERE position = (SELECT max(position) FROM tasks WHERE thread_id = '{HURT}');
    INSERT INTO habits VALUES ('http://127.0.0.1:9/v1#m', '["one_system"]');
    INSERT INTO graph_objects VALUES ('run', 'r', 'alpha:', '{HURT}', 'pending', 1, 1, '{{}}');
    INSERT INTO graph_events VALUES ('{HURT}', 1, 'r', '{{}}');
    UPDATE leases SET owner = 'gone/1/x', expires_at = 1 WHERE thread_id = '{HURT}';
"""
"""What only a moment of a running service leaves, and a task that its process left."""


def columns() -> Iterator[tuple[str, str, str]]:
    """Each column that is damaged, and to what; unless `WHOLE` is set, one of each table."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in chain(*SCRIPTS):
            connection.execute(statement)
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for number, table in enumerate(sorted(set(names) - {"sqlite_sequence"})):
            chosen: dict[str, tuple[str, str, str]] = {}
            for _, column, kind, _, _, place in connection.execute(f"PRAGMA table_info({table})").fetchall():
                if (kind == "INTEGER" and place) or (table, column) in UNSEEN:
                    continue  # a row id can be nothing else
                is_text = kind in ("TEXT", "BLOB")
                value = CUT_OFF if column in JSON else NO_TEXT if is_text else WRONG
                chosen[column if os.environ.get("WHOLE") else value] = (table, column, value)
            damaged = [*chosen.values()]
            yield from damaged if os.environ.get("WHOLE") else damaged[number % len(damaged) :][:1]


def agents() -> list[Agent]:
    model = ScriptedChatModel(reply)
    return [Agent(agent_id="a", model=model, tools=(refund,), mode="react", prices=Prices(input=1, output=1))]


def serving(path: Path) -> Served:
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000, requests_a_minute=10_000)
    file = path.with_name("agents.toml")
    file.write_text("[audit]\n", encoding="utf-8")
    limits = {"per_day": 1000.0, "per_session_tokens": 10**7}
    return Served(path, settings, agents=agents(), agents_file=str(file), spend=limits)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with rows in every table, of two tenants: session `hurt` of alpha has some in each."""
    path = tmp_path_factory.mktemp("sound") / "segue.db"
    with serving(path) as served, served.client(headers=ALPHA) as alpha, served.client(headers=BETA) as beta:
        made = {"session_id": "hurt", "agent_id": "a", "title": "Damaged soon"}
        assert alpha.post("/api/sessions", json=made, headers={"Idempotency-Key": "made"}).status_code == 201
        for client, session in ((alpha, "hurt"), (alpha, "well"), (beta, "theirs")):
            fill(client, session)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ROWS)
    return path


def fill(client: httpx.Client, session: str) -> None:
    about = {"session_id": session, "agent_id": "a", "user_id": "u"}
    task_id = ending(chat(client, "please refund", headers={"Idempotency-Key": session}, **about))["task_id"]
    allowed = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
    later = {"message": "apples", "agent_id": "a", "session_id": f"{session}-later", "every": "0 9 * * mon"}
    made = [
        client.post(f"/api/tasks/{task_id}/answer", json=allowed),
        client.post("/api/schedules", json=later),
        client.put("/api/users/u/preferences", json={"default_mode": "react"}),
        client.post("/v1/files", files={"file": ("x.txt", b"text", "text/plain")}, data={"purpose": "user_data"}),
    ]
    follow(client, task_id)
    made += [
        client.post(f"/api/sessions/{session}/share", json={"hours": 1}),
        client.post(f"/api/tasks/{task_id}/branch", json={"message": "pears"}),
    ]
    assert all(response.is_success for response in made), [response.text for response in made]
    follow(client, made[-1].json()["task_id"])
    chat(client, "apples " * 100, **about)


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column", "value"), [*columns()])
def test_a_damaged_row_of_one_session_stops_nothing_else(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str, column: str, value: str
) -> None:
    path = copied(sound, tmp_path)
    hurt(path, table, column, value)
    with serving(path) as served:
        for headers, session in ((ALPHA, "well"), (BETA, "theirs")):
            with served.client(headers=headers) as client:
                check_goes_on(client, session)
        served.do(check_app(served.service.app))
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []
        with served.client(headers=ALPHA) as client:
            own = client.post("/api/chat", json={"message": "pears", "session_id": "hurt", "agent_id": "a"})
            assert "Internal" not in own.text, "its own session is told what is damaged"
    check_named(path, table, column)


def hurt(path: Path, table: str, column: str, value: str) -> None:
    """Damage one row."""
    with closing(sqlite3.connect(path)) as connection, connection:
        key = [name for _, name, *_, place in connection.execute(f"PRAGMA table_info({table})") if place]
        where = OWNER.get(table, f"thread_id = '{HURT}'")
        found = connection.execute(f"SELECT {', '.join(key)} FROM {table} WHERE {where} ORDER BY 1 LIMIT 1").fetchone()
        names = " AND ".join(f"{name} = ?" for name in key)
        assert connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {names}", found).rowcount == 1


def check_goes_on(client: httpx.Client, session: str) -> None:
    """A session is written to, and all lists are there."""
    for name in (session, f"{session}-new"):
        assert ending(chat(client, "please refund twice" if name == session else "plums", session_id=name,
            agent_id="a", user_id="u"))["status"] == "done"  # fmt: skip
    for path in LISTS:
        shown = client.get(f"/api/{path.format(session)}")
        assert shown.status_code == 200, (path, shown.text)
    assert client.get("/v1/files").status_code == client.get("/readyz").status_code == 200
    assert "segue_database_up 1.0" in client.get("/metrics").text


async def check_app(app: App) -> None:
    """What runs by itself, and the lists of the whole database."""
    await app.schedules.run_due()
    await app.sessions.prune(Retention.of("1"))
    await app.sessions.delete_unstored(0, 0)
    for shown in (
        app.tasks.list(limit=-1),
        app.threads(),
        app.waiting(),
        app.sessions.permissions(),
        app.tasks.usage(),
        app.resumable(),
    ):
        assert await shown is not None
    for listed in (app.schedules.list(), app.notifications.list(), app.audit.list(), app.tasks.unfinished()):
        assert await listed is not None
    await app.audit.verify()


def check_named(path: Path, table: str, column: str) -> None:
    """The doctor names the row."""
    said = ""
    for found in findings(Settings(str(path)), os.environ, "en"):
        if found.what == "agents":
            break
        said += "" if found.ok else found.detail
    assert column in said or HURT in said or "search" in said, said
