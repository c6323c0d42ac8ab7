"""Agents as A2A servers, asked by the SDK's own client: streams, tasks, questions, approvals, push notifications."""

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, AgentCardResolutionError
from a2a.helpers import (
    get_artifact_text,
    get_data_parts,
    get_message_text,
    new_data_part,
    new_raw_part,
    new_text_part,
)
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InvalidParamsError

import segue
from segue.core.agents import Agent
from segue.core.flows import FlowConfig
from segue.core.message import declared_kind
from segue.runtime.senders import PublicTransport, public_addresses
from segue.server import ServerSettings
from segue.tools.adapters.a2a import REPEATS_JOIN
from tests.cases import cases
from tests.fakes import ScriptedChatModel, call_tool
from tests.polling import until, wait_until
from tests.receivers import HttpReceiver

from .serving import ALPHA, BETA, KEY, KEYS, Held, Json, Served, chat
from .shop import refund, reply

BINDINGS = ("JSONRPC", "HTTP+JSON")
DONE, WAITS, WORKS = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_WORKING
CANCELLED, FAILED = TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_FAILED


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def served(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000, push_hosts=("127.0.0.1",))
    path = tmp_path_factory.mktemp("a2a") / "segue.db"
    with Served(path, settings, agents=[held.agent("shop", reply, tools=(refund,), description="Sells fruit.")]) as it:
        yield it


@asynccontextmanager
async def opened(
    url: str, agent: str = "shop", headers: Json | None = ALPHA, binding: str = "JSONRPC", **options: Any
) -> AsyncIterator[Client]:
    """The SDK's client of an agent, as its card describes it."""
    async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        card = await A2ACardResolver(http, f"{url}/a2a/{agent}").get_agent_card()
        config = ClientConfig(
            httpx_client=http, supported_protocol_bindings=[binding], use_client_preference=True, **options
        )
        yield ClientFactory(config).create(card)


def message(text: str | Any, message_id: str, task: Task | None = None, context_id: str = "") -> Message:
    parts = [new_text_part(text) if isinstance(text, str) else new_data_part(text)]
    about = {"task_id": task.id, "context_id": task.context_id} if task else {"context_id": context_id}
    return Message(message_id=message_id, role=Role.ROLE_USER, parts=parts, **about)


async def sent(client: Client, asked: Message, **configuration: Any) -> list[StreamResponse]:
    request = SendMessageRequest(message=asked, configuration=SendMessageConfiguration(**configuration))
    return [response async for response in client.send_message(request)]


async def send(client: Client, text: Any, message_id: str, task: Task | None = None, **configuration: Any) -> Task:
    """The task once it stopped, or at once with `return_immediately`."""
    responses = await sent(client, message(text, message_id, task), **configuration)
    return await client.get_task(GetTaskRequest(id=responses[0].task.id))


def answer(task: Task) -> str:
    return "".join(get_artifact_text(artifact) for artifact in task.artifacts)


def written(responses: list[StreamResponse]) -> str:
    """The artifact that the updates make up."""
    text = ""
    for response in responses:
        if response.HasField("artifact_update"):
            update = response.artifact_update
            text = (text if update.append else "") + get_artifact_text(update.artifact)
    return text


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_answered_streamed_or_whole(served: Served, held: Held, binding: str) -> None:
    held.go.set()
    async with opened(served.url, binding=binding) as client:
        responses = await sent(client, message("please hold", f"stream-{binding}"))
    assert responses[0].HasField("task") and responses[-1].status_update.status.state == DONE
    assert written(responses) == "Settled, 好的."
    done = [get_message_text(each.status_update.status.message) for each in responses if each.HasField("status_update")]
    assert "calling hold" in done
    async with opened(served.url, binding=binding, streaming=False) as client:
        (whole,) = await sent(client, message("apples and kiwis", f"whole-{binding}"))
        assert whole.task.status.state == DONE and answer(whole.task) == "Heard apples, kiwis."
        assert [each.role for each in whole.task.history] == [Role.ROLE_USER]


