"""What a request asks of its reply: it reaches every model call of its task, also after a restart, or is refused."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from segue.core.agents import Agent
from tests.fakes import ScriptedChatModel, answer, call_tool, choose, plan_json
from tests.loopback import LoopbackServer, Text
from tests.loopback_script import ToolCalls
from tests.polling import wait_until

from .serving import Json, Served, ServerSettings
from .shop import refund
from .test_completions import stock

OPEN = ServerSettings(chats_a_minute=6000)
SHOW: Json = {"name": "show", "parameters": {"type": "object", "properties": {"page": {"type": "string"}}}}
OTHER: Json = {"name": "other", "parameters": {"type": "object", "properties": {}}}
SETTINGS: Json = {
    "temperature": 0.3,
    "top_p": 0.9,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "seed": 7,
    "reasoning_effort": "low",
    "verbosity": "low",
    "max_completion_tokens": 50,
}
SENT = {"temperature": 0.3, "top_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": -0.5}
MODES = ("direct", "react", "plan", "plan_react")


class City(BaseModel):
    name: str
    people: int


class World:
    """An agent of each protocol whose models say what `reply` says, and what they were asked."""

    def __init__(self) -> None:
        self.reply: Callable[[list[BaseMessage], Json], str | AIMessage] = lambda *_: "Fine."
        self.models = {name: ScriptedChatModel(self._replying(name)) for name in ("native", "json")}

    def _replying(self, name: str) -> Callable[[Any], str | AIMessage]:
        return lambda messages: self.reply(messages, self.models[name].call_kwargs[-1])

    def agents(self) -> list[Agent]:
        return [
            Agent(agent_id=name, model=model, mode="react", protocol=name, tools=(refund,), accepts=("image",))  # type: ignore[arg-type]
            for name, model in self.models.items()
        ]

    def kwargs(self, name: str) -> Json:
        return self.models[name].call_kwargs[-1]

    def systems(self, name: str) -> list[str]:
        return [str(message.content) for message in self.models[name].calls[-1] if message.type == "system"]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("options") / "segue.db", OPEN, agents=world.agents()) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with stock(served) as client:
        yield client


def written(messages: list[BaseMessage], kwargs: Json) -> str:
    """A plan, a decision or prose, as the prompt asks for it."""
    prompt = "\n".join(str(message.content) for message in messages)
    if '"goal"' in prompt and '"steps"' in prompt:
        return plan_json("say it", [{"action": "none", "description": "answer", "phase": "generation", "params": {}}])
    return answer("Fine.") if '"action_type"' in prompt else "Fine."


@pytest.mark.parametrize(("protocol", "mode"), [*(("json", mode) for mode in MODES), ("native", "react")])
def test_settings_and_system_messages_reach_the_model(
    client: openai.OpenAI, world: World, protocol: str, mode: str
) -> None:
    world.reply = written
    made = client.chat.completions.create(
        model=f"{protocol}:{mode}",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": f"In {mode}."},
            {"role": "user", "content": f"Hello in {mode}."},
        ],
        **SETTINGS,
    )
    assert made.choices[0].message.content == "Fine."
    kwargs = world.kwargs(protocol)
    assert {name: kwargs[name] for name in SENT} == SENT
    assert (kwargs["max_tokens"], kwargs["reasoning_effort"], kwargs["verbosity"]) == (50, "low", "low")
    _, *asked = world.systems(protocol)
    assert asked == ["Be brief.", f"In {mode}."]
    (said,) = [str(m.content) for m in world.models[protocol].calls[-1] if m.type == "human" and "Hello" in m.text]
    assert "Be brief." not in said


def test_responses_ask_the_same(client: openai.OpenAI, world: World) -> None:
    world.reply = lambda *_: "Fine."
    first = client.responses.create(
        model="native",
        instructions="Be brief.",
        input=[{"role": "developer", "content": "Say fine."}, {"role": "user", "content": "Hello."}],
        temperature=0.3,
        top_p=0.9,
        max_output_tokens=64,
        reasoning={"effort": "low"},
        text={"verbosity": "low"},
        metadata={"a": "b"},
        truncation="auto",
        include=["reasoning.encrypted_content"],
    )
    assert world.systems("native")[1:] == ["Be brief.", "Say fine."]
    kwargs = world.kwargs("native")
    assert (kwargs["temperature"], kwargs["top_p"], kwargs["max_tokens"]) == (0.3, 0.9, 64)
    assert (kwargs["reasoning_effort"], kwargs["verbosity"]) == ("low", "low")
    assert (first.temperature, first.top_p, first.max_output_tokens, first.truncation) == (0.3, 0.9, 64, "auto")
    assert first.reasoning and first.reasoning.effort == "low" and first.metadata == {"a": "b"}
    client.responses.create(model="native", previous_response_id=first.id, input="And now?", instructions="Be kind.")
    assert world.systems("native")[1:] == ["Be kind.", "Say fine."], "instructions are of one response"


def test_a_limit_of_tokens_ends_the_answer(client: openai.OpenAI, world: World) -> None:
    world.reply = lambda *_: AIMessage("It was a", response_metadata={"finish_reason": "length"})
    made = client.chat.completions.create(
        model="native", messages=[{"role": "user", "content": "A tale."}], max_completion_tokens=3
    )
    assert (made.choices[0].message.content, made.choices[0].finish_reason) == ("It was a", "length")
    response = client.responses.create(model="native", input="A tale.", max_output_tokens=3)
    assert response.status == "incomplete" and response.output_text == "It was a"
    assert response.incomplete_details and response.incomplete_details.reason == "max_output_tokens"


LONG = " ".join(map(str, range(9000)))
NO_STEP = plan_json("g", [{"action": "none", "description": "think"}])
LONG_REPLIES: dict[str, list[str]] = {
    "native:direct": [LONG],
    "native:react": [LONG],
    "json:react": [answer(LONG)],
    "native:plan": [NO_STEP, LONG],
    "json:controller": [NO_STEP, choose("final_answer", answer=LONG)],
}


@pytest.mark.parametrize("model", LONG_REPLIES)
def test_a_long_answer_is_one_answer_up_to_the_agents_limit(
    client: openai.OpenAI, served: Served, world: World, model: str
) -> None:
    """It is what was streamed, the client's history has it, and the history of the session as well."""
    script = iter(LONG_REPLIES[model])
    world.reply = lambda *_: next(script)
    asked: Any = {"model": model, "messages": [{"role": "user", "content": f"count in {model}"}]}
    chunks = [*client.chat.completions.create(**asked, stream=True)]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert [choice.finish_reason for choice in chunks[-1].choices] == ["length"]
    whole, _, note = text.partition("\n\n(The answer was truncated")
    assert LONG.startswith(whole) and 31_000 < len(whole) < 34_000 and note
    with served.client() as http:
        task = http.get(f"/api/tasks/{chunks[-1].model_extra['segue']['task_id']}").json()["task"]
        said = http.get(f"/api/sessions/{task['session_id']}/history").json()["items"]
    assert task["result"]["answer"] == said[-1]["content"] == text
    assert len(said) == 2 and next(script, None) is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_required(client: openai.OpenAI, world: World, stream: bool) -> None:
    """A reply without one is asked for again; after its result the next request may require none."""

    def reply(messages: list[BaseMessage], kwargs: Json) -> AIMessage:
        assert kwargs.get("tool_choice") in (None, "any"), kwargs
        if any(message.type == "tool" for message in messages):
            return AIMessage("Shown.")
        if any("An answer is not possible now" in str(message.content) for message in messages):
            return AIMessage("", tool_calls=[{"name": "show", "args": {"page": "cart"}, "id": "c1"}])
        return AIMessage("I would rather talk.")

    world.reply = reply
    tools: Any = [{"type": "function", **SHOW}]
    text = f"Show it {stream}."
    response = client.responses.create(model="native", input=text, tools=tools, tool_choice="required")
    assert response.tool_choice == "required"
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert world.kwargs("native")["tool_choice"] == "any"
    done = client.responses.create(
        model="native",
        previous_response_id=response.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "ok"}],
        tools=tools,
    )
    assert done.output_text == "Shown." and world.kwargs("native").get("tool_choice") is None


