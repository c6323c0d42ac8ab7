"""Functions of OpenAI's stock client, called by agents: over chat completions and responses, streamed or not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage
from openai.types.responses import Response

import segue
from segue.core.agents import Agent, Budget
from segue.server.errors import Problem
from segue.server.requests import submit_results
from segue.server.service import Service
from segue.server.tenants import Tenant
from segue.telemetry.metrics import Metrics
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.modes import native_call
from tests.polling import wait_until

from . import shop
from .serving import ALPHA, KEY, KEYS, OTHER_KEY, Held, Json, Served, ServerSettings
from .shop import refund
from .test_completions import stock

OPEN = ServerSettings(heartbeat_seconds=0.2, chats_a_minute=6000)
WEATHER: Json = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SHINES = {"Paris": "sun", "Tokyo": "rain", "北京": "snow"}


def weather(*cities: str) -> str:
    return call_tool(*(("weather", {"city": city}) for city in cities), thought="I look it up.")


def reply(messages: Any) -> Any:
    """Ask for the weather of the cities that are named, in one batch or one after another, and say how it is."""
    text = "\n".join(str(message.content) for message in messages)
    cities = [city for city in SHINES if city in text]
    known = [city for city in cities if f"{city}: {SHINES[city]}" in text or "no result" in text]
    if "then refund" in text and "refunded" not in text and known:
        return call_tool(("refund", {"amount": 5}))
    if len(known) == len(cities):
        return answer(f"It is {', '.join(SHINES[city] for city in known) or 'not known'}.")
    return weather(*cities) if "at once" in text else weather(cities[len(known)])


def serve(database: Path, settings: ServerSettings = OPEN) -> Served:
    return Served(database, settings, agents=[Held().agent("a", reply, tools=(refund,))])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("functions") / "segue.db") as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with stock(served) as client:
        yield client


def result_of(call: Json) -> str:
    city = json.loads(call["arguments"])["city"]
    return f"{city}: {SHINES[city]}"


class Chat:
    """A program that carries out the calls of a completion, as OpenAI's guide on function calling does."""

    def __init__(self, client: openai.OpenAI, stream: bool = False, **options: Any) -> None:
        self._client = client
        self._stream = stream
        self.options = {"model": "a", "tools": [{"type": "function", "function": WEATHER}], **options}
        self.messages: list[Any] = []
        self.batches: list[int] = []
        """How many calls each completion had."""

    def ask(self, text: str) -> Json:
        self.messages.append({"role": "user", "content": text})
        return self.complete()

    def complete(self) -> Json:
        """The message of the next completion, which is put behind the others."""
        made = self._client.chat.completions.create(messages=self.messages, stream=self._stream, **self.options)
        message, reason = _assembled(made) if self._stream else _whole(made)
        assert reason == ("tool_calls" if message.get("tool_calls") else "stop")
        self.messages.append(message)
        return message

    def answer_calls(self) -> str:
        """Carry out what is called until there is an answer."""
        while calls := self.messages[-1].get("tool_calls"):
            self.batches.append(len(calls))
            for call in calls:
                self.messages.append(told(call))
            self.complete()
        return str(self.messages[-1]["content"])


def told(call: Json, content: str | None = None) -> Json:
    return {"role": "tool", "tool_call_id": call["id"], "content": content or result_of(call["function"])}


def _whole(made: Any) -> tuple[Json, str]:
    (choice,) = made.choices
    return choice.message.model_dump(exclude_none=True, exclude={"reasoning_content"}), choice.finish_reason


def _assembled(stream: Any) -> tuple[Json, str]:
    """What a client makes of the deltas."""
    message: Json = {"role": "assistant", "content": ""}
    calls: dict[int, Json] = {}
    reason = ""
    for chunk in stream:
        for choice in chunk.choices:
            message["content"] += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or ():
                call = calls.setdefault(delta.index, {"id": "", "type": "function", "function": {"name": ""}})
                call["id"] += delta.id or ""
                call["function"]["name"] += delta.function.name or ""
                call["function"]["arguments"] = call["function"].get("arguments", "") + (delta.function.arguments or "")
    return ({**message, "tool_calls": [*calls.values()]} if calls else message), reason