async def test_a_context_is_a_session_and_a_message_that_comes_twice_is_one(served: Served) -> None:
    async with opened(served.url) as client:
        first = message("apples", "m1", context_id="basket")
        one, again = (await sent(client, first))[0].task, (await sent(client, first))[0].task
        other = (await sent(client, message("pears", "m2", context_id="basket")))[0].task
        assert one.id == again.id != other.id and other.context_id == "basket"
        done = await client.get_task(GetTaskRequest(id=other.id))
        assert answer(done) == "Heard apples, pears.", "the session knows the first message"
        listed = await client.list_tasks(ListTasksRequest(context_id="basket", page_size=1))
        assert ([task.id for task in listed.tasks], listed.total_size) == ([other.id], 2)
        rest = await client.list_tasks(ListTasksRequest(context_id="basket", page_token=listed.next_page_token))
        assert [task.id for task in rest.tasks] == [one.id] and not rest.next_page_token


async def test_what_names_no_context_joins_only_what_is_recent_unless_its_client_says_so(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {**ALPHA, "A2A-Extensions": REPEATS_JOIN}
    async with opened(served.url) as client, opened(served.url, headers=names) as joining:
        first = await send(client, "apples", "1")
        assert (await send(client, "apples", "1")).id == first.id
        monkeypatch.setattr("segue.server.a2a.request.TRY_SECONDS", -1)
        other = await send(client, "apples", "1")
        assert other.id != first.id and other.context_id != first.context_id
        assert (await send(joining, "apples", "1")).id == other.id
        in_context = message("apples", "1", context_id="counted")
        one, again = [(await sent(client, in_context))[0].task.id for _ in range(2)]
        assert one == again


@pytest.mark.parametrize("name", ["x" * 256, "x\0y", "x\ny"])
async def test_ids_are_short_and_have_no_control_characters(served: Served, name: str) -> None:
    async with opened(served.url) as client:
        with pytest.raises(InvalidParamsError, match="messageId has at most 255 characters"):
            await send(client, "apples", name)
        task = await send(client, "apples", "好" * 255)
        with HttpReceiver() as receiver, pytest.raises(InvalidParamsError, match="at most 255 characters"):
            await client.create_task_push_notification_config(hook_of(task, receiver, name))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_has_not_is_refused(served: Served, number: str) -> None:
    form = {"message": {"role": "ROLE_USER", "messageId": "n", "parts": [{"data": {"n": [float(number)]}}]}}
    with served.client(headers={**ALPHA, "A2A-Version": "1.0", "Content-Type": "application/json"}) as http:
        refused = http.post("/a2a/shop/message:send", content=json.dumps(form))
    assert refused.status_code == 400 and "which JSON has not" in refused.text


@pytest.mark.parametrize("parts", [[{"data": {"k": 1}}] * 2_000, [{"text": "plums"}, {"data": [1] * 5_000}]])
def test_a_message_has_not_so_many_values_that_others_wait_for_it(served: Served, parts: list[Json]) -> None:
    asked = {"message": {"role": "ROLE_USER", "messageId": "values", "parts": parts}}
    form = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": asked}
    with served.client(headers={**ALPHA, "A2A-Version": "1.0"}) as http:
        for path, body in (("/a2a/shop/message:send", asked), ("/a2a/shop", form)):
            refused = http.post(path, json=body)
            assert refused.status_code == 413 and "more than 5000 values" in refused.text


async def test_tasks_are_listed_by_pages_of_a_state_and_of_a_time(database: Path) -> None:
    agent = Agent(agent_id="shop", model=ScriptedChatModel(reply), tools=(refund,), mode="react")
    with Served(database, ServerSettings(), agents=[agent]) as served:
        async with opened(served.url, headers={}, streaming=False) as client:
            done = [await send(client, "apples", f"m{number}") for number in range(3)]
            waits = await send(client, "please refund", "r")

            async def listed(**which: Any) -> list[str]:
                ids, token = [], ""
                while True:
                    page = await client.list_tasks(ListTasksRequest(page_size=2, page_token=token, **which))
                    ids += [task.id for task in page.tasks]
                    if not (token := page.next_page_token):
                        assert len(page.tasks) <= 2 and page.total_size == len(ids)
                        return ids

            ids = [task.id for task in reversed(done)]
            assert await listed() == [waits.id, *ids]
            assert await listed(status=DONE) == ids and await listed(status=WAITS) == [waits.id]
            assert await listed(status=TaskState.TASK_STATE_REJECTED) == []
            assert await listed(status_timestamp_after=done[2].status.timestamp) == [waits.id, done[2].id]
            with pytest.raises(A2AError, match="page token"):
                await client.list_tasks(ListTasksRequest(page_token="none"))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_file_may_be_as_large_over_each_binding(served: Served, binding: str) -> None:
    parts: list[Any] = [new_text_part("plums"), {"raw": b"x" * 300_000, "filename": "a.png"}]
    file = Message(message_id=binding, role=Role.ROLE_USER, parts=parts)
    async with opened(served.url, binding=binding, streaming=False) as client:
        (response,) = await sent(client, file)
    assert response.task.status.state in (DONE, FAILED), "the task decides whether its model reads the file"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_approval_is_input_that_a_further_message_of_the_task_gives(served: Served, binding: str) -> None:
    async with opened(served.url, binding=binding) as client:
        for reply_with, result in (("yes", "refunded 5"), ({"verdict": "reject", "reason": "no"}, "rejected")):
            asked = await send(client, "please refund", f"{result}-{binding}")
            assert asked.status.state == WAITS and "refund(amount=5)" in get_message_text(asked.status.message)
            with pytest.raises(A2AError, match="another context"):
                await sent(client, message("yes", "x", Task(id=asked.id, context_id="elsewhere")))
            settled = await send(client, reply_with, f"{result}-answer-{binding}", asked)
            assert settled.id == asked.id and settled.status.state == DONE and answer(settled) == "Settled, 好的."
            with served.client(headers=ALPHA) as http:
                assert result in http.get(f"/api/tasks/{settled.id}").text
        with pytest.raises(A2AError, match="has ended"):
            await sent(client, message("more", "y", settled))


@pytest.mark.parametrize(("binding", "late"), [*zip(BINDINGS, ("yes", {"verdict": "approve"}), strict=True)])
async def test_an_answer_approves_only_what_its_client_was_shown(served: Served, binding: str, late: Any) -> None:
    async def twice(client: Client, name: str) -> tuple[Task, Task]:
        """The task as its client was shown it, and as it is since a colleague approved the first call."""
        asked = await send(client, "refund twice", name)
        await asyncio.to_thread(served.do, served.service.app.answer(asked.id, "approve"))
        return asked, await client.get_task(GetTaskRequest(id=asked.id))

    def amounts(task: Task) -> list[int]:
        with served.client(headers=ALPHA) as http:
            return [call["arguments"]["amount"] for call in http.get(f"/api/tasks/{task.id}").json()["calls"]]

    name = f"late-{binding}-{late}"
    async with opened(served.url, binding=binding) as client:
        asked, now = await twice(client, name)
        for _ in range(2):  # it may come twice
            (*_, last) = await sent(client, message(late, f"{name}-1", asked))
            status = last.status_update.status
            assert status.state == WAITS and "refund(amount=500)" in get_message_text(status.message)
            assert amounts(asked) == [5]
        assert (await send(client, late, f"{name}-2", asked)).status.state == DONE and amounts(asked) == [5, 500]

        asked, now = await twice(client, f"{name}-named")
        for task, state in ((asked, WAITS), (now, DONE)):
            named = message(late, f"{name}-{state}", asked)
            named.metadata["interrupt_id"] = task.status.message.metadata["interrupt_id"]
            (*_, last) = await sent(client, named)
            assert last.status_update.status.state == state
        assert amounts(asked) == [5, 500]


async def test_a_message_approves_nothing_that_its_person_was_not_shown(served: Served) -> None:
    """The page began the task: to the A2A client that only knows its id, the first message shows the question."""
    with served.client(headers=ALPHA) as http:
        began = await asyncio.to_thread(chat, http, "please refund", agent_id="shop", session_id="elsewhere")
    task = Task(id=began[-1]["task_id"], context_id="elsewhere")
    async with opened(served.url) as client:
        shown = await send(client, "yes", "unseen", task)
        assert shown.status.state == WAITS and "refund(amount=5)" in get_message_text(shown.status.message)
        assert (await send(client, "yes", "seen", task)).status.state == DONE


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_approves_nothing_whose_question_came_after_its_stream_broke(
    database: Path, binding: str
) -> None:
    held = Held()

    def both(messages: Any) -> str:
        said = "held one" in str(messages)
        return (
            reply(messages)
            if "refunded" in str(messages)
            else call_tool(("refund", {"amount": 5}) if said else ("hold", {"name": "one"}))
        )

    with Served(database, ServerSettings(), agents=[held.agent("shop", both, tools=(refund,))]) as served:
        async with opened(served.url, headers={}, binding=binding) as client:
            stream = client.send_message(SendMessageRequest(message=message("hold, then refund", "first")))
            task = (await anext(stream)).task
        await asyncio.to_thread(held.begun.wait)
        await until(lambda: not served.service.streams)
        held.go.set()
        await until(lambda: bool(served.do(served.service.app.waiting())))
        async with opened(served.url, headers={}, binding=binding) as client:
            shown = await send(client, "yes", "unseen", task)
            assert shown.status.state == WAITS and "refund(amount=5)" in get_message_text(shown.status.message)
            assert (await send(client, "yes", "seen", task)).status.state == DONE


async def test_a_client_that_approves_each_call_is_asked_once_for_each(served: Served) -> None:
    async with opened(served.url) as client:
        asked = await send(client, "refund twice", "each")
        again = await send(client, "yes", "each-1", asked)
        assert "refund(amount=500)" in get_message_text(again.status.message)
        assert (await send(client, "yes", "each-2", asked)).status.state == DONE


async def test_a_question_is_input_that_a_further_message_of_the_task_gives(database: Path, held: Held) -> None:
    flow = FlowConfig.model_validate({"subflows_config": {"controller": {"agent": "shop"}, "executor": {"tools": []}}})
    agent = held.agent("shop", reply).model_copy(update={"mode": "paint"})
    with Served(database, ServerSettings(), agents=[agent], modes={"paint": flow}) as served:
        async with opened(served.url, headers={}) as client:
            asked = await send(client, "paint it", "q1")
            assert asked.status.state == WAITS and get_message_text(asked.status.message) == "Which colour?"
            told = await send(client, "blue", "q2", asked)
    assert told.id == asked.id and told.status.state == DONE and answer(told) == "It is blue."
    assert [(each.role == Role.ROLE_USER, get_message_text(each)) for each in told.history] == [
        (True, "paint it"), (False, "Which colour?"), (True, "blue"),
    ]  # fmt: skip


async def test_a_task_is_followed_by_whom_it_was_left_and_can_be_cancelled(database: Path) -> None:
    held = Held()
    with Served(database, ServerSettings(), agents=[held.agent("shop", reply)]) as served:
        async with opened(served.url, headers={}, streaming=False) as client, opened(served.url, headers={}) as other:
            (begun,) = await sent(client, message("please hold", "a"), return_immediately=True)
            assert begun.task.status.state in (WORKS, TaskState.TASK_STATE_SUBMITTED)
            await asyncio.to_thread(held.begun.wait, 60)
            following = other.subscribe(SubscribeToTaskRequest(id=begun.task.id))
            assert (await anext(following)).task.status.state == WORKS
            held.go.set()
            rest = [response async for response in following]
            assert written(rest) == "Settled, 好的." and rest[-1].status_update.status.state == DONE
            with pytest.raises(A2AError, match="has ended"):
                await anext(other.subscribe(SubscribeToTaskRequest(id=begun.task.id)))
            held.go.clear()
            (begun,) = await sent(client, message("please hold", "b"), return_immediately=True)
            wait_until(lambda: served.service.app.tasks.running() != [])
            assert (await client.cancel_task(CancelTaskRequest(id=begun.task.id))).status.state == CANCELLED
            held.go.set()
            with pytest.raises(A2AError):
                await client.cancel_task(CancelTaskRequest(id=begun.task.id))


async def test_tenants_and_agents_see_their_own_tasks_and_cards_need_a_key(served: Served) -> None:
    async with opened(served.url) as client:
        task = await send(client, "plums", "own")
    for agent, headers in (("shop", BETA), ("travel", ALPHA)):
        async with opened(served.url, agent, headers) as other:
            with pytest.raises(A2AError, match="not found"):
                await other.get_task(GetTaskRequest(id=task.id))
            with pytest.raises(A2AError, match="not found"):
                await sent(other, message("plums", "more", Task(id=task.id)))
    for agent, headers, status in (("shop", {}, 401), ("nobody", ALPHA, 404)):
        with pytest.raises(AgentCardResolutionError) as refused:
            async with opened(served.url, agent, headers):
                pass
        assert refused.value.status_code == status
    with served.client(headers=ALPHA) as http:
        card = http.get("/a2a/shop/.well-known/agent-card.json").json()
        assert card["description"] == "Sells fruit." and card["capabilities"]["pushNotifications"]
        assert http.get("/.well-known/agent-card.json").json()["name"] == served.service.default_agent


async def test_a_client_of_the_protocol_before_1_0_is_answered(served: Served) -> None:
    asked = {"messageId": "old", "role": "user", "parts": [{"kind": "text", "text": "pears"}], "kind": "message"}
    form = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": asked}}
    with served.client(headers=ALPHA) as http:
        result = http.post("/a2a/shop", json=form).json()["result"]
    assert result["status"]["state"] == "completed" and result["artifacts"][0]["parts"][0]["text"] == "Heard pears."


async def test_what_fails_or_cannot_be_read_is_said_in_the_protocol(served: Served) -> None:
    async with opened(served.url) as client:
        failed = await send(client, "please fail", "f")
        assert failed.status.state == FAILED and "the endpoint is down" in get_message_text(failed.status.message)
        address = Message(message_id="u", role=Role.ROLE_USER, parts=[{"url": "https://example.org/a.png"}])
        with pytest.raises(A2AError, match="raw bytes"):
            await sent(client, address)
        with pytest.raises((A2AError, A2AClientError)):
            await sent(client, message("", "empty"))
    with served.client(headers=ALPHA) as http:
        unknown = http.post("/a2a/shop/message:none", json={})
    assert (unknown.status_code, unknown.json()["error"]["details"][0]["reason"]) == (404, "METHOD_NOT_FOUND")


async def test_who_asked_is_told_when_a_task_stops(served: Served) -> None:
    with HttpReceiver() as receiver:
        hook = TaskPushNotificationConfig(url=receiver.url, token="secret")
        async with opened(served.url, streaming=False) as client:
            asked = await send(client, "please refund", "push", task_push_notification_config=hook)
            await asyncio.to_thread(wait_until, lambda: len(receiver.got) == 1)
            await send(client, "yes", "push-yes", asked)
            await asyncio.to_thread(wait_until, lambda: len(receiver.got) == 2)
            named = ListTaskPushNotificationConfigsRequest(task_id=asked.id)
            (config,) = (await client.list_task_push_notification_configs(named)).configs
            assert config.url == receiver.url
            await client.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=asked.id, id=config.id)
            )
            assert not (await client.list_task_push_notification_configs(named)).configs
    assert [each.headers["x-a2a-notification-token"] for each in receiver.got] == ["secret", "secret"]
    states = [each.form["task"]["status"]["state"] for each in receiver.got]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications are looked for, and sent again, without delay."""
    monkeypatch.setattr("segue.runtime.worker.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("segue.server.a2a.endpoint.RETRY_SECONDS", (0.0,) * 4)


def hook_of(task: Task, receiver: HttpReceiver, name: str = "") -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(task_id=task.id, url=receiver.url, id=name)


@pytest.mark.usefixtures("hurried")
async def test_a_receiver_that_fails_is_told_again_also_by_the_next_service(database: Path) -> None:
    settings = ServerSettings(push_hosts=("127.0.0.1",))
    agent = Agent(agent_id="shop", model=ScriptedChatModel(reply), tools=(refund,), mode="react")
    with HttpReceiver(500, 429) as receiver:
        with Served(database, settings, agents=[agent]) as served:
            async with opened(served.url, headers={}, streaming=False) as client:
                asked = await send(client, "please refund", "a")
                await client.create_task_push_notification_config(hook_of(asked, receiver))
                await asyncio.to_thread(wait_until, lambda: len(receiver.got) == 3)
        assert {each.form["task"]["status"]["state"] for each in receiver.got} == {"TASK_STATE_INPUT_REQUIRED"}
        async with segue.open(database, agents=[agent]) as elsewhere:  # another process
            assert (await elsewhere.answer(asked.id, "approve")).status == "done"
        with Served(database, settings, agents=[agent]):
            await asyncio.to_thread(wait_until, lambda: len(receiver.got) == 4)
        assert receiver.got[-1].form["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.usefixtures("hurried")
async def test_a_damaged_row_keeps_no_other_notification(database: Path) -> None:
    settings = ServerSettings(push_hosts=("127.0.0.1",))
    agent = Agent(agent_id="shop", model=ScriptedChatModel(reply), tools=(refund,), mode="react")
    with HttpReceiver() as receiver, Served(database, settings, agents=[agent]) as served:
        with sqlite3.connect(database) as connection:
            connection.execute(
                "INSERT INTO notifications VALUES ('x', 'x', 'x', 'a2a:push', 'stopped', '{', 1, 1, 0, NULL)"
            )
        connection.close()
        async with opened(served.url, headers={}, streaming=False) as client:
            asked = await send(client, "please refund", "a")
            await client.create_task_push_notification_config(hook_of(asked, receiver))
            await asyncio.to_thread(wait_until, lambda: len(receiver.got) == 1)


@pytest.mark.usefixtures("hurried")
async def test_receivers_of_one_tenant_that_are_slow_hold_up_no_other_tenants(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.server.a2a.routes.SECONDS", 60.0)
    with HttpReceiver() as slow, HttpReceiver() as receiver:
        slow.go.clear()
        async with opened(served.url) as alpha, opened(served.url, headers=BETA) as beta:
            for name in ("slow-1", "slow-2"):
                task = await send(alpha, "apples", name)
                for number in range(10):
                    await alpha.create_task_push_notification_config(hook_of(task, slow, f"hook-{number}"))
            await asyncio.to_thread(wait_until, lambda: len(slow.got) >= 4)
            task = await send(beta, "apples", "quick")
            await beta.create_task_push_notification_config(hook_of(task, receiver))
            await asyncio.to_thread(wait_until, lambda: len(receiver.got) == 1)
        assert len(slow.got) == 4
        slow.go.set()
        await asyncio.to_thread(wait_until, lambda: len(slow.got) == 20)


async def test_a_task_has_few_configs_of_bounded_size(served: Served) -> None:
    async with opened(served.url) as client:
        task = await send(client, "please refund", "many")
        with HttpReceiver() as receiver:
            for number in [*range(10), 0]:
                await client.create_task_push_notification_config(hook_of(task, receiver, f"hook-{number}"))
            with pytest.raises(A2AError, match="at most 10"):
                await client.create_task_push_notification_config(hook_of(task, receiver, "hook-10"))
            await client.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook-9")
            )
            with pytest.raises(A2AError, match="bytes"):
                long = TaskPushNotificationConfig(task_id=task.id, url=receiver.url, token="x" * 9_000)
                await client.create_task_push_notification_config(long)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.2:9/x", "http://localhost:9/x", "http://[::1]/x", "file:///etc/passwd"]
)
async def test_a_notification_goes_to_no_private_address_that_is_not_allowed(served: Served, url: str) -> None:
    async with opened(served.url) as client:
        with pytest.raises(A2AError, match="SEGUE_PUSH_HOSTS"):
            await send(client, "plums", "private", task_push_notification_config=TaskPushNotificationConfig(url=url))
        task = await send(client, "plums", "public")
        with pytest.raises(A2AError, match="SEGUE_PUSH_HOSTS"):
            await client.create_task_push_notification_config(TaskPushNotificationConfig(task_id=task.id, url=url))


class Recorder(httpx.AsyncBaseTransport):
    """Keeps where requests would go; connections to the addresses of `down` fail."""

    def __init__(self, *down: str) -> None:
        self.sent: list[tuple[str, str, str]] = []
        self._down = down

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        if request.url.host in self._down:
            raise httpx.ConnectError("down")
        return httpx.Response(200)


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Have each lookup of a name give the next answer."""
    left = [*answers]

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in left.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