@pytest.mark.parametrize("protocol", ["native", "json"])
def test_a_named_function_is_called(client: openai.OpenAI, world: World, protocol: str) -> None:
    def reply(messages: list[BaseMessage], kwargs: Json) -> AIMessage:
        if protocol == "json":
            return AIMessage(call_tool(("other", {})))
        return AIMessage("", tool_calls=[{"name": "other", "args": {}, "id": "c1"}])

    world.reply = reply
    tools: Any = [{"type": "function", "function": each} for each in (SHOW, OTHER)]
    made = client.chat.completions.create(
        model=protocol,
        messages=[{"role": "user", "content": f"Other, please, {protocol}."}],
        tools=tools,
        tool_choice={"type": "function", "function": {"name": "other"}},
    )
    assert made.choices[0].finish_reason == "tool_calls"
    (call,) = made.choices[0].message.tool_calls or ()
    assert call.type == "function" and call.function.name == "other"
    if protocol == "native":
        assert world.kwargs("native")["tool_choice"] == "other"
        assert [tool["function"]["name"] for tool in world.kwargs("native")["tools"]] == ["other"]


def test_only_allowed_functions_are_offered(client: openai.OpenAI, world: World) -> None:
    world.reply = lambda *_: "Fine."
    tools: Any = [{"type": "function", **each} for each in (SHOW, OTHER)]
    choice: Any = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "show"}]}
    response = client.responses.create(model="native", input="Allowed.", tools=tools, tool_choice=choice)
    names = [tool["function"]["name"] for tool in world.kwargs("native")["tools"]]
    assert "show" in names and "other" not in names
    assert response.to_dict()["tool_choice"]["type"] == "allowed_tools"


