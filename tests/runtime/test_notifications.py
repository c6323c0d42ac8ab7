"""Notifications: what receivers are told, how often, and what becomes of what they do not take."""

import base64
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

import segue
from segue import Receiver, tool
from segue.app import App
from segue.core.agents import Agent, Budget
from segue.core.conversation import ConversationConfig
from segue.core.errors import ConfigurationError, MissingExtra
from segue.core.notifications import MOST_CHARS, load_receivers
from segue.runtime.notifications import MOST_ATTEMPTS, backoff
from segue.testing.rehearsal import converse
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import until
from tests.receivers import HttpReceiver

OLD, NEW = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
ALL = ("waiting", "done", "error", "limit", "cancelled", "taken_over")


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
def look(place: str) -> str:
    """Look there."""
    return place


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", f"{OLD} {NEW}")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another without delay, and there are three."""
    for name, value in (
        ("worker.LOOK_SECONDS", 0.02),
        ("notifications.FIRST_RETRY", 0.0),
        ("notifications.MOST_ATTEMPTS", 3),
    ):
        monkeypatch.setattr(f"segue.runtime.{name}", value)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as it:
        yield it


def hook(receiver: HttpReceiver, **fields: Any) -> Receiver:
    return Receiver(**{"name": "ops", "url": receiver.url, "secret": "HOOK_SECRET", "allow_private": True, **fields})


def register(app: App, *script: Any, **fields: Any) -> None:
    model = ScriptedChatModel(script)
    app.register(Agent(**{"agent_id": "a", "model": model, "tools": (pay, look), "mode": "react", **fields}))