@pytest.mark.parametrize(
    ("stream", "text", "batches", "said"),
    [
        (False, "Paris?", [1], "sun"),
        (True, "Paris, Tokyo?", [1, 1], "sun, rain"),
        (False, "Paris, Tokyo, 北京 at once?", [3], None),
        (True, "Paris, Tokyo, 北京 at once?", [3], None),
    ],
)
def test_a_completion_calls_and_the_results_go_on(
    client: openai.OpenAI, served: Served, stream: bool, text: str, batches: list[int], said: str | None
) -> None:
    chat = Chat(client, stream, metadata={"session_id": f"ann-{stream}-{len(text)}"})
    first = chat.ask(text)
    (*_, call) = first["tool_calls"]
    assert len(call["id"]) == 40 and (call["type"], call["function"]["name"]) == ("function", "weather")
    assert chat.answer_calls() == f"It is {said or 'sun, rain, snow'}."
    assert chat.batches == batches
    again = chat.ask("And Tokyo at once?")
    assert chat.answer_calls().startswith("It is") and again is not None
    with served.client() as http:
        tasks = http.get(f"/api/sessions/ann-{stream}-{len(text)}/tasks").json()["items"]
    assert [task["message"] for task in tasks] == ["And Tokyo at once?", text]


def test_without_parallel_calls_there_is_one_at_a_time(client: openai.OpenAI) -> None:
    chat = Chat(client, parallel_tool_calls=False, metadata={"session_id": "bob"})
    chat.ask("Paris, Tokyo at once?")
    assert (chat.answer_calls(), chat.batches) == ("It is sun, rain.", [1, 1])


def test_results_may_come_one_by_one(client: openai.OpenAI) -> None:
    chat = Chat(client, metadata={"session_id": "dan"})
    paris, tokyo = chat.ask("Paris, Tokyo at once?")["tool_calls"]
    chat.messages.append(told(tokyo))
    assert [call["id"] for call in chat.complete()["tool_calls"]] == [paris["id"]]
    assert chat.answer_calls() == "It is sun, rain."


def test_a_conversation_with_functions_survives_restarts_and_approval(database: Path) -> None:
    messages: list[Any] = []
    for step in range(4):
        with serve(database) as served, stock(served) as client:
            chat = Chat(client, stream=step == 2)
            chat.messages = messages
            if step == 0:
                chat.ask("Paris, then refund")
            elif step == 1:
                messages.append(told(messages[-1]["tool_calls"][0]))
                assert chat.complete()["content"].startswith("Approve refund(amount=5)?")
            elif step == 2:
                assert chat.ask("approve")["content"] == "It is sun."
            else:
                assert chat.ask("Tokyo at once?")["tool_calls"]
                with served.client() as http:
                    assert len(http.get("/api/sessions").json()["items"]) == 1


def test_the_same_results_again_are_the_same_answer_and_others_are_refused(client: openai.OpenAI) -> None:
    chat = Chat(client, metadata={"session_id": "eve"})
    (call,) = chat.ask("Paris?")["tool_calls"]
    asked = list(chat.messages)
    chat.answer_calls()
    for stream in (False, True):
        again = Chat(client, stream, metadata={"session_id": "eve"})
        again.messages = [*asked, told(call)]
        assert again.complete()["content"] == "It is sun."
    again.messages = [*asked, told(call, "fog")]
    with pytest.raises(openai.ConflictError, match="already has a result"):
        again.complete()


def test_results_that_come_with_an_idempotency_key_belong_to_the_conversation(
    client: openai.OpenAI, served: Served
) -> None:
    chat = Chat(client, metadata={"session_id": "ida"})
    chat.ask("Paris?")
    keyed = Chat(client, metadata={"session_id": "ida"}, extra_headers={"Idempotency-Key": "results-of-ida"})
    keyed.messages = chat.messages
    assert keyed.answer_calls() == "It is sun."
    chat.ask("And Tokyo at once?")
    with served.client() as http:
        tasks = http.get("/api/sessions/ida/tasks").json()["items"]
    assert [task["message"] for task in tasks] == ["And Tokyo at once?", "Paris?"]


async def test_a_message_to_calls_that_wait_no_longer_is_a_conflict() -> None:
    agent = Held().agent("a", shop.reply, tools=(refund,))
    async with segue.open(":memory:", agents=[agent]) as app:
        asked = await app.ask("please refund", agent="a")
        service = Service(app, OPEN, Metrics(app))
        with pytest.raises(Problem, match="ResultGiven"):
            await submit_results(service, Tenant(), await app.task(asked["task_id"]), {}, "never mind", None)