@pytest.mark.parametrize(
    ("protocol", "mode"), [*(("json", mode) for mode in (*MODES, "lifecycle")), ("native", "react"), ("native", "plan")]
)
def test_the_answer_is_json_of_the_schema(client: openai.OpenAI, world: World, protocol: str, mode: str) -> None:
    """Prose is asked for again as JSON, and JSON that does not fit once more."""
    replies: list[str] = []

    def reply(messages: list[BaseMessage], kwargs: Json) -> str:
        if "Rewrite the answer below" in str(messages[0].content):
            replies.append("asked")
            return '{"name": "Oslo"}' if len(replies) == 1 else '{"name": "Oslo", "people": 700000}'
        prompt = "\n".join(str(message.content) for message in messages)
        if '"tasks"' in prompt and '"action_type"' not in prompt and mode == "lifecycle":
            return json.dumps({"goal": "city", "tasks": [{"task_id": "1", "description": "say it"}]})
        return written(messages, kwargs)

    world.reply = reply
    made = client.chat.completions.parse(
        model=f"{protocol}:{mode}",
        messages=[{"role": "user", "content": f"A city, in {mode}."}],
        response_format=City,
    )
    assert made.choices[0].message.parsed == City(name="Oslo", people=700000), made.choices[0].message
    assert len(replies) == 2


def test_json_that_fits_costs_no_other_call(client: openai.OpenAI, world: World) -> None:
    world.reply = lambda *_: '{"name": "Oslo", "people": 700000}'
    before = len(world.models["native"].calls)
    response = client.responses.parse(model="native", input="A city.", text_format=City)
    assert response.output_parsed == City(name="Oslo", people=700000)
    assert len(world.models["native"].calls) == before + 1
    assert "people" in world.systems("native")[-1], "the model is told the schema"
    with client.responses.stream(model="native", input="A city, streamed.", text_format=City) as events:
        assert events.get_final_response().output_parsed == response.output_parsed
    follow = client.responses.create(model="native", input="Thanks.", previous_response_id=response.id)
    assert follow.output_text and [m.text for m in world.models["native"].calls[-1] if m.type == "ai"] == [
        '{"name": "Oslo", "people": 700000}'
    ]


