"""A model in this process, with a double in the engine's place: no weights here."""

import asyncio
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from segue.core.agents import Agent
from segue.core.errors import ConfigurationError, ModelRefused, UnknownModel
from segue.core.models import ModelPiece, ModelReply, ModelRequest, Retry, TextDelta
from segue.models.build import build_model
from segue.models.local import Completion, LocalModel, Message, answer_only, engine_of, stripped
from segue.nodes.context import envelope_schema
from segue.tools.registry import as_tool
from tests.cases import cases
from tests.fakes import answer, call_tool, pieces
from tests.polling import until

Reply = str | Completion | Exception


def power(base: int, exponent: int) -> int:
    """Raise a number to a power."""
    return base**exponent


TOOLS = {"power": as_tool(power)}
CALL = ("power", {"base": 2, "exponent": 5})
DONE = {"name": "power", "arguments": {"base": 2, "exponent": 5}, "result": {"success": 32}}


class ScriptedEngine:
    """Completes with what the script says, in pieces, and keeps what it was given."""

    def __init__(self, *script: Reply) -> None:
        self.script = list(script)
        self.messages: list[Sequence[Message]] = []
        self.schemas: list[Mapping[str, Any] | None] = []
        self.threads: set[int] = set()
        self.begun, self.stopped = threading.Event(), threading.Event()

    def complete(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
        on_text: Callable[[str], bool],
    ) -> Completion:
        self.messages.append(messages)
        self.schemas.append(schema)
        self.threads.add(threading.get_ident())
        reply = self.script.pop(0)
        if isinstance(reply, Exception):
            raise reply
        done = reply if isinstance(reply, Completion) else Completion(reply, usage={"input": 10, "output": 3})
        for piece in pieces(done.text):
            if on_text(piece):
                self.stopped.set()
                break
        return done


class EndlessEngine(ScriptedEngine):
    """Writes until it is told to stop, as small models do."""

    def complete(self, *given: Any) -> Completion:
        self.begun.set()
        while not given[-1]("and on "):
            pass
        self.stopped.set()
        return Completion("")


def request(results: Sequence[Mapping[str, Any]] = (), **fields: Any) -> ModelRequest:
    state = SystemMessage('{"global": {}, "context": {}}')
    record = AIMessage(json.dumps({"result": [{"function": result} for result in results]}))
    given = {"messages": [HumanMessage("2^5?"), state, record], "schema": envelope_schema(TOOLS)}
    return ModelRequest(**{"purpose": "decide"} | given | fields)


async def replies(engine: ScriptedEngine, asked: ModelRequest) -> list[ModelPiece]:
    return [piece async for piece in LocalModel(engine, "local:m.gguf").stream(asked)]


async def test_a_reply_is_streamed_from_a_thread_and_given_whole() -> None:
    engine = ScriptedEngine("Two to the fifth is 32.")
    *deltas, whole = await replies(engine, request(schema=None, purpose="answer"))
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "Two to the fifth is 32."
    assert whole == ModelReply("Two to the fifth is 32.", usage={"input": 10, "output": 3})
    assert threading.get_ident() not in engine.threads


async def test_the_system_message_comes_first_in_roles_that_templates_know() -> None:
    engine = ScriptedEngine("ok")
    given = [HumanMessage("2^5?"), SystemMessage("Decide."), AIMessage("a record")]
    await replies(engine, request(messages=given, schema=None))
    assert [(m["role"], m["content"]) for m in engine.messages[0]] == [
        ("system", "Decide."),
        ("user", "2^5?"),
        ("assistant", "a record"),
    ]


async def test_blanks_around_text_arguments_are_taken_off_the_whole_reply() -> None:
    wanted = call_tool(("weather", {"city": " Paris ", "days": [" Mon "], "deep": {"x": "y "}}), thought=" I look. ")
    whole = (await replies(ScriptedEngine(wanted), request()))[-1]
    assert isinstance(whole, ModelReply)
    decision = json.loads(whole.text)
    arguments = decision["action"]["result"]["output"]["tool_calls"][0]["function"]["arguments"]
    assert arguments == {"city": "Paris", "days": ["Mon"], "deep": {"x": "y"}}
    assert decision["thought"] == " I look. "


@pytest.mark.parametrize("text", ["", '{"goal": "cut', "prose "])
def test_what_is_no_json_stays_as_it_is(text: str) -> None:
    assert stripped(text) == text


