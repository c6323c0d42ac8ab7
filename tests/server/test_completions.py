"""OpenAI's stock client holds conversations with agents: sessions, forks, approvals, a restart in the middle."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.store.memory import InMemoryStore
from openai.types.chat import ChatCompletionMessageParam

from segue import Agent
from segue.prompts.protocols import stop_notice
from segue.server.lifespan import drain
from segue.server.tenants import hash_keys, parse_keys
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.loopback import Gate, LoopbackServer, Text
from tests.modes import native_call
from tests.polling import wait_until
from tests.runtime.test_reviews import calling

from .schemas import CheckedTransport
from .serving import KEY, KEYS, Held, Served, ServerSettings, chat
from .shop import refund, reply

OPEN = ServerSettings(heartbeat_seconds=0.2)
Messages = list[ChatCompletionMessageParam]


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def served(held: Held, database: Path) -> Iterator[Served]:
    with Served(database, OPEN, agents=[held.agent("a", reply, tools=(refund,))]) as served:
        yield served
        held.go.set()


def stock(served: Served, key: str = "none", retries: int = 0) -> openai.OpenAI:
    """The `openai` package, which fails on what is not of the published schemas."""
    http_client = httpx.Client(timeout=60, trust_env=False, transport=CheckedTransport())
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=retries, http_client=http_client)


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with stock(served) as client:
        yield client


def say(client: openai.OpenAI, messages: Messages, text: str, **options: Any) -> str:
    """Send a message after others, as a chat page does; `messages` has both then, and the answer."""
    messages.append({"role": "user", "content": text})
    completion = client.chat.completions.create(model="a", messages=messages, **options)
    content = completion.choices[0].message.content
    assert content is not None
    messages.append({"role": "assistant", "content": content})
    return content


def sessions(served: Served) -> list[str]:
    with served.client() as http:
        return sorted(row["session_id"] for row in http.get("/api/sessions").json()["items"])


def refunds(served: Served) -> list[int]:
    """The amounts of the refunds that were carried out, in any session."""
    tasks = served.do(served.service.app.tasks.list())
    traces = [served.do(served.service.app.trace(task.task_id)) for task in tasks]
    return [call.arguments["amount"] for trace in traces for call in trace.calls]


def test_agents_and_their_modes_are_models(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert client.models.retrieve("a:plan").id == "a:plan"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")
    assert names == ["travel", "data", "a"]
    with pytest.raises(openai.NotFoundError, match="There is no model 'a:none'") as caught:
        client.chat.completions.create(model="a:none", messages=[{"role": "user", "content": "hi"}])
    assert (caught.value.code, caught.value.type) == ("model_not_found", "invalid_request_error")


def test_the_agents_that_are_given_are_the_only_ones() -> None:
    with Served(agents=[Agent(agent_id="shop")], examples=False) as served, served.client() as client:
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
        assert names and {name.partition(":")[0] for name in names} == {"shop"}
        assert [agent["agent_id"] for agent in client.get("/api/agents").json()["items"]] == ["shop"]
        assert client.get("/api/agents").json()["items"][0]["default"]
        refused = client.post("/api/chat", json={"message": "hi", "agent_id": "travel"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (422, "UnknownAgent")
    with Served(examples=False) as served, served.client() as client:
        assert [agent["agent_id"] for agent in client.get("/api/agents").json()["items"]] == ["travel", "data"]


def test_only_the_new_message_of_a_conversation_is_taken(client: openai.OpenAI, served: Served) -> None:
    messages: Messages = [{"role": "system", "content": "Be brief."}]
    assert say(client, messages, "apples") == "Heard apples."
    assert say(client, messages, "pears") == "Heard apples, pears."
    (session,) = sessions(served)
    with served.client() as http:
        tasks = http.get(f"/api/sessions/{session}/tasks").json()["items"]
    assert [task["message"] for task in tasks] == ["pears", "apples"]
    stored = served.do(served.service.app.tasks.list(session_id=session))
    assert [task.reply_options for task in stored] == [{"instructions": ["Be brief."]}] * 2


def test_a_stream_has_the_thinking_the_answer_and_the_usage(client: openai.OpenAI) -> None:
    messages: Messages = [{"role": "user", "content": "apples"}]
    chunks = [
        *client.chat.completions.create(
            model="a:react", messages=messages, stream=True, stream_options={"include_usage": True}
        )
    ]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Heard apples."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-2].model_extra and chunks[-2].model_extra["segue"]["status"] == "done"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == chunks[-1].usage.prompt_tokens + chunks[-1].usage.completion_tokens


def test_reasoning_and_calls_are_streamed_beside_the_answer(client: openai.OpenAI, held: Held) -> None:
    held.go.set()
    messages: Messages = [{"role": "user", "content": "please hold"}]
    chunks = [*client.chat.completions.create(model="a", messages=messages, stream=True)]
    extras = [chunk.choices[0].delta.model_extra or {} for chunk in chunks]
    reasoning = "".join(extra.get("reasoning_content", "") for extra in extras)
    assert "round 1" not in reasoning  # a banner is the terminal's
    assert "I hold." in reasoning and 'hold {"name":"one"}' in reasoning
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Settled, 好的."


def test_an_answer_that_is_asked_for_again_and_an_edited_message_fork(client: openai.OpenAI, served: Served) -> None:
    messages: Messages = []
    named = {"user": "ann", "metadata": {"session_id": "ann"}}
    say(client, messages, "apples", **named)
    say(client, messages, "pears", **named)
    assert sessions(served) == ["ann"]
    again = messages[:2]
    assert say(client, again, "pears", **named) == "Heard apples, pears."
    assert sessions(served) == ["ann", "ann.2"]
    edited = messages[:2]
    assert say(client, edited, "plums", **named) == "Heard apples, plums."
    assert sessions(served) == ["ann", "ann.2", "ann.3"]
    assert say(client, edited, "kiwis", **named) == "Heard apples, plums, kiwis."
    assert sessions(served) == ["ann", "ann.2", "ann.3"]
    assert say(client, [], "pears", **named) == "Heard pears."
    assert sessions(served) == ["ann", "ann.2", "ann.3", "ann.4"]


@pytest.mark.parametrize("number", ["0x", "3000000000"])
def test_no_client_names_an_attempt_of_the_service(client: openai.OpenAI, number: str) -> None:
    """What a client calls its request has no part in how others are recognised."""
    asked = json.dumps(["", ["", "default", "a", ""], [["user", "apples"]]])
    named = f"completion:{hashlib.sha256(asked.encode()).hexdigest()}#{number}"
    messages: Messages = []
    say(client, messages, "apples", extra_headers={"Idempotency-Key": named})
    assert say(client, [], "apples") == "Heard apples."
    shown: Messages = [messages[0], {"role": "assistant", "content": "Something else."}]
    assert say(client, shown, "pears") == "Heard apples, pears."


def test_what_was_said_elsewhere_comes_with_the_first_message(client: openai.OpenAI) -> None:
    messages: Messages = [{"role": "user", "content": "apples"}, {"role": "assistant", "content": "apples, I see"}]
    assert say(client, messages, "pears") == "Heard apples, pears."


@pytest.mark.parametrize(
    ("said", "decided", "ran"),
    [
        ("批准", ("approve", ""), 1),
        ("Yes, please do it", ("approve", ""), 1),
        ("No, too expensive", ("reject", "No, too expensive"), 0),
    ],
)
def test_a_reply_to_an_approval_decides(
    client: openai.OpenAI, served: Served, said: str, decided: tuple[str, str], ran: int
) -> None:
    messages: Messages = []
    notice = say(client, messages, "please refund")
    assert notice.startswith("Approve refund(amount=5)?") and '"approve"' in notice
    assert say(client, messages, "Which order is it?") == notice
    assert say(client, messages, said) == "Settled, 好的."
    (session,) = sessions(served)
    with served.client() as http:
        (task,) = http.get(f"/api/sessions/{session}/tasks").json()["items"]
        trace = http.get(f"/api/tasks/{task['task_id']}").json()
    (given,) = [event["verdicts"] for event in trace["events"] if event["type"] == "approval_given"]
    assert [(verdict["verdict"], verdict.get("reason", "")) for verdict in given] == [decided]
    assert len(trace["calls"]) == ran
    assert say(client, messages, "apples").startswith("Settled")  # one session, one history


def test_a_reply_approves_only_what_its_client_was_shown(client: openai.OpenAI, served: Served) -> None:
    def amounts() -> list[int]:
        return [each.arguments["amount"] for each in served.do(served.service.app.trace(task.task_id)).calls]

    messages: Messages = []
    say(client, messages, "refund twice")
    (task,) = served.do(served.service.app.tasks.list())
    served.do(served.service.app.answer(task.task_id, "approve"))  # a colleague
    assert say(client, messages, "yes").startswith("Approve refund(amount=500)?") and amounts() == [5]
    assert say(client, messages, "yes") == "Settled, 好的." and amounts() == [5, 500]


def test_a_client_that_approves_each_call_is_asked_once_for_each(client: openai.OpenAI) -> None:
    messages: Messages = []
    say(client, messages, "refund twice")
    assert say(client, messages, "yes").startswith("Approve refund(amount=500)?")
    assert say(client, messages, "yes") == "Settled, 好的."


def test_a_question_is_answered_by_the_next_message(client: openai.OpenAI) -> None:
    messages: Messages = [{"role": "user", "content": "paint it"}]
    asked = client.chat.completions.create(model="a:controller", messages=messages)
    assert asked.choices[0].message.content == "Which colour?"
    assert asked.model_extra and asked.model_extra["segue"]["status"] == "waiting"
    messages += [{"role": "assistant", "content": "Which colour?"}, {"role": "user", "content": "blue"}]
    told = client.chat.completions.create(model="a:controller", messages=messages)
    assert told.choices[0].message.content == "It is blue."


@pytest.mark.parametrize("stopped", ["", "I ref", "Approve refund(amount=4)?"])
def test_a_reply_decides_only_where_the_question_is_the_message_before_it(
    client: openai.OpenAI, served: Served, stopped: str
) -> None:
    """The client stopped reading before the question, or shows another one: it is asked, whatever the reply says."""
    messages: Messages = []
    notice = say(client, messages, "please refund")
    shown: Messages = [messages[0], {"role": "assistant", "content": stopped}]
    assert say(client, shown, "ok") == notice and refunds(served) == []
    assert say(client, [*shown[:2], {"role": "assistant", "content": f"\n{notice} "}], "ok") == "Settled, 好的."
    assert refunds(served) == [5]


@pytest.mark.parametrize(
    ("model", "headers"),
    [("a", {"X-OpenWebUI-User-Id": "bob"}), ("a:react", {}), ("a:react", {"X-OpenWebUI-Chat-Id": "c"})],
)
def test_another_user_or_mode_neither_joins_nor_decides(
    client: openai.OpenAI, served: Served, model: str, headers: dict[str, str]
) -> None:
    ann, other = {**headers, "X-OpenWebUI-User-Id": "ann"}, {"X-OpenWebUI-User-Id": "ann", **headers}
    messages: Messages = []
    say(client, messages, "please refund", extra_headers=ann)
    retry = {**other, "X-Stainless-Retry-Count": "1"}
    for sent in ([*messages, {"role": "user", "content": "ok"}], messages[:1]):
        begun = client.chat.completions.create(model=model, messages=sent, extra_headers=retry)
        assert begun.model_extra and begun.model_extra["segue"]["status"] == "waiting"
    assert refunds(served) == [] and len(sessions(served)) == 3
    assert say(client, messages, "ok", extra_headers=ann) == "Settled, 好的."
    assert refunds(served) == [5]


def test_two_persons_of_a_tenant_have_tasks_of_their_own(held: Held, database: Path) -> None:
    keys = {name: f"key-of-{name}-0123456789" for name in ("ann", "bob")}
    settings = ServerSettings(keys=parse_keys(hash_keys(",".join(f"{name}@shop:{key}" for name, key in keys.items()))))
    messages: Messages = []
    with (
        Served(database, settings, agents=[held.agent("a", reply, tools=(refund,))]) as served,
        stock(served, keys["ann"]) as ann,
        stock(served, keys["bob"]) as bob,
    ):
        notice = say(ann, messages, "please refund")
        assert say(bob, [*messages], "ok") == notice and refunds(served) == []
        assert say(ann, messages, "ok") == "Settled, 好的." and refunds(served) == [5]


@pytest.mark.parametrize("then", ["message", "regenerate", "retry"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_stops_its_task(held: Held, database: Path, then: str, stream: bool) -> None:
    """No call that it had decided runs any more. A next message knows what it did, and a retry lets it go on."""
    told: list[str] = []

    def answer(messages: list[BaseMessage]) -> str:
        told.extend(str(message.content) for message in messages)
        return "Answered."

    work, messages = native_call(("1", "hold", {}), ("2", "note", {"name": "two"})), said("please work")
    script = [work, work, answer] if then == "regenerate" else [work, answer]
    agents = [held.agent("a", script, protocol="native")]
    with Served(database, OPEN, agents=agents) as served, stock(served) as client, served.client() as http:
        task_id = leave(served, held, messages, stream=stream)
        assert requested(served, task_id) == "stop" and held.effects == []
        held.go.set()
        wait_until(lambda: http.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "paused")
        assert held.effects == ["one"]
        if then == "message":
            messages = [*messages, {"role": "assistant", "content": "Partly"}, *said("what did you do?")]
        options: Any = {"extra_headers": {"x-stainless-retry-count": "1"}} if then == "retry" else {}
        again = client.chat.completions.create(model="a", messages=messages, **options)
        status = http.get(f"/api/tasks/{task_id}").json()["task"]["status"]
        assert again.choices[0].message.content == "Answered."
        assert (again.id == f"chatcmpl-{task_id}", status) == (
            (True, "done") if then == "retry" else (False, "cancelled")
        )
        assert len(sessions(served)) == (2 if then == "regenerate" else 1)
    assert held.effects == {"message": ["one"], "regenerate": ["one", "one", "two"], "retry": ["one", "two"]}[then]
    assert any("held one" in text for text in told)


@pytest.mark.parametrize("protocol", ["native", "json"])
@pytest.mark.parametrize("mode", ["react", "direct"])
def test_a_client_that_stops_an_answer_ends_the_call_of_the_model(database: Path, mode: str, protocol: str) -> None:
    """The history has the part that was written, and the next message goes on from there in the same session."""
    tale, short = "A long tale.", "A tale."
    if (mode, protocol) == ("react", "json"):
        tale, short = answer(tale), answer(short)
    with LoopbackServer([Gate(tale.partition(".")[0], ".", threading.Event()), Text(short)]) as endpoint:
        agent = Agent(
            agent_id="a", model="openai:x", base_url=endpoint.base_url, api_key="k", mode=mode, protocol=protocol
        )
        with Served(database, OPEN, agents=[agent]) as served, stock(served) as client, served.client() as http:
            with client.chat.completions.create(model="a", messages=said("a tale"), stream=True) as stream:
                shown = ""
                while shown != "A long tale":
                    shown += next(stream).choices[0].delta.content or ""
            wait_until(lambda: http.get("/api/sessions").json()["items"][0]["status"] == "paused")
            messages = [*said("a tale"), {"role": "assistant", "content": shown}, *said("shorter")]
            client.chat.completions.create(model="a", messages=messages)
            assert len(sessions(served)) == 1
        sent = json.dumps(endpoint.requests[-1].body)
    assert "A long tale" in sent and "interrupted" in sent and "shorter" in sent


def test_a_client_that_is_back_before_its_task_stopped_gets_the_answer(held: Held, database: Path) -> None:
    script = [native_call(("1", "hold", {}), ("2", "note", {"name": "two"})), "Answered."]
    agents = [held.agent("a", script, protocol="native")]
    with Served(database, OPEN, agents=agents) as served, stock(served) as client, ThreadPoolExecutor(1) as pool:
        task_id = leave(served, held, said("please work"))
        options: Any = {"extra_headers": {"x-stainless-retry-count": "1"}}
        asked = pool.submit(client.chat.completions.create, model="a", messages=said("please work"), **options)
        wait_until(lambda: served.service._readers[task_id] == 1)
        held.go.set()
        assert asked.result(60).choices[0].message.content == "Answered."
    assert held.effects == ["one", "two"]


def test_a_service_may_let_the_tasks_of_clients_that_disconnect_go_on(held: Held, database: Path) -> None:
    settings = replace(OPEN, on_disconnect={"chat_completions": "continue"})
    with Served(database, settings, agents=[held.agent("a", reply)]) as served, stock(served) as client:
        messages = said("please hold")
        with client.chat.completions.create(model="a", messages=messages, stream=True) as stream:
            next(iter(stream))
            held.begun.wait(60)
        held.go.set()
        again = client.chat.completions.create(model="a", messages=messages)
        assert again.choices[0].message.content == "Settled, 好的."
        retried = client.chat.completions.create(
            model="a", messages=messages, extra_headers={"x-stainless-retry-count": "1"}
        )
        assert retried.id == again.id
        assert (held.effects, len(sessions(served))) == (["one"], 1)


def test_a_text_before_calls_of_a_graph_of_ones_own_is_a_paragraph_of_the_stream(database: Path) -> None:
    work = native_call(("1", "remember", {"what": "x"})).model_copy(update={"content": "I look."})
    graph = calling(ScriptedChatModel([work, AIMessage("It is blue.")])).compile(store=InMemoryStore())
    with Served(database, OPEN, modes={"own": graph}) as served, stock(served) as client:
        deltas = client.chat.completions.create(model="travel:own", messages=said("go"), stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in deltas)
    assert text == "I look.\n\nIt is blue."


def said(text: str) -> Messages:
    return [{"role": "user", "content": text}]


def requested(served: Served, task_id: str) -> str | None:
    return served.do(served.service.app.task(task_id)).requested


def leave(served: Served, held: Held, messages: Sequence[Any], chat: str = "", *, stream: bool = True) -> str:
    """Send messages, leave during the call of a tool, and wait until the service knows; returns the task."""
    body = json.dumps({"model": "a", "messages": messages, "stream": stream}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"X-OpenWebUI-Chat-Id: {chat}\r\n" if chat else ""
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert held.begun.wait(60)
    task_id = served.do(served.service.app.tasks.list())[0].task_id
    wait_until(lambda: requested(served, task_id) is not None)
    return task_id


def test_a_retry_gets_no_answer_that_was_there_before_its_first_try(
    client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: Messages = [{"role": "user", "content": "apples"}]
    retry: Any = {"x-stainless-retry-count": "1"}
    first = client.chat.completions.create(model="a", messages=messages)
    assert client.chat.completions.create(model="a", messages=messages, extra_headers=retry).id == first.id
    monkeypatch.setattr("segue.server.continuation.TRY_SECONDS", -1)
    assert client.chat.completions.create(model="a", messages=messages, extra_headers=retry).id != first.id


def test_a_conversation_survives_a_restart(held: Held, database: Path) -> None:
    messages: Messages = []
    agents = [held.agent("a", reply, tools=(refund,))]
    with Served(database, OPEN, agents=agents) as served, stock(served) as client:
        say(client, messages, "apples")
        say(client, messages, "please refund")
    with Served(database, OPEN, agents=[held.agent("a", reply, tools=(refund,))]) as served, stock(served) as client:
        assert say(client, messages, "approve") == "Settled, 好的."
        assert len(sessions(served)) == 1


def test_an_answer_that_a_stopped_service_did_not_give_is_given_once(held: Held, database: Path) -> None:
    messages: Messages = [{"role": "user", "content": "please hold"}]
    agents = [held.agent("a", reply, tools=(refund,))]
    with Served(database, OPEN, agents=agents) as served, stock(served) as client:
        with client.chat.completions.create(model="a", messages=messages, stream=True) as stream:
            task_id = next(iter(stream)).id.removeprefix("chatcmpl-")
            held.begun.wait(60)
        with served.client() as http:
            http.post(f"/api/tasks/{task_id}/pause").raise_for_status()
        held.go.set()
    with Served(database, OPEN, agents=[held.agent("a", reply, tools=(refund,))]) as served, stock(served) as client:
        with served.client() as http:
            http.post(f"/api/tasks/{task_id}/resume").raise_for_status()
            wait_until(lambda: http.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "done")
        ids = [client.chat.completions.create(model="a", messages=messages).id for _ in range(2)]
        assert [name == f"chatcmpl-{task_id}" for name in ids] == [True, False]
        assert len(sessions(served)) == 2


def test_a_process_that_stops_leaves_the_answer_to_another_one_that_the_client_asks(held: Held, database: Path) -> None:
    agents, messages = [held.agent("a", reply)], said("please hold")
    with (
        Served(database, OPEN, agents=agents) as first,
        Served(database, OPEN, agents=agents) as other,
        stock(first) as client,
        stock(other) as again,
        ThreadPoolExecutor(1) as pool,
    ):
        with client.chat.completions.create(model="a", messages=messages, stream=True) as stream:
            task_id = next(iter(stream)).id.removeprefix("chatcmpl-")
            assert held.begun.wait(60)
            retry: Any = {"x-stainless-retry-count": "1"}
            asked = pool.submit(again.chat.completions.create, model="a", messages=messages, extra_headers=retry)
            wait_until(lambda: other.service._readers[task_id] == 1)
            stopping = first.begin(drain(first.service))
            wait_until(lambda: first.service.draining)
            held.go.set()
        stopping.result(60)
        assert asked.result(60).choices[0].message.content == "Settled, 好的."
    assert held.effects == ["one"]


def test_a_paused_task_says_so_and_goes_on(client: openai.OpenAI, served: Served, held: Held) -> None:
    messages: Messages = [{"role": "user", "content": "please hold"}]
    with client.chat.completions.create(model="a", messages=messages, stream=True) as stream:
        task_id = next(iter(stream)).id.removeprefix("chatcmpl-")
        held.begun.wait(60)
        with served.client() as http:
            http.post(f"/api/tasks/{task_id}/pause").raise_for_status()
            held.go.set()
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            wait_until(lambda: http.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "paused")
    assert text == "The task is paused. Send another message to continue."
    messages.append({"role": "assistant", "content": text})
    assert say(client, messages, "go on") == "Settled, 好的."
    assert held.effects == ["one"]


@pytest.mark.parametrize("resume", [True, False])
def test_a_stream_that_ends_as_the_service_stops_says_how_the_task_goes_on(
    held: Held, database: Path, resume: bool
) -> None:
    settings, agents = ServerSettings(drain_seconds=20, resume=resume), [held.agent("a", reply)]
    messages: Messages = [{"role": "user", "content": "please hold"}]
    with Served(database, settings, agents=agents) as served, stock(served) as client:
        with client.chat.completions.create(model="a", messages=messages, stream=True) as stream:
            task_id = next(iter(stream)).id.removeprefix("chatcmpl-")
            held.begun.wait(60)
            run = served.service.app._runner.run_of(task_id)
            stopping = served.begin(drain(served.service))
            wait_until(lambda: run is not None and bool(run.reason))
            held.go.set()
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        stopping.result(60)
    assert text == stop_notice("paused", "en", resumed=resume)
    with Served(database, settings, agents=agents) as served, stock(served) as client, served.client() as http:
        if resume:
            wait_until(lambda: http.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "done")
        again = client.chat.completions.create(model="a", messages=messages)
    assert (again.id, again.choices[0].message.content) == (f"chatcmpl-{task_id}", "Settled, 好的.")
    assert held.effects == ["one"]


@pytest.mark.parametrize(
    ("resume", "stream", "rest"),
    [
        (True, True, " Its end."),
        (False, True, " Its end."),
        (True, False, " Its end."),
        (True, True, ""),
        (True, False, ""),
    ],
)
def test_continue_yields_the_rest_of_an_answer_that_the_stop_of_the_service_cut(
    database: Path, resume: bool, stream: bool, rest: str
) -> None:
    """Also where it is asked for again. Where there is none, it is said."""
    first, go = "The first half.", threading.Event()
    settings = ServerSettings(drain_seconds=0.1, resume=resume)
    messages = said("tell me")
    with LoopbackServer([Gate(first, rest, go), Gate(first, rest, go), Text("You are welcome.")]) as server:
        fields: Any = {"mode": "react", "protocol": "native", "tools": (refund,)}
        agents = [Agent(agent_id="a", model="openai:x", base_url=server.base_url, api_key="k", **fields)]
        with Served(database, settings, agents=agents) as served, stock(served) as client:
            with client.chat.completions.create(model="a", messages=messages, stream=True) as chunks:
                text = ""
                for chunk in chunks:
                    text += chunk.choices[0].delta.content or ""
                    if text == first:
                        stopping = served.begin(drain(served.service))
            stopping.result(60)
        assert text == f"{first}\n\n{stop_notice('paused', 'en', resumed=resume)}"
        messages += [{"role": "assistant", "content": text}, *said("Continue.")]
        go.set()
        with Served(database, settings, agents=agents) as served, stock(served) as client:
            for _ in range(2):
                if stream:
                    deltas = client.chat.completions.create(model="a", messages=messages, stream=True)
                    text = "".join(chunk.choices[0].delta.content or "" for chunk in deltas)
                else:
                    text = client.chat.completions.create(model="a", messages=messages).choices[0].message.content or ""
                assert text == (rest or stop_notice("done", "en"))
            messages.append({"role": "assistant", "content": text})
            assert say(client, messages, "thank you") == "You are welcome."
            assert len(sessions(served)) == 1
            history = served.do(served.service.app.history(sessions(served)[0]))
        assert [each["content"] for each in history] == ["tell me", first + rest, "thank you", "You are welcome."]


def test_a_task_that_fails_is_an_error_and_is_tried_again(client: openai.OpenAI, served: Served) -> None:
    messages: Messages = [{"role": "user", "content": "please fail"}]
    with pytest.raises(openai.InternalServerError, match="the endpoint is down") as caught:
        client.chat.completions.create(model="a", messages=messages)
    assert (caught.value.status_code, caught.value.code) == (502, "task_failed")
    with pytest.raises(openai.APIError, match="the endpoint is down"):
        list(client.chat.completions.create(model="a", messages=messages, stream=True))
    assert len(sessions(served)) == 1


def test_a_task_that_ends_with_an_error_is_not_tried_again(tmp_path: Path) -> None:
    model = ScriptedChatModel([call_tool(("eval", {}))] * 10)
    agent = Agent(agent_id="a", model=model, mode="react")
    messages: Messages = [{"role": "user", "content": "go"}]
    sent: list[httpx.Request] = []
    with (
        Served(tmp_path / "a.db", agents=[agent]) as served,
        httpx.Client(timeout=60, trust_env=False, event_hooks={"request": [sent.append]}) as http,
        openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=2, http_client=http) as client,
    ):
        with pytest.raises(openai.InternalServerError, match="failed 3 times") as caught:
            client.chat.completions.create(model="a", messages=messages)
        assert (caught.value.status_code, caught.value.code, len(sent)) == (500, "task_failed", 1)
        response = client.responses.create(model="a", input="go")
        assert response.status == "failed" and response.error is not None
        assert "failed 3 times" in response.error.message


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"n": 2}, "body.n"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 1}}}}, "schema"),
        ({"temperature": 3}, "temperature"),
        ({"stop": "x"}, "are JSON"),
        ({"messages": [{"role": "system", "content": "hi"}]}, "must come from the user"),
        ({"messages": []}, "messages"),
    ],
)
def test_what_is_not_supported_is_refused(client: openai.OpenAI, fields: dict[str, Any], why: str) -> None:
    body = {"model": "a", "messages": [{"role": "user", "content": "hi"}], **fields}
    with pytest.raises(openai.UnprocessableEntityError, match=why) as caught:
        client.chat.completions.create(**body)
    assert caught.value.type == "invalid_request_error"


def test_the_requests_of_open_webui_and_librechat(served: Served) -> None:
    """Their documented fields and headers: a chat's id names the session; settings of sampling change nothing."""
    head = {"X-OpenWebUI-Chat-Id": "chat-1", "X-OpenWebUI-User-Id": "7", "Authorization": "Bearer none"}
    webui = {
        "model": "a",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "apples"}]}],
        "temperature": 0.7,
        "max_tokens": 100,
    }
    librechat = {
        "model": "a",
        "user": "65f0",
        "stream": True,
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "pears"}],
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
    }
    with served.client() as http:
        first = http.post("/v1/chat/completions", json=webui, headers=head)
        second = http.post("/v1/chat/completions", json=librechat)
        another = {**librechat, "messages": [{"role": "user", "content": "plums"}]}
        other = http.post("/v1/chat/completions", json=another)
        assert other.headers["x-session-id"] != second.headers["x-session-id"], "a user is a person, no session"
        assert http.get(f"/api/sessions/{second.headers['x-session-id']}/tasks").json()["items"][0]["user_id"] == "65f0"
        for answered, session in ((first, "chat-1"), (second, second.headers["x-session-id"])):
            assert answered.headers["content-type"].startswith("text/event-stream")
            assert answered.headers["x-session-id"] == session
            assert answered.text.rstrip().endswith("data: [DONE]")