def test_an_answer_that_never_fits_is_an_error(client: openai.OpenAI, world: World) -> None:
    world.reply = lambda *_: "I do not know."
    with pytest.raises(openai.InternalServerError, match="did not write a City"):
        client.with_options(max_retries=0).chat.completions.parse(
            model="native:direct", messages=[{"role": "user", "content": "No city."}], response_format=City
        )


def test_what_was_asked_is_there_after_a_restart(tmp_path: Path) -> None:
    """A task that waits for a call's result goes on in another process with the same settings and schema."""
    world = World()

    def reply(messages: list[BaseMessage], kwargs: Json) -> AIMessage:
        if any(message.type == "tool" for message in messages):
            return AIMessage('{"name": "Oslo", "people": 700000}')
        return AIMessage("", tool_calls=[{"name": "show", "args": {}, "id": "c1"}])

    world.reply = reply
    tools: Any = [{"type": "function", **SHOW}]
    with Served(tmp_path / "segue.db", OPEN, agents=world.agents()) as served, stock(served) as client:
        first = client.responses.create(
            model="native", input="Show a city.", instructions="Be brief.", tools=tools, temperature=0.3
        )
    with Served(tmp_path / "segue.db", OPEN, agents=world.agents()) as served, stock(served) as client:
        (call,) = [item for item in first.output if item.type == "function_call"]
        given: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "shown"}]
        done = client.responses.parse(
            model="native", previous_response_id=first.id, input=given, text_format=City, temperature=0.3
        )
        assert done.output_parsed == City(name="Oslo", people=700000)
    assert world.kwargs("native")["temperature"] == 0.3
    assert world.systems("native")[1] == "Be brief."


