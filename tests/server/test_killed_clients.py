"""Clients of OpenAI's API, AG-UI, A2A and MCP go on with a task whose service was killed in the middle of a call."""

import asyncio
import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from a2a.client.errors import A2AClientError
from a2a.types import ListTasksRequest, SendMessageRequest, SubscribeToTaskRequest

from tests.cli.conftest import Shell, pages, shell
from tests.ports import free_port

from .test_a2a import DONE, WAITS, answer, message, send, sent
from .test_a2a import opened as opened_a2a
from .test_ag_ui import body, resumed, run, types
from .test_mcp import Person, opened, said
from .test_processes import Process, effects, openai_client, serve

__all__ = ["pages", "serve", "shell"]

ASKED = "please fetch it, then refund it"
REFUNDED = ["fetch begun", "refund 50 sorry"]


@pytest.mark.slow
def test_an_ag_ui_run_goes_on_after_a_kill(pages: Shell, serve: Callable[..., Process]) -> None:
    first = serve()
    with first.client() as client, client.stream("POST", "/ag-ui/shop", json=body(ASKED, "r1")) as response:
        lines = response.iter_lines()
        seen = next(json.loads(line[6:]) for line in lines if "TOOL_CALL_START" in line)
        pages.until("effects", "fetch begun")
        first.stop(signal.SIGKILL)
    with serve().client() as client:
        events = run(client, body(ASKED, "r1"))
        assert seen["toolCallId"] in [event.get("toolCallId") for event in events]
        assert "refund" in events[-1]["outcome"]["interrupts"][0]["message"]
        answered = run(client, resumed(events, "r2", {"approved": True}))
    assert "TOOL_CALL_RESULT" in types(answered) and answered[-1]["outcome"] == {"type": "success"}
    assert effects(pages) == REFUNDED, "nothing ran twice"


@pytest.mark.slow
async def test_an_a2a_task_goes_on_after_a_kill(pages: Shell, serve: Callable[..., Process]) -> None:
    """The client subscribes to the task again, or sends its message again: it is the same task."""
    first, asked = serve(), message(ASKED, "m1", context_id="basket")
    with first.client() as http:
        async with opened_a2a(str(http.base_url).rstrip("/"), headers={}) as client:
            stream = client.send_message(SendMessageRequest(message=asked))
            task = (await anext(stream)).task
            await asyncio.to_thread(pages.until, "effects", "fetch begun")
            first.stop(signal.SIGKILL)
            with pytest.raises(A2AClientError):
                async for _ in stream:
                    pass
    with serve().client() as http:
        async with opened_a2a(str(http.base_url).rstrip("/"), headers={}) as client:
            async for each in client.subscribe(SubscribeToTaskRequest(id=task.id)):  # which ends with the task
                if each.status_update.status.state == WAITS:
                    break
            again = (await sent(client, asked))[0].task
            assert again.id == task.id and again.status.state == WAITS
            done = await send(client, "approve", "m2", again)
            assert done.status.state == DONE and "refunded 50" in answer(done)
            assert (await client.list_tasks(ListTasksRequest(context_id="basket"))).total_size == 1
    assert effects(pages) == REFUNDED, "nothing ran twice"


@pytest.mark.slow
async def test_a_call_of_an_mcp_client_goes_on_after_a_kill(pages: Shell, serve: Callable[..., Process]) -> None:
    key, person = {"idempotencyKey": "k"}, Person(verdict="approve")
    first = serve()

    def kill() -> None:
        pages.until("effects", "fetch begun")
        first.stop(signal.SIGKILL)

    with first.client() as http:
        killed = asyncio.create_task(asyncio.to_thread(kill))
        with pytest.raises(ExceptionGroup):  # the SDK ends its session with the connection
            async with opened(str(http.base_url), {}) as client:
                await client.call_tool("shop", {"message": ASKED}, meta=key)
        await killed
    with serve().client() as http:
        async with opened(str(http.base_url), {}, elicitation_callback=person) as client:
            result = await client.call_tool("shop", {"message": ASKED}, meta=key)
        assert result.structured_content["status"] == "done" and "refunded 50" in said(result)
        tasks = (await asyncio.to_thread(http.get, "/api/agents/shop/tasks")).json()["items"]
    assert len(tasks) == 1 and len(person.asked) == 1
    assert effects(pages) == REFUNDED, "nothing ran twice"


@pytest.mark.slow
def test_a_response_is_begun_once_however_often_its_service_is_killed(
    pages: Shell, serve: Callable[..., Process]
) -> None:
    """The SDK sends the request again without an idempotency key."""
    port = str(free_port())
    service = serve("--port", port)
    with service.client() as http, openai_client(http).with_options(max_retries=20) as client:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.responses.create, model="shop", input="please fetch it")
            pages.until("effects", "fetch begun")
            for _ in range(2):
                service.stop(signal.SIGKILL)
                service = serve("--port", port)
                service.client().close()
            response = asked.result()
        assert len(http.get("/api/sessions").json()["items"]) == 1
    assert response.status == "completed"
    assert effects(pages) == ["fetch begun"], "nothing ran twice"


@pytest.mark.slow
def test_functions_of_openais_client_go_on_after_kills(pages: Shell, serve: Callable[..., Process]) -> None:
    """It is killed during a tool of the agent, while a function is awaited, and as its result was taken."""
    function: Any = {"name": "lookup", "description": "Look up an order.", "parameters": {"type": "object"}}
    messages: Any = [{"role": "user", "content": "please fetch it, then lookup"}]
    asked: Any = {"model": "shop:plan", "messages": messages, "tools": [{"type": "function", "function": function}]}
    first = serve()
    with first.client() as http, openai_client(http) as client:
        stream = client.chat.completions.create(**asked, stream=True)
        next(iter(stream))
        pages.until("effects", "fetch begun")
        first.stop(signal.SIGKILL)
    second = serve()
    with second.client() as http, openai_client(http) as client:
        message = client.chat.completions.create(**asked).choices[0].message
        assert message.tool_calls
        second.stop(signal.SIGKILL)
    (call,) = message.tool_calls
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "order 17 is on its way"}]
    third = serve()
    with third.client() as http, openai_client(http) as client:
        next(iter(client.chat.completions.create(**asked, stream=True)))
        third.stop(signal.SIGKILL)
    with serve().client() as http, openai_client(http) as client:
        done = client.chat.completions.create(**asked)
        assert done.choices[0].finish_reason == "stop" and "17" in (done.choices[0].message.content or "")
        assert done.model_extra
        calls = http.get(f"/api/tasks/{done.model_extra['segue']['task_id']}").json()["calls"]
        assert len(http.get("/api/sessions").json()["items"]) == 1
    assert [(each["name"], each["outcome"].get("success")) for each in calls][1:] == [
        ("lookup", "order 17 is on its way")
    ]
    assert effects(pages) == ["fetch begun"], "nothing ran twice"