def test_tenants_are_apart_and_a_key_is_needed(held: Held, database: Path) -> None:
    settings = ServerSettings(keys=KEYS)
    with Served(database, settings, agents=[held.agent("a", reply)]) as served:
        with stock(served) as client, pytest.raises(openai.AuthenticationError, match="An API key is required"):
            client.models.list()
        for key in (KEY, "key-of-beta-0123456789"):
            with stock(served, key) as client:
                assert say(client, [], "apples", metadata={"session_id": "ann"}) == "Heard apples."
        with served.client(headers={"Authorization": f"Bearer {KEY}"}) as http:
            assert [row["session_id"] for row in http.get("/api/sessions").json()["items"]] == ["ann"]
            assert chat(http, "pears", session_id="ann", agent_id="a")[-1]["result"]["success"]


def test_a_refusal_is_in_the_message_and_in_the_stream(tmp_path: Path) -> None:
    agent = Agent(agent_id="clerk", model="offline", mode="react", tools=(refund,))
    asked: Any = {"model": "clerk", "messages": [{"role": "user", "content": "Paint the fence."}]}
    with Served(tmp_path / "segue.db", OPEN, agents=[agent]) as served, stock(served) as client:
        message = client.chat.completions.create(**asked).choices[0].message
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**asked, stream=True)]
        with client.chat.completions.stream(**asked) as stream:
            final = stream.get_final_completion().choices[0].message
    assert message.refusal and message.content is None
    assert [delta.refusal for delta in deltas if delta.refusal] == [message.refusal] == [final.refusal]