async def test_a_notification_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder("93.184.215.14")
    resolving(monkeypatch, ["93.184.215.14", "2606:2800:21f::1"], ["127.0.0.1"])
    async with httpx.AsyncClient(transport=PublicTransport((), recorder)) as client:
        assert (await client.post("https://hook.example/x?y")).status_code == 200
        with pytest.raises(httpx.ConnectError, match="not public"):
            await client.post("https://hook.example/x?y")
    addresses = ("93.184.215.14", "2606:2800:21f::1")
    assert recorder.sent == [(address, "hook.example", "hook.example") for address in addresses]


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255",
        "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:1::1",
        "fe80::1%eth0", "fc00::1", "ff02::1", "::",
    ],
)  # fmt: skip
async def test_addresses_that_are_not_public(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolving(monkeypatch, ["93.184.215.14", address])
    with pytest.raises(httpx.ConnectError, match="not public"):
        await public_addresses("hook.example", 443)


@pytest.mark.parametrize("at", ["id", "params.message.messageId", "params.message.contextId", "params.message.parts"])
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "message/send"])
def test_half_a_character_and_control_characters_are_refused_or_sent_back(served: Served, method: str, at: str) -> None:
    """An error of the protocol, or a 422; never one of the service's own."""
    for text in (r"\ud800", r"\udc00\ud800", r"\u0000"):
        version = {} if "/" in method else {"A2A-Version": "1.0"}
        kinds = ("user", [{"kind": "text", "text": "hi"}]) if "/" in method else ("ROLE_USER", [{"text": "hi"}])
        message: Json = {"messageId": "m", "role": kinds[0], "parts": kinds[1], "contextId": "c"}
        body: Json = {"jsonrpc": "2.0", "id": "1", "method": method, "params": {"message": message}}
        if at.endswith("parts"):
            message["parts"][0]["text"] = "HERE"
        else:
            (body if at == "id" else message)[at.rpartition(".")[2]] = "HERE"
        content = json.dumps(body).replace("HERE", text)
        with served.client(headers={**ALPHA, **version}) as client:
            response = client.post("/a2a/shop", content=content, headers={"Content-Type": "application/json"})
        expected = 422 if r"\ud" in text else 200
        assert response.status_code == expected, response.text
        assert "-32603" not in response.text