async def test_who_is_to_know_is_told_when_a_task_waits_and_ends(database: Path, receiver: HttpReceiver) -> None:
    async with segue.open(database, notify=[hook(receiver)]) as app:
        register(app, call_tool(("pay", {"amount": 5})), answer("Paid."))
        asked = await app.ask("pay " + "x" * 3000, session_id="s", agent="a")
        await until(lambda: receiver.got)
        await app.answer(asked["task_id"], "approve")
        await until(lambda: len(receiver.got) == 2)
    waiting, done = receiver.got
    for delivery in receiver.got:
        for key in (OLD, NEW):
            Webhook(key).verify(delivery.body, delivery.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(OLD).verify(delivery.body + b" ", delivery.headers)
        assert delivery.headers["webhook-id"] == delivery.form["id"]
    assert receiver.types == ["task.waiting", "task.done"]
    data = waiting.form["data"]
    question = {"kind": "approval", "calls": [{"index": 0, "name": "pay", "arguments": {"amount": 5}}]}
    assert data.pop("question").items() >= question.items() and len(data.pop("message")) == MOST_CHARS
    about = {"task_id": asked["task_id"], "session_id": "s", "agent_id": "a", "user_id": "default", "language": "en"}
    assert data == {**about, "status": "waiting"}
    assert done.form["data"]["answer"] == "Paid." and done.form["timestamp"].endswith("Z")


async def test_an_error_a_limit_and_a_cancellation(database: Path, receiver: HttpReceiver) -> None:
    notify = [hook(receiver, on=ALL), hook(receiver, name="errors", on=["error"])]
    async with segue.open(database, notify=notify) as app:
        register(app, call_tool(("look", {"place": "here"})), max_iteration=1)
        limited = await app.ask("look", session_id="limit", agent="a")
        assert (limited["status"], limited["limit"]) == ("error", "iterations")
        await until(lambda: len(receiver.got) == 2)
        assert sorted(receiver.types) == ["task.error", "task.limit"]
        receiver.got.clear()
        register(app, RuntimeError("down"))
        with pytest.raises(RuntimeError):
            await app.ask("look", session_id="error", agent="a")
        await until(lambda: len(receiver.got) == 2)
        assert receiver.types == ["task.error"] * 2 and "down" in receiver.got[0].form["data"]["error"]
        receiver.got.clear()
        register(app, call_tool(("pay", {"amount": 5})), answer("Looked."))
        asked = await app.ask("pay", session_id="cancel", agent="a")
        await app.cancel(asked["task_id"])
        await until(lambda: len(receiver.got) == 2)
        assert sorted(receiver.types) == ["task.cancelled", "task.waiting"]


async def test_a_task_whose_process_ended_is_taken_over(database: Path, receiver: HttpReceiver) -> None:
    async with segue.open(database, notify=[hook(receiver)]) as app:
        register(app, answer("Looked."))
        task = await app.ask("look", session_id="s", agent="a")
        await until(lambda: receiver.types == ["task.done"])
        await app._storage.database.write(  # as its process left it
            lambda connection: connection.execute("UPDATE tasks SET status = 'running', result = NULL")
        )
        assert (await app.resume(task.task_id))["status"] == "done"
        await until(lambda: sorted(receiver.types) == ["task.done", "task.done", "task.taken_over"])


async def test_a_plan_and_a_goal_say_which_limit_they_reached(app: App) -> None:
    steps = [{"step": n, "action": "look", "params": {"place": str(n)}, "description": "look"} for n in (1, 2)]
    plan = json.dumps({"goal": "look", "steps": steps})
    register(app, plan, "Looked.", mode="plan", budget=Budget(tool_calls=1))
    limited = await app.ask("look", session_id="plan", agent="a")
    assert (limited["status"], limited["limit"]) == ("error", "tool_calls")


async def test_a_receiver_is_told_only_what_it_asks_for(database: Path, receiver: HttpReceiver) -> None:
    notify = [hook(receiver, agents=["b"]), hook(receiver, name="other", on=["waiting"])]
    async with segue.open(database, notify=notify) as app:
        register(app, answer("Here."), answer("There."))
        await app.ask("look", session_id="s", agent="a")
        register(app, answer("There."), agent_id="b")
        await app.ask("look", session_id="t", agent="b")
    assert [each.form["data"]["agent_id"] for each in receiver.got] == ["b"]


@pytest.mark.usefixtures("hurried")
async def test_a_failed_attempt_is_repeated_with_the_same_id(database: Path) -> None:
    with HttpReceiver(500, 302) as receiver:
        async with segue.open(database, notify=[hook(receiver)]) as app:
            register(app, answer("Here."))
            await app.ask("look", session_id="s", agent="a")
            await until(lambda: len(receiver.got) == 3)
        assert len({each.headers["webhook-id"] for each in receiver.got}) == 1
        async with segue.open(database) as app:
            assert await app.notifications.list() == []


@pytest.mark.usefixtures("hurried")
async def test_what_is_not_taken_is_dead_until_it_is_replayed(database: Path) -> None:
    with HttpReceiver(*[503] * 6) as receiver:
        async with segue.open(database, notify=[hook(receiver)]) as app:
            register(app, answer("Here."))
            done = await app.ask("look", session_id="s", agent="a")
            await until(lambda: app.notifications.list("dead"))
            (dead,) = await app.notifications.list()
            assert dead.is_dead and (dead.attempts, dead.error) == (3, "it answered with status 503")
            assert dead.json() == {
                "notification_id": receiver.got[0].form["id"],
                "task_id": done["task_id"],
                "session_id": "s",
                "receiver": "ops",
                "kind": "done",
                "attempts": 3,
                "error": "it answered with status 503",
                "created_at": dead.created_at,
                "status": "dead",
                "next_attempt": None,
            }
            assert not await app.notifications.replay("msg_0") and await app.notifications.list("pending") == []
            assert not await app.notifications.replay(dead.notification_id, prefix="other:")
            assert await app.notifications.replay(dead.notification_id)
            await until(lambda: len(receiver.got) == 6)
            await until(lambda: app.notifications.list("dead"))
            assert await app.notifications.replay_dead(prefix="other:") == 0
            assert await app.notifications.replay_dead() == 1
            await until(lambda: len(receiver.got) == 7)
        async with segue.open(database) as app:
            assert await app.notifications.list() == []


async def test_a_process_that_ends_leaves_what_it_cannot_send_to_the_next(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.runtime.notifications.CLOSE_SECONDS", 0.05)
    with HttpReceiver() as receiver:
        receiver.go.clear()
        async with segue.open(database, notify=[hook(receiver)]) as app:
            register(app, answer("Here."))
            await app.ask("look", session_id="s", agent="a")
        async with segue.open(database) as app:
            (left,) = await app.notifications.list("pending")
            assert left.attempts == 0
        receiver.go.set()
        async with segue.open(database, notify=[hook(receiver)]):
            pass
        assert {each.form["id"] for each in receiver.got} == {left.notification_id}
        async with segue.open(database) as app:
            assert await app.notifications.list() == []


SCRIPT = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"


@pytest.mark.usefixtures("hurried")
async def test_a_command_reads_the_notification(database: Path, tmp_path: Path) -> None:
    written = tmp_path / "written"
    commands = {
        "good": (sys.executable, "-c", SCRIPT, str(written)),
        "bad": (sys.executable, "-c", "import sys; sys.exit('no such room')"),
        "slow": (sys.executable, "-c", "import time; time.sleep(60)"),
        "none": ("no-such-program",),
    }
    notify = [
        Receiver(name=name, command=argv, timeout=0.5 if name == "slow" else 20) for name, argv in commands.items()
    ]
    async with segue.open(database, notify=notify) as app:
        register(app, answer("Here."))
        await app.ask("look", session_id="s", agent="a")
        await until(written.exists)
        await until(written.read_text)
        assert json.loads(written.read_text())["type"] == "task.done"

        async def three() -> bool:
            return len(await app.notifications.list("dead")) == 3

        await until(three)
        why = {each.receiver: each.error for each in await app.notifications.list()}
    assert why == {
        "bad": "the command ended with code 1: no such room",
        "slow": "the command took longer than 0.5 s",
        "none": "the command cannot be started: No such file or directory",
    }


APPRISE = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@APPRISE
async def test_a_mail_or_chat_service_is_sent_a_sentence(
    database: Path, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOM", f"json://127.0.0.1:{receiver.port}/room")
    async with segue.open(database, notify=[Receiver(name="room", to="ROOM")]) as app:
        register(app, call_tool(("pay", {"amount": 5})))
        await app.ask("请付款", session_id="s", agent="a")
    (sent,) = receiver.got
    assert sent.form["title"] == "a 正在等待答复"
    assert "请付款" in sent.form["message"] and 'pay {"amount": 5}' in sent.form["message"]


async def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(MissingExtra, match=r"segue\[notify\]"):
        await segue.open(":memory:", notify=[Receiver(name="room", to="json://localhost")])


async def test_without_receivers_nothing_is_stored(app: App) -> None:
    register(app, answer("Here."))
    await app.ask("look", session_id="s", agent="a")
    assert await app.notifications.list() == []


async def test_what_the_bot_of_a_conversation_does_is_part_of_the_conversation(
    database: Path, receiver: HttpReceiver
) -> None:
    async with segue.open(database, notify=[hook(receiver)]) as app:
        register(app, answer("Here."))
        config = ConversationConfig(user_mode="scripted_user", script=["look"], bot_mode="segue:react", bot_agent="a")
        await converse(app, config, conversation_id="talk")
        (bots,) = await app.tasks.list(session_id="talk.bot")
        assert bots.status == "done"
    assert {each.form["data"]["session_id"] for each in receiver.got} == {"talk"}


URL = "https://example.com/hook"


@APPRISE
@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"url": URL, "secret": "NO_SECRET"}, "set NO_SECRET"),
        ({"url": URL, "secret": "SHORT_SECRET"}, "at least 24 bytes"),
        ({"url": "http://127.0.0.1:9/x", "secret": "HOOK_SECRET"}, "allow_private = true"),
        ({"url": "http://localhost/x", "secret": "HOOK_SECRET"}, "localhost, which is not a public address"),
        ({"to": "NO_SERVICE"}, "set NO_SERVICE"),
        ({"to": "nothing://x"}, "Apprise cannot use"),
    ],
)
async def test_a_receiver_that_cannot_be_told_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], match: str
) -> None:
    monkeypatch.setenv("SHORT_SECRET", base64.b64encode(b"short").decode())
    with pytest.raises(ConfigurationError, match=match):
        await segue.open(":memory:", notify=[Receiver(name="x", **fields)])