def test_the_params_of_a_plan_are_stripped_too() -> None:
    assert json.loads(stripped('{"steps": [{"params": {"city": " Paris"}}]}'))["steps"][0]["params"] == {
        "city": "Paris"
    }


async def test_a_call_that_has_succeeded_is_not_made_again() -> None:
    engine = ScriptedEngine(call_tool(CALL), answer("32"))
    given = await replies(engine, request([DONE]))
    assert [type(piece) for piece in given if not isinstance(piece, TextDelta)] == [Retry, ModelReply]
    assert given[-1] == ModelReply(answer("32"), usage={"input": 20, "output": 6})
    assert engine.schemas[1] == answer_only(envelope_schema(TOOLS))


@cases(
    "decision, results",
    [
        (call_tool(CALL), []),
        (call_tool(CALL), [{**DONE, "result": {"error": "no"}}]),
        (call_tool(("power", {"base": 2, "exponent": 6})), [DONE]),
        (call_tool(CALL, ("power", {"base": 3, "exponent": 5})), [DONE]),
        (answer("32"), [DONE]),
        ('{"cut', [DONE]),
    ],
)
async def test_anything_else_is_passed_on(decision: str, results: list[dict[str, Any]]) -> None:
    engine = ScriptedEngine(decision)
    whole = (await replies(engine, request(results)))[-1]
    assert isinstance(whole, ModelReply)
    assert not engine.script
    assert len(engine.schemas) == 1


async def test_the_guard_minds_decisions_only() -> None:
    engine = ScriptedEngine(call_tool(CALL))
    await replies(engine, request([DONE], purpose="answer", schema=None))
    assert len(engine.schemas) == 1


def test_only_a_decisions_schema_can_be_narrowed() -> None:
    narrowed = answer_only(envelope_schema(TOOLS))
    assert narrowed is not None
    (arm,) = narrowed["properties"]["action"]["properties"]["result"]["anyOf"]
    assert arm["properties"]["action_type"] == {"const": "ANSWER"}
    assert answer_only(None) is None
    assert answer_only({"type": "object", "properties": {}}) is None


async def test_a_cut_reply_says_so() -> None:
    whole = (await replies(ScriptedEngine(Completion('{"thought": "on and', "length")), request()))[-1]
    assert isinstance(whole, ModelReply)
    assert whole.finish_reason == "length"


@pytest.mark.parametrize("error", [ValueError("the prompt is too long."), RuntimeError("the prompt is too long")])
async def test_what_the_engine_cannot_do_is_a_sentence(error: Exception) -> None:
    with pytest.raises(ModelRefused, match=r'"local:m.gguf" cannot answer: the prompt is too long\.$'):
        await replies(ScriptedEngine(error), request())


async def test_native_calls_are_refused_with_the_way_out() -> None:
    with pytest.raises(ModelRefused, match='set protocol="json" on the agent'):
        await replies(ScriptedEngine(), request(native=True))


async def test_the_engine_stops_when_nobody_listens_any_more() -> None:
    engine = EndlessEngine()
    run = asyncio.create_task(replies(engine, request()))
    await until(engine.begun.is_set)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await until(engine.stopped.is_set)


# From a name to a model.


def test_a_name_needs_a_file_that_is_there_and_is_gguf(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    agent = Agent(agent_id="a")
    with pytest.raises(ConfigurationError, match=r"none\.gguf cannot be read: No such file"):
        build_model(agent, f"local:{tmp_path / 'none.gguf'}", {})
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        build_model(agent, f"local:{tmp_path}", {})
    page = tmp_path / "page.gguf"
    page.write_text("<html>", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is not a GGUF file"):
        build_model(agent, f"local:{page}", {})
    with pytest.raises(UnknownModel, match=r"local:<path\.gguf>"):
        build_model(agent, "local:", {})


def test_a_file_has_one_engine_as_long_as_someone_holds_it(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF....")
    first = engine_of(str(file))
    assert engine_of(str(tmp_path / "." / "m.gguf")) is first
    gone = weakref.ref(first)
    del first
    assert gone() is None


def test_building_loads_no_weights(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF....")
    model = build_model(Agent(agent_id="a", model=f"local:{file}"), "", {})
    assert model.name == f"local:{file}"
    assert model.is_language_model


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from segue.core.agents import Agent\n"
        "from segue.models.build import build_model\n"
        "build_model(Agent(agent_id='a'), 'local:m.gguf', {})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra: The model \"local:m.gguf\" needs an extra: pip install 'segue[local]'." in done.stderr