async def test_a_message_of_one_file_is_answered_or_refused_by_its_type(served: Served) -> None:
    parts = {
        "notes.md": new_raw_part(b"apples", media_type="text/markdown", filename="notes.md"),
        "notes.bin": new_raw_part(b"apples", media_type="application/x-unknown", filename="notes.bin"),
        "photo.png": new_raw_part(b"\x89PNG\r\n\x1a\n", media_type="application/octet-stream", filename="photo.png"),
    }
    async with opened(served.url) as client:
        for name, part in parts.items():
            asked = Message(message_id=f"file-{name}", role=Role.ROLE_USER, parts=[part])
            if name == "notes.md":
                begun = (await sent(client, asked))[0].task
                task = await client.get_task(GetTaskRequest(id=begun.id))
                assert [get_message_text(each) for each in task.history] == [name] and task.status.state == DONE
            else:
                with pytest.raises(ContentTypeNotSupportedError):
                    await sent(client, asked)


@cases(
    "media_type, kind",
    [
        *(
            (each, "text")
            for each in ("", "text/markdown; charset=utf-8", "application/ld+json", "application/octet-stream")
        ),
        ("IMAGE/PNG", "image"),
        ("application/pdf", "pdf"),
        *((each, None) for each in ("application/x-unknown", "video/mp4", "text", "x")),
    ],
)
def test_the_kind_of_a_declared_media_type(media_type: str, kind: str | None) -> None:
    assert declared_kind(media_type) == kind