def test_a_call_that_is_not_known_or_another_tenants_is_refused(database: Path) -> None:
    with serve(database, ServerSettings(keys=KEYS)) as served, stock(served, KEY) as client:
        chat = Chat(client)
        (call,) = chat.ask("Paris?")["tool_calls"]
        for named in ("", "call_1", call["id"][:-3] + "abc", "call_" + "é" * 35):
            chat.messages = [*chat.messages[:2], told({**call, "id": named})]
            with pytest.raises(openai.NotFoundError, match="No call") as caught:
                chat.complete()
            assert caught.value.type == "invalid_request_error"
        chat.messages[2] = told(call)
        with stock(served, OTHER_KEY) as other:
            stolen = Chat(other)
            stolen.messages = chat.messages
            with pytest.raises(openai.NotFoundError, match="No call"):
                stolen.complete()
        with served.client(headers=ALPHA) as http:
            assert http.get("/api/waiting").json()["items"] == []
        assert (
            chat.answer_calls() if chat.complete().get("tool_calls") else chat.messages[-1]["content"] == "It is sun."
        )


def test_a_message_without_the_result_goes_on_as_well(client: openai.OpenAI, served: Served) -> None:
    chat = Chat(client, metadata={"session_id": "fay"})
    chat.ask("Paris?")
    assert chat.ask("never mind")["content"] == "It is sun."
    with served.client() as http:
        (task,) = http.get("/api/sessions/fay/tasks").json()["items"]
        (call,) = http.get(f"/api/tasks/{task['task_id']}").json()["calls"]
        said = http.get("/api/sessions/fay/history").json()["items"]
    assert call["outcome"] == {"success": "The client gave no result."}
    assert [each["content"] for each in said if each["role"] == "user"] == ["Paris?", "never mind"]


def test_a_message_after_lost_calls_is_sent_alone(database: Path) -> None:
    """A client that did not get the calls sends its message before once more."""
    with (
        serve(database, replace(OPEN, on_disconnect={"chat_completions": "continue"})) as served,
        stock(served) as client,
        served.client() as http,
    ):
        chat = Chat(client)
        chat.messages.append({"role": "user", "content": "Paris?"})
        body = {**chat.options, "messages": chat.messages, "stream": True}
        with http.stream("POST", "/v1/chat/completions", json=body):
            pass  # it leaves without the calls
        wait_until(lambda: [each["status"] for each in http.get("/api/sessions").json()["items"]] == ["waiting"])
        assert chat.ask("never mind")["content"] == "It is sun."
        (session,) = http.get("/api/sessions").json()["items"]
        said = http.get(f"/api/sessions/{session['session_id']}/history").json()["items"]
        assert [each["content"] for each in said if each["role"] == "user"] == ["Paris?", "never mind"]


@pytest.mark.parametrize("has_result", [True, False])
def test_a_message_that_is_too_long_is_refused_beside_results_too(database: Path, has_result: bool) -> None:
    agent = Held().agent("a", reply, budget=Budget(message_bytes=20))
    with Served(database, OPEN, agents=[agent]) as served, stock(served) as client:
        chat = Chat(client)
        calls = chat.ask("Paris?")["tool_calls"]
        chat.messages += [told(call) for call in calls if has_result]
        with pytest.raises(openai.UnprocessableEntityError, match="21 bytes; the limit is 20"):
            chat.ask("x" * 21)
        chat.messages.pop()
        assert chat.ask("never mind")["content"] == "It is sun."


@pytest.mark.parametrize("protocol", ["native", "json"])
def test_a_message_behind_a_result_is_the_users(database: Path, protocol: str) -> None:
    """As after Esc in codex and opencode: results are only read as data."""
    call = ("weather", {"city": "Paris"})
    script = [call_tool(call), answer("It is sun.")]
    if protocol == "native":
        script = [native_call(("1", *call)), AIMessage("It is sun.")]
    model = ScriptedChatModel(script)
    agent = Agent(agent_id="a", model=model, mode="react", protocol=protocol)
    with Served(database, OPEN, agents=[agent]) as served, stock(served) as client:
        chat = Chat(client, True)
        chat.messages.append(told(chat.ask("Paris?")["tool_calls"][0]))
        assert chat.ask("Rome instead")["content"] == "It is sun."
    users = [str(message.content) for message in model.calls[-1] if message.type == "human"]
    assert users[-1].endswith("Rome instead")