async def test_two_receivers_of_one_name_are_refused() -> None:
    one = Receiver(name="x", command=["true"])
    with pytest.raises(ConfigurationError, match="called 'x'"):
        await segue.open(":memory:", notify=[one, one])
    with pytest.raises(ConfigurationError, match="list of segue"):
        await segue.open(":memory:", notify=["x"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ('name = "x"', "exactly one of url, command and to"),
        ('name = "x"\nurl = "https://example.com"', "url and secret go together"),
        ('name = "x"\ncommand = ["a"]\nallow_private = true', "allow_private goes with a url"),
        ('name = "x"\ncommand = ["a"]\non = ["lunch"]', "'x' in .*: on: "),
        ('name = "x"\ncommand = ["a"]\nsecrets = "y"', "secrets: Extra inputs"),
        ('command = ["a"]', r"'\?' in .*: name: Field required"),
    ],
)
def test_a_table_that_is_wrong_is_named(tmp_path: Path, table: str, match: str) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(f"[[notify]]\n{table}\n")
    with pytest.raises(ConfigurationError, match=match):
        load_receivers(file)


def test_attempts_are_made_for_about_a_day() -> None:
    waits = [backoff(attempts) for attempts in range(1, MOST_ATTEMPTS + 1)]
    assert waits.pop() is None
    assert 0.7 * 86_400 < sum(wait or 0 for wait in waits) < 1.3 * 86_400
    assert all(a and b and a < b for a, b in pairwise(waits[:8]))