async def test_a_file_is_refused_that_the_card_does_not_name(tmp_path: Path) -> None:
    agent = Agent(agent_id="eyes", model=ScriptedChatModel(reply), mode="direct", accepts=["image"])
    with Served(tmp_path / "segue.db", agents=[agent]) as own:
        with own.client() as http:
            modes = http.get("/a2a/eyes/.well-known/agent-card.json").json()["defaultInputModes"]
        assert "image/*" in modes and "application/pdf" not in modes
        async with opened(own.url, "eyes", None) as client:
            for kind in ("application/pdf", "video/mp4"):
                asked = Message(message_id=kind, role=Role.ROLE_USER, parts=[new_raw_part(b"%PDF-", media_type=kind)])
                with pytest.raises(ContentTypeNotSupportedError, match=kind):
                    await sent(client, asked)


async def test_a_client_that_takes_only_json_gets_the_answer_as_data(tmp_path: Path) -> None:
    agent = Agent(agent_id="counter", model=ScriptedChatModel(lambda _: '{"count": 3}'), mode="direct")
    with Served(tmp_path / "segue.db", agents=[agent]) as own:
        async with opened(own.url, "counter", None) as client:
            responses = await sent(client, message("count", "data"), accepted_output_modes=["application/json"])
            task = await client.get_task(GetTaskRequest(id=responses[0].task.id))
    updates = [each.artifact_update.artifact for each in responses if each.HasField("artifact_update")]
    for artifact in (*updates, *task.artifacts):
        assert get_data_parts(artifact.parts) == [{"count": 3.0}]
    assert len(updates) == len(task.artifacts) == 1