def test_an_endpoint_is_sent_what_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body of the requests that the `openai` client behind an agent sends."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    city = '{"name": "Oslo", "people": 700000}'
    with LoopbackServer([Text(city), ToolCalls([("c1", "show", "{}")])]) as endpoint:
        agent = Agent(
            agent_id="a",
            model="openai:m",
            base_url=endpoint.base_url,
            mode="react",
            protocol="native",
            accepts=("image",),
        )
        with Served(tmp_path / "segue.db", OPEN, agents=[agent]) as served, stock(served) as client:
            image: Any = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
            client.chat.completions.parse(
                model="a:direct",
                messages=[
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": [{"type": "text", "text": "Which city?"}, image]},
                ],
                response_format=City,
                stop=["END"],
                **SETTINGS,
            )
            tools: Any = [{"type": "function", "function": SHOW}]
            choice: Any = {"type": "function", "function": {"name": "show"}}
            client.chat.completions.create(
                model="a", messages=[{"role": "user", "content": "Show."}], tools=tools, tool_choice=choice
            )
        first, second = (request.body for request in endpoint.requests)
    assert {name: first[name] for name in (*SENT, "seed", "reasoning_effort", "verbosity")} == {
        name: value for name, value in SETTINGS.items() if name != "max_completion_tokens"
    }
    assert 50 in (first.get("max_tokens"), first.get("max_completion_tokens"))
    form = first["response_format"]["json_schema"]
    assert form["strict"] is True and form["schema"]["required"] == ["name", "people"]
    assert "stop" not in first, "a reply in JSON is not stopped by a text in it"
    roles = [message["role"] for message in first["messages"]]
    assert roles == ["system", "system", "system", "user"] and first["messages"][1]["content"] == "Be brief."
    assert first["messages"][-1]["content"][1] == {"type": "image_url", "image_url": {"url": image["image_url"]["url"]}}
    assert second["tool_choice"] == {"type": "function", "function": {"name": "show"}}
    assert [tool["function"]["name"] for tool in second["tools"]] == ["show"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        *(
            ({"model": f"native:{mode}", "tools": [{"type": "function", **SHOW}], "tool_choice": choice}, "tool_choice")
            for mode in ("direct", "plan", "lifecycle", "controller")
            for choice in ("required", {"type": "function", "name": "show"})
        ),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "what"}}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"truncation": "never"}, "truncation"),
        ({"temperature": 9}, "temperature"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(client: openai.OpenAI, fields: Json, param: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.responses.create(**{"model": "native", "input": "Hello.", **fields})
    assert caught.value.type == "invalid_request_error"
    assert str(caught.value.param).startswith(param)


NAMES = "abcdefghijklmnopqrstuvwxyz"
DOUBLING: Json = {
    "$ref": "#/$defs/a",
    "$defs": {a: {"allOf": [{"$ref": f"#/$defs/{b}"}] * 2} for a, b in pairwise(NAMES)} | {"z": {"type": "object"}},
}
NESTED_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "(a+)+$"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (DOUBLING, "references of its schema add more than 10,000 values"),
        ({"$ref": "#/$defs/gone"}, "$ref #/$defs/gone"),
        ({"$defs": {"a": {"$ref": "#/$defs/gone"}}}, "$ref #/$defs/gone"),
        ({"$ref": "https://example.com/schema"}, "$ref https://example.com/schema"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "$ref #/allOf/x"),
        ({"$ref": "#/maxLength", "maxLength": 5}, "$ref #/maxLength"),
        ({"$ref": "#/$defs/a%2Fdefault", "$defs": {"a/default": {}, "a": {"default": NESTED_DRAFT}}}, "$ref #/$defs"),
        ({"properties": {"a": NESTED_DRAFT}}, "$schema is not supported inside a schema"),
        ({"patternProperties": {"(a+)+$": {}}}, "patternProperties is not supported"),
        ({"unevaluatedItems": False}, "unevaluatedItems is not supported"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties is not supported"),
        ({"properties": {"a": {"pattern": "("}}}, "regex"),
        ({"properties": {"a": {"pattern": "a{99999999999999999999}"}}}, "repetition number"),
        ({"properties": {"a": {"pattern": "(" * 600 + ")" * 600}}}, "recursion"),
        ({"maximum": 10**400}, "64 bits"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_everywhere(served: Served, schema: Json, reason: str) -> None:
    form = {"type": "json_schema", "name": "x", "schema": schema}
    chat = {"model": "native", "messages": [{"role": "user", "content": "Hello."}]}
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello."}]}
    with served.client() as http:
        for path, body in (
            ("/v1/responses", {"model": "native", "input": "Hello.", "text": {"format": form}}),
            ("/v1/chat/completions", {**chat, "response_format": {"type": "json_schema", "json_schema": form}}),
            ("/ag-ui/native", {**run, "forwardedProps": {"responseSchema": schema}}),
        ):
            refused = http.post(path, json=body)
            assert (refused.status_code, reason in refused.text) == (422, True), (path, refused.text)


TREE: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["city"],
    "additionalProperties": False,
}
TWICE: Json = {"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
"""Each level of an answer is checked twice as often as the one above."""


def test_a_schema_may_refer_to_itself(client: openai.OpenAI, world: World) -> None:
    replies = iter(['{"city": "Oslo", "parts": [{"parts": []}]}', '{"city": "Oslo", "parts": [{"city": "Frogner"}]}'])
    world.reply = lambda *_: next(replies)
    form: Any = {"format": {"type": "json_schema", "name": "city", "schema": {"$id": "https://x.test/city", **TREE}}}
    made = client.responses.create(model="native:direct", input="A city with its parts.", text=form)
    assert json.loads(made.output_text)["parts"] == [{"city": "Frogner"}], "the first does not fit"


@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        (TWICE, '{"x":' * 30 + "{}" + "}" * 30),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/allOf/0"}}}, "{}"),
    ],
)
def test_the_check_of_an_answer_is_bounded(client: openai.OpenAI, world: World, schema: Json, reply: str) -> None:
    world.reply = lambda *_: reply
    form: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    made = client.with_options(timeout=30).responses.create(model="native:direct", input=f"Say {reply}.", text=form)
    assert made.error and "did not write a x" in made.error.message


def test_equal_items_are_found(client: openai.OpenAI, world: World) -> None:
    items = [{"n": number} for number in range(500)]
    replies = iter([json.dumps({"a": [*items, {"n": 7}]})])
    world.reply = lambda *_: next(replies, json.dumps({"a": items}))
    schema = {"properties": {"a": {"uniqueItems": True}}}
    form: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    made = client.responses.create(model="native:direct", input="Items.", text=form)
    assert json.loads(made.output_text)["a"] == items


def test_what_was_asked_holds_in_copies(tmp_path: Path) -> None:
    """A fork, and a session that was exported and imported, go on with the same settings, tools and schema."""
    world = World()

    def reply(messages: list[BaseMessage], kwargs: Json) -> AIMessage:
        if any(message.type == "tool" for message in messages):
            return AIMessage('{"name": "Oslo", "people": 700000}')
        return AIMessage("", tool_calls=[{"name": "refund", "args": {"amount": 5}, "id": "c1"}])

    world.reply = reply
    form: Any = {"format": {"type": "json_schema", "name": "City", "schema": City.model_json_schema()}}
    asked: Any = {"input": "Refund it, then a city.", "instructions": "Be brief.", "temperature": 0.3, "text": form}
    with Served(tmp_path / "segue.db", OPEN, agents=world.agents()) as served, stock(served) as client:
        first = client.responses.create(model="native", tools=[{"type": "function", **SHOW}], **asked)
        session_id = first.to_dict()["segue"]["session_id"]
        with served.client() as http:
            (newest, *_) = http.get(f"/api/sessions/{session_id}/snapshots").json()["items"]
            place = {"checkpoint_id": newest["checkpoint_id"]}
            document = http.get(f"/api/sessions/{session_id}/export").json()
            copies = [
                http.post(f"/api/sessions/{session_id}/fork", json=place).json(),
                http.post("/api/sessions/import", json={"document": document}).json(),
            ]
    with Served(tmp_path / "segue.db", OPEN, agents=world.agents()) as served, served.client() as http:
        for copy in copies:
            before, path = len(world.models["native"].calls), f"/api/tasks/{copy['task_id']}"
            http.post(f"{path}/answer", json={"verdicts": [{"index": 0, "verdict": "approve"}]}).raise_for_status()
            wait_until(lambda path=path: http.get(path).json()["task"]["status"] == "done")  # type: ignore[misc]
            assert len(world.models["native"].calls) == before + 1
            assert world.kwargs("native")["temperature"] == 0.3
            assert "show" in [each["function"]["name"] for each in world.kwargs("native")["tools"]]
            assert world.systems("native")[1] == "Be brief." and "people" in world.systems("native")[-1]


@pytest.fixture(scope="module")
def document(client: openai.OpenAI, world: World, served: Served) -> Json:
    """An exported session."""
    world.reply = lambda *_: "Fine."
    session = client.responses.create(model="native:direct", input="Hello.").to_dict()["segue"]
    with served.client() as http:
        exported: Json = http.get(f"/api/sessions/{session['session_id']}/export").json()
    return exported


@pytest.mark.parametrize(
    "changed",
    [
        {"reply_options": {"settings": {"temperature": "hot"}}},
        {"reply_options": {"answer_format": {"json_schema": DOUBLING}}},
        {"reply_options": "all"},
        {"client_tools": [{"x": 1}]},
        {"client_tools": ["show"]},
        {"client_tools": [{"type": "function", "function": {"name": "show", "parameters": {"type": "what"}}}]},
        {"client_tools": [{"type": "function", "function": {**SHOW, "description": "d", "strict": True}}]},
    ],
)
def test_a_document_asks_only_what_a_request_may(served: Served, document: Json, changed: Json) -> None:
    tasks = [{**task, **changed} for task in document["tasks"]]
    with served.client() as http:
        refused = http.post("/api/sessions/import", json={"document": {**document, "tasks": tasks}})
    assert (refused.status_code, refused.json()["error"]["type"]) == (422, "InvalidExport"), refused.text