def test_a_completion_with_calls_has_its_tokens(database: Path) -> None:
    used = {"usage_metadata": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}}
    call, said = native_call(("1", "weather", {"city": "Paris"})), AIMessage("It is sun.")
    model = ScriptedChatModel([call.model_copy(update=used), said.model_copy(update=used)])
    agent = Agent(agent_id="a", model=model, mode="react", protocol="native")
    weather = [{"type": "function", "function": WEATHER}]
    with Served(database, OPEN, agents=[agent]) as served, stock(served) as client:
        messages: list[Any] = [{"role": "user", "content": "Paris?"}]
        first = client.chat.completions.create(model="a", messages=messages, tools=weather)  # type: ignore[arg-type]
        asked = first.choices[0].message
        messages += [asked, told(asked.to_dict()["tool_calls"][0])]  # type: ignore[index]
        second = client.chat.completions.create(model="a", messages=messages, tools=weather)  # type: ignore[arg-type]
    assert [made.usage and made.usage.total_tokens for made in (first, second)] == [9, 18]


def test_other_tools_begin_another_task(client: openai.OpenAI) -> None:
    """A program whose function was changed is not called as it was before."""
    first = Chat(client, metadata={"session_id": "gus"}).ask("Paris?")["tool_calls"][0]
    assert Chat(client, metadata={"session_id": "gus"}).ask("Paris?")["tool_calls"][0]["id"] == first["id"]
    changed = {"type": "function", "function": {**WEATHER, "description": "The weather."}}
    assert (
        Chat(client, metadata={"session_id": "gus"}, tools=[changed]).ask("Paris?")["tool_calls"][0]["id"]
        != first["id"]
    )


def test_text_beside_a_call_is_said_once(database: Path) -> None:
    call = {"id": "c", "name": "weather", "args": {"city": "Paris"}, "type": "tool_call"}
    text = "I look out of the window for you. " * 10 + "Please wait."
    for stream in (False, True):
        model = ScriptedChatModel([AIMessage(text, tool_calls=[call]), AIMessage("It is sun.")])
        agent = Agent(agent_id="a", model=model, mode="react", protocol="native")
        with Served(database, OPEN, agents=[agent]) as served, stock(served) as client:
            chat = Chat(client, stream, user=str(stream))
            assert chat.ask("Paris?")["content"].strip() == text
            assert chat.answer_calls() == "It is sun."


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tools": [{"type": "function", "function": {**WEATHER, "name": "refund"}}]}, "two tools called refund"),
        ({"tools": [{"type": "function", "function": {**WEATHER, "name": "a b"}}]}, "'a b' is not valid"),
        ({"tool_choice": "required", "model": "a:direct"}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": [{"name": "x"}]}}}, "tool_choice is x"),
        ({"extra_headers": {"x-stainless-retry-count": "9" * 400}}, "retry-count"),
        ({"tool_choice": {"type": "function", "function": {"name": "refund"}}}, "tool_choice is refund"),
    ],
)
def test_what_cannot_be_honoured_is_refused(client: openai.OpenAI, fields: Any, why: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=why):
        Chat(client, **fields).ask("Paris?")


def test_no_tool_is_called_where_none_may_be(client: openai.OpenAI) -> None:
    chat = Chat(client, tool_choice="none", metadata={"session_id": "hal"})
    assert chat.ask("hello")["content"] == "It is not known."
    waiting = Chat(client, metadata={"session_id": "ida"})
    (call,) = waiting.ask("Paris?")["tool_calls"]
    final = Chat(client, tool_choice="none", metadata={"session_id": "ida"})
    final.messages = [*waiting.messages, told(call)]
    assert final.complete()["content"] == "It is sun."


# Responses.

FUNCTION: Any = {"type": "function", **WEATHER, "strict": True}