async def test_a_subscription_goes_on_after_the_answer_until_the_task_ends(served: Served) -> None:
    async with opened(served.url) as client:
        task = await send(client, "please refund", "subscribed")
        assert task.status.state == WAITS
        states: list[TaskState] = []
        async for response in client.subscribe(SubscribeToTaskRequest(id=task.id)):
            if not response.HasField("status_update"):
                continue
            states.append(response.status_update.status.state)
            if states == [WAITS]:
                await sent(client, message("approve", "subscribed-answer", task))
    assert states[0] == WAITS and states[-1] == DONE


def test_the_card_is_cached_and_addresses_with_a_slash_are_the_same(served: Served) -> None:
    with served.client(headers=ALPHA) as http:
        card = http.get("/a2a/shop/.well-known/agent-card.json")
        assert card.headers["Cache-Control"] == "private, max-age=300"
        again = http.get("/a2a/shop/.well-known/agent-card.json", headers={"If-None-Match": card.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        asked = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "none"}}
        for path in ("/a2a/shop", "/mcp", "/v1/chat/completions", "/v1/responses", "/ag-ui/shop"):
            plain, slash = http.post(path, json=asked), http.post(f"{path}/", json=asked)
            assert plain.status_code == slash.status_code not in (307, 404), path


def test_a_body_that_is_not_said_to_be_json_is_refused(served: Served) -> None:
    with served.client(headers=ALPHA) as client:
        for body in ("not json", '{"jsonrpc": "2.0"}'):
            refused = client.post("/a2a/shop", content=body, headers={"Content-Type": "text/plain"}).json()
            assert (refused["error"]["code"], refused["id"]) == (-32005, None)
        asked = {"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "apples"}]}}
        for kind, status in (("text/plain", 415), ("application/a2a+json; charset=utf-8", 200)):
            headers = {"Content-Type": kind, "A2A-Version": "1.0"}
            answered = client.post("/a2a/shop/message:send", content=json.dumps(asked), headers=headers)
            assert answered.status_code == answered.json().get("error", {}).get("code", 200) == status, answered.text
            reasons = [each["reason"] for each in answered.json().get("error", {}).get("details", ())]
            assert reasons == ["CONTENT_TYPE_NOT_SUPPORTED"] * (status == 415)


def test_the_version_may_be_a_parameter_of_the_address(served: Served) -> None:
    with served.client(headers=ALPHA) as client:
        for version, reason in (
            ("1.0", "TASK_NOT_FOUND"),
            ("9.0", "VERSION_NOT_SUPPORTED"),
            ("", "VERSION_NOT_SUPPORTED"),
        ):
            error = client.get("/a2a/shop/tasks/none", params={"A2A-Version": version}).json()["error"]
            assert error["details"][0]["reason"] == reason


def test_a_list_of_tasks_of_an_unknown_status_is_refused(served: Served) -> None:
    with served.client(headers={**ALPHA, "A2A-Version": "1.0"}) as client:
        for status, refused in (("done", True), ("TASK_STATE_UNSPECIFIED", False), ("TASK_STATE_WORKING", False)):
            over_http = client.get("/a2a/shop/tasks", params={"status": status})
            assert (over_http.status_code == 400) == refused
            asked = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"status": status}}
            error = client.post("/a2a/shop", json=asked).json().get("error", {})
            assert (error.get("code") == -32602) == refused


# The contract of `a2a-proof`, over each binding that the card names.


async def hold(name: str) -> str:
    """Wait a moment."""
    await asyncio.sleep(1)
    return f"held {name}"


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_every_scenario_passes(database: Path, binding: str) -> None:
    agent = Agent(agent_id="shop", model=ScriptedChatModel(reply), tools=(hold, refund), mode="react")
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000, push_hosts=("127.0.0.1",))
    contract = Path(__file__).with_name("a2a-proof.yaml")
    with Served(database, settings, agents=[agent]) as served:
        done = subprocess.run(
            [Path(sys.executable).with_name("a2a-proof"), "run", "--verbose", "--transport", binding, str(contract)],
            env={**os.environ, "SEGUE_URL": served.url, "SEGUE_KEY": KEY, "NO_PROXY": "*"},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 scenarios passed" in done.stdout
