"""Files of messages: what models are sent of them, what is kept, copied and deleted, and what is refused."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest

from segue.app import App
from segue.core.agents import Agent, Budget
from segue.core.errors import InvalidExport, InvalidMessage, KeyUsed
from segue.core.models import tokens
from segue.entry import open as open_app
from segue.runtime.message_files import Uploaded
from segue.tools.registry import tool
from tests.fakes import answer, call_tool
from tests.loopback import Json, LoopbackServer, Text, ToolCalls

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
PDF = b"%PDF-1.4\n%%EOF\n"
DIGEST = sha256(PNG).hexdigest()
PLAN = '{"goal": "g", "steps": [{"step_id": "1", "description": "think", "action": "none"}]}'
FINISH = '{"command": "finish", "command_args": {"summary": "done", "result": "a dot"}}'
REPORT = '{"command": "report", "command_args": {"number": %s}}'
GROWING = [
    ("react", [*(call_tool(("report", {"number": n})) for n in range(30)), answer("read")]),
    ("controller", [PLAN, *(REPORT % n for n in range(28)), FINISH]),
]
"""Tasks of about 30 rounds."""
ANSWER = '{"action": {"result": {"action_type": "ANSWER", "output": {"answer": "a dot"}}}}'


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("s.db.files/*/*"))


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "s.db")


@asynccontextmanager
async def talking(server: LoopbackServer, database: str, **fields: Any) -> AsyncIterator[App]:
    agent = Agent(
        agent_id="eyes",
        model="openai:m",
        base_url=server.base_url,
        accepts=fields.pop("accepts", ("image", "pdf")),
        mode="direct",
        **fields,
    )
    async with open_app(database, agents=[agent]) as app:
        yield app


def parts(body: Json, place: int = -1) -> list[Json]:
    content = body["messages"][place]["content"]
    assert isinstance(content, list)
    return content


async def test_an_image_and_a_pdf_are_sent_as_parts_and_a_text_within_the_prompt(database: str, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    with LoopbackServer([Text("a dot")]) as server:
        async with talking(server, database) as app:
            files = [tmp_path / "dot.png", ("paper.pdf", PDF), ("注.txt", "销售".encode("gb18030"))]
            result = await app.ask("What is it?", agent="eyes", session_id="s", files=files)
            task = await app.task(result["task_id"])
            history = await app.history("s")
    text, image, pdf = parts(server.requests[0].body)
    assert text["text"].startswith("What is it?\n\n") and "销售" in text["text"]
    assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}
    sent = {"filename": "paper.pdf", "file_data": f"data:application/pdf;base64,{b64encode(PDF).decode()}"}
    assert pdf == {"type": "file", "file": sent}
    assert [file["name"] for file in task.attachments] == ["dot.png", "paper.pdf", "注.txt"]
    assert task.message == "What is it?"
    assert [file["digest"] for file in history[0]["attachments"]] == [file["digest"] for file in task.attachments]
    assert contents(tmp_path) == sorted(file["digest"] for file in task.attachments)


@pytest.mark.parametrize(
    ("mode", "protocol", "script"),
    [
        ("direct", "json", ["a dot"]),
        ("react", "json", [ANSWER]),
        ("react", "native", ["a dot"]),
        ("plan", "json", [PLAN, "a dot"]),
        ("plan_react", "json", [PLAN, ANSWER]),
        ("lifecycle", "json", ['{"tasks": [{"id": "1", "description": "look"}]}', ANSWER]),
        ("controller", "json", [PLAN, FINISH]),
    ],
)
async def test_every_mode_sends_it_with_each_request(
    database: str, mode: str, protocol: Any, script: list[str]
) -> None:
    with LoopbackServer([Text(reply) for reply in script]) as server:
        async with talking(server, database, protocol=protocol) as app:
            result = await app.ask("Look", agent="eyes", mode=mode, files=[("dot.png", PNG)])
    assert result["success"], result
    for request in server.requests:
        images = [
            part
            for message in request.body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image_url"
        ]
        assert len(images) == 1, request.body["messages"]


async def test_what_the_model_does_not_accept_is_refused_before_anything_is_stored(
    database: str, tmp_path: Path
) -> None:
    with LoopbackServer([]) as server:
        async with talking(server, database, accepts=("image",)) as app:
            with pytest.raises(InvalidMessage, match=r"openai:m does not accept PDF files: leave out paper\.pdf"):
                await app.ask("Read it", agent="eyes", files=[("paper.pdf", PDF)])
            assert await app.tasks.list() == [] and contents(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.zip", b"PK\x03\x04\x00\x00", r"a\.zip has a type that models cannot read"),
        ("photo.png", b"\x00\x01", r"photo\.png has a type"),
        ("a.txt", b"", r"a\.txt is empty"),
        ("big.txt", b"a" * (1024 * 1024 + 1), r"big\.txt has more than 1048576 bytes.*SEGUE_FILE_MB"),
    ],
)
async def test_a_file_that_cannot_be_sent_says_why(
    monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, why: str
) -> None:
    monkeypatch.setenv("SEGUE_FILE_MB", "1")
    async with open_app(":memory:") as app:
        with pytest.raises(InvalidMessage, match=why):
            await app.ask("Read it", files=[(name, content)])


async def test_the_number_of_files_and_their_sum_are_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEGUE_MESSAGE_FILES", "2")
    monkeypatch.setenv("SEGUE_MESSAGE_FILES_MB", "1")
    async with open_app(":memory:") as app:
        with pytest.raises(InvalidMessage, match=r"3 files; the limit is 2.*SEGUE_MESSAGE_FILES"):
            await app.ask("Read", files=[("a.txt", b"a")] * 3)
        with pytest.raises(InvalidMessage, match=r"1200000 bytes; the limit is 1048576.*SEGUE_MESSAGE_FILES_MB"):
            await app.ask("Read", files=[("a.txt", b"a" * 600_000), ("b.txt", b"b" * 600_000)])
        with pytest.raises(InvalidMessage, match=r"nothing\.txt cannot be read: No such file"):
            await app.ask("Read", files=[tmp_path / "nothing.txt"])


async def test_an_earlier_image_is_sent_again_and_counted_and_named_where_it_does_not_fit(database: str) -> None:
    with LoopbackServer([Text("a dot"), Text("black"), Text("again")]) as server:
        async with talking(server, database, budget=Budget(file_tokens=1500)) as app:
            await app.ask("Look", agent="eyes", session_id="s", files=[("one.png", PNG)])
            await app.ask("Which colour?", agent="eyes", session_id="s")
            await app.ask("And this?", agent="eyes", session_id="s", files=[("two.gif", b"GIF89a" + PNG)])
    second, third = (request.body["messages"] for request in server.requests[1:])
    assert second[1]["content"][1]["type"] == "image_url" and second[-1]["content"] == "Which colour?"
    assert third[1]["content"] == 'Look\n\n<file name="one.png" omitted="the files in a prompt are limited"/>'
    assert third[-1]["content"][1]["image_url"]["url"].startswith("data:image/gif;base64,")


async def test_a_text_that_does_not_fit_is_truncated_and_says_so(database: str) -> None:
    with LoopbackServer([Text("ok")]) as server:
        async with talking(server, database, budget=Budget(file_tokens=1000)) as app:
            await app.ask("Read", agent="eyes", files=[("long.txt", b"word " * 3000)])
    sent = server.requests[0].body["messages"][-1]["content"]
    assert "more characters]\n</file>" in sent and len(sent) < 3200


@pytest.mark.parametrize(("mode", "script"), GROWING)
async def test_a_prompt_stays_within_its_budget_with_the_files(database: str, mode: str, script: list[str]) -> None:
    @tool(read_only=True)
    def report(number: int) -> str:
        """Report at length."""
        return f"report {number}, " + "and more " * 100

    budget = Budget(prompt_tokens=5000, file_tokens=2000, tool_calls=100)
    with LoopbackServer([Text(reply) for reply in script]) as server:
        async with talking(server, database, budget=budget, tools=(report,), max_iteration=40) as app:
            await app.ask("Read", agent="eyes", mode=mode, files=[("long.txt", b"word " * 3000)])
        server.assert_spent()
    sizes = [sum(tokens(message["content"]) for message in request.body["messages"]) for request in server.requests]
    assert max(sizes) <= 5000


async def test_a_native_prompt_stays_within_its_budget_with_the_files(database: str) -> None:
    @tool(read_only=True)
    def report(number: int) -> str:
        """Report at length."""
        return f"report {number}, " + "and more " * 100

    budget = Budget(prompt_tokens=16_000, file_tokens=8_000, tool_calls=100)
    script = [*(ToolCalls([(f"c{n}", "report", f'{{"number": {n}}}')]) for n in range(40)), Text("Done.")]
    with LoopbackServer(script) as server:
        native = {"protocol": "native", "budget": budget, "tools": (report,), "max_iteration": 50}
        async with talking(server, database, **native) as app:
            await app.ask("Read", agent="eyes", mode="react", files=[("long.txt", b"word " * 30_000)])
        server.assert_spent()
    sizes = [
        sum(tokens(message["content"] or "") + tokens(str(message.get("tool_calls") or "")) for message in sent)
        for sent in (request.body["messages"] for request in server.requests)
    ]
    assert 10_000 < max(sizes) <= 16_000


async def test_another_model_is_told_what_it_cannot_be_sent(database: str) -> None:
    with LoopbackServer([Text("a dot"), Text("no idea")]) as server:
        async with talking(server, database) as app:
            await app.ask("Look", agent="eyes", session_id="s", files=[("dot.png", PNG)])
        async with talking(server, database, accepts=()) as app:
            await app.ask("And now?", agent="eyes", session_id="s")
    earlier = server.requests[1].body["messages"][1]["content"]
    assert earlier == 'Look\n\n<file name="dot.png" omitted="the model does not accept it"/>'


async def test_a_lost_content_is_named_to_the_model_and_found_by_the_check(database: str, tmp_path: Path) -> None:
    with LoopbackServer([Text("a dot"), Text("gone")]) as server:
        async with talking(server, database) as app:
            await app.ask("Look", agent="eyes", session_id="s", files=[("dot.png", PNG)])
            stored = tmp_path / "s.db.files" / DIGEST[:2] / DIGEST
            stored.write_bytes(b"changed")
            assert (await app.files.check()).damaged == ("dot.png (s)",)
            stored.unlink()
            assert (await app.files.check()).missing == ("dot.png (s)",)
            await app.ask("And now?", agent="eyes", session_id="s")
            await app.files.upload("again.png", PNG)
            assert (await app.files.check()).missing == ()
    assert 'omitted="its content is missing"' in server.requests[1].body["messages"][1]["content"]


async def test_a_content_is_stored_once_and_deleted_with_the_last_session_that_names_it(
    database: str, tmp_path: Path
) -> None:
    with LoopbackServer([Text("a dot"), Text("a dot")]) as server:
        async with talking(server, database) as app:
            for session in ("one", "two"):
                await app.ask("Look", agent="eyes", session_id=session, files=[(f"{session}.png", PNG)])
            snapshots = await app.sessions.snapshots("one")
            await app.rewind.fork("one", snapshots[0].checkpoint_id, session_id="three")
            for session in ("one", "two", "three"):
                assert contents(tmp_path) == [DIGEST]
                await app.sessions.delete(session)
            assert contents(tmp_path) == []


async def test_an_export_holds_the_contents_and_an_import_checks_them(database: str, tmp_path: Path) -> None:
    with LoopbackServer([Text("a dot"), Text("a dot")]) as server:
        async with talking(server, database) as app:
            await app.ask("Look", agent="eyes", session_id="s", files=[("dot.png", PNG)])
            document = await app.sessions.export("s")
            await app.sessions.delete("s")
            broken = {**document, "files": {DIGEST: b64encode(PNG + b"x").decode()}}
            with pytest.raises(InvalidExport, match="not what its digest says"):
                await app.sessions.import_(broken, session_id="t")
            with pytest.raises(InvalidExport, match=r"does not hold its file dot\.png"):
                await app.sessions.import_({**document, "files": {}}, session_id="t")
            assert contents(tmp_path) == []
            await app.sessions.import_(document, session_id="t")
            assert contents(tmp_path) == [DIGEST]
            await app.ask("Again", agent="eyes", session_id="t")
    assert document["files"] == {DIGEST: b64encode(PNG).decode()}
    assert parts(server.requests[1].body, 1)[1]["type"] == "image_url"


async def test_an_upload_is_taken_along_by_its_owner_and_swept_after_a_day(database: str, tmp_path: Path) -> None:
    with LoopbackServer([Text("a dot")]) as server:
        async with talking(server, database) as app:
            given = await app.files.upload("dot.png", PNG, "ann:")
            left = await app.files.upload("left.txt", b"left behind", "ann:")
            with pytest.raises(InvalidMessage, match="There is no upload"):
                await app.ask("Look", agent="eyes", files=[Uploaded(given["upload_id"], "bob:")])
            await app.ask("Look", agent="eyes", files=[Uploaded(given["upload_id"], "ann:")])
            assert contents(tmp_path) == sorted([DIGEST, left["digest"]])
            await app.files.discard(left["upload_id"], "ann:")
            assert contents(tmp_path) == [DIGEST]


async def test_the_state_holds_no_content(database: str, tmp_path: Path) -> None:
    picture = PNG + b"0123456789" * 50_000
    with LoopbackServer([Text("a dot")]) as server:
        async with talking(server, database) as app:
            await app.ask("Look", agent="eyes", session_id="s", files=[("dot.png", picture)])
            assert len(str(await app.sessions.snapshots("s"))) < 10_000
    assert (tmp_path / "s.db").stat().st_size < 300_000


async def test_files_do_not_join_an_unfinished_task_and_an_edited_message_keeps_them(database: str) -> None:
    with LoopbackServer([Text("a dot"), Text("black")]) as server:
        async with talking(server, database) as app:
            await app.ask("Look", agent="eyes", session_id="s", files=[("dot.png", PNG)])
            first = (await app.sessions.snapshots("s"))[-1].checkpoint_id
            task = await app.rewind.edit("s", first, session_id="t", message="Which colour?")
            async for _ in app.follow(task.task_id):
                pass
    assert parts(server.requests[1].body)[0]["text"].startswith("Which colour?")
    assert parts(server.requests[1].body)[1]["type"] == "image_url"


async def test_the_same_key_with_another_file_is_refused(database: str) -> None:
    with LoopbackServer([Text("a dot")]) as server:
        async with talking(server, database) as app:
            options: dict[str, Any] = {"agent": "eyes", "session_id": "s", "idempotency_key": "k"}
            first = await app.ask("Look", files=[("dot.png", PNG)], **options)
            again = await app.ask("Look", files=[("dot.png", PNG)], **options)
            assert again["task_id"] == first["task_id"]
            with pytest.raises(KeyUsed):
                await app.ask("Look", files=[("other.png", PNG + b"x")], **options)


async def test_postgresql_keeps_a_content_as_long_as_a_session_or_its_fork(postgres_url: str) -> None:
    def stored() -> list[Any]:
        with psycopg.connect(postgres_url) as connection:
            return connection.execute("SELECT digest, content FROM segue.files").fetchall()

    with LoopbackServer([Text("a dot"), Text("black"), Text("still black")]) as server:
        async with talking(server, postgres_url) as app:
            given = await app.files.upload("dot.png", PNG, "ann:")
            await app.ask("Look", agent="eyes", session_id="s", files=[Uploaded(given["upload_id"], "ann:")])
            await app.rewind.fork("s", (await app.sessions.snapshots("s"))[0].checkpoint_id, session_id="t")
            document = await app.sessions.export("s")
        async with talking(server, postgres_url) as app:
            await app.ask("Which colour?", agent="eyes", session_id="s")
            await app.sessions.delete("s")
            assert stored() == [(DIGEST, PNG)] and (await app.files.check()).count == 1
            await app.ask("Which colour?", agent="eyes", session_id="t")
            await app.sessions.delete("t")
            assert stored() == []
            await app.sessions.import_(document, session_id="u")
            assert [file["name"] for file in (await app.history("u"))[0]["attachments"]] == ["dot.png"]
            assert stored() == [(DIGEST, PNG)]
        server.assert_spent()
    first, *later = [request.body for request in server.requests]
    assert [parts(body, 1)[1] for body in later] == [parts(first)[1]] * 2