def respond(client: openai.OpenAI, given: Any, stream: bool = False, **options: Any) -> Response:
    """A response; streamed, its events make up the items that it ends with."""
    fields: Any = {"model": "a", "input": given, "tools": [FUNCTION], **options}
    if not stream:
        return client.responses.create(**fields)
    with client.responses.stream(**fields) as events:
        done = [event.item for event in events if event.type == "response.output_item.done"]
        final = events.get_final_response()
    assert [item.id for item in done] == [item.id for item in final.output]
    return final


def outputs(response: Response) -> list[Any]:
    """The results of the calls of a response."""
    return [
        {"type": "function_call_output", "call_id": item.call_id, "output": result_of(item.to_dict())}
        for item in response.output
        if item.type == "function_call"
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_calls_and_the_outputs_go_on(client: openai.OpenAI, stream: bool) -> None:
    first = respond(client, "Paris, Tokyo at once?", stream)
    assert first.status == "completed" and [item.type for item in first.output] == ["reasoning"] + 2 * ["function_call"]
    assert first.output[1].to_dict()["arguments"] == '{"city":"Paris"}'
    assert [tool.to_dict()["name"] for tool in first.tools] == ["weather"] and first.parallel_tool_calls
    second = respond(client, outputs(first), stream, previous_response_id=first.id)
    assert (second.output_text, second.previous_response_id) == ("It is sun, rain.", first.id)
    assert "mcp_call" not in [item.type for item in second.output]
    assert client.responses.retrieve(first.id).output_text == ""
    items = client.responses.input_items.list(second.id, order="asc").data
    assert [{name: item.to_dict()[name] for name in outputs(first)[0]} for item in items] == outputs(first)
    third = respond(client, "And 北京 at once?", stream, previous_response_id=second.id)
    assert third.conversation == second.conversation and len(outputs(third)) == 3
    also = [*outputs(third), {"role": "user", "content": "Tokyo, too"}]
    fourth = respond(client, also, stream, previous_response_id=third.id)
    *results, message = client.responses.input_items.list(fourth.id, order="asc").data
    assert (fourth.status, len(results)) == ("completed", 3)
    assert message.to_dict()["content"][0]["text"] == "Tokyo, too"  # type: ignore[index]


@pytest.mark.parametrize("kept", ["items", "without ids", "conversation"])
def test_outputs_find_their_task_however_the_client_keeps_the_conversation(client: openai.OpenAI, kept: str) -> None:
    history: list[Any] = [{"role": "user", "content": "Paris?"}]
    first = respond(client, history)
    if kept == "conversation":
        assert first.conversation
        second = respond(client, outputs(first), conversation=first.conversation.id)
    else:
        history += [item.to_dict() for item in first.output] + outputs(first)
        if kept == "without ids":
            history = [{name: value for name, value in item.items() if name != "id"} for item in history]
        second = respond(client, history)
    assert second.output_text == "It is sun." and second.conversation == first.conversation


def test_the_same_outputs_again_are_the_same_response(client: openai.OpenAI) -> None:
    first = respond(client, "Paris?")
    second = respond(client, outputs(first), previous_response_id=first.id)
    assert respond(client, outputs(first), previous_response_id=first.id).to_dict() == second.to_dict()
    with pytest.raises(openai.ConflictError, match="already has a result"):
        respond(client, [{**outputs(first)[0], "output": "fog"}], previous_response_id=first.id)


def test_outputs_of_other_calls_are_refused(client: openai.OpenAI) -> None:
    first, other = respond(client, "Paris?"), respond(client, "Tokyo?")
    for given, options in (
        ([{**outputs(first)[0], "call_id": "call_1"}], {}),
        (outputs(first), {"previous_response_id": other.id}),
        (outputs(first), {"conversation": other.conversation.id if other.conversation else ""}),
    ):
        with pytest.raises(openai.NotFoundError, match="No call"):
            respond(client, given, **options)
    assert respond(client, "never mind", previous_response_id=first.id).output_text == "It is sun."


def test_a_response_with_functions_survives_a_restart(database: Path) -> None:
    with serve(database) as served, stock(served) as client:
        first = respond(client, "Paris?", background=True, stream=True)
    with serve(database) as served, stock(served) as client:
        again = client.responses.retrieve(first.id)
        assert outputs(again) == outputs(first) and len(outputs(again)) == 1
        assert respond(client, outputs(again), previous_response_id=again.id).output_text == "It is sun."
