"""`make studio`: the graphs as LangGraph Studio sees them, through the API of an offline `langgraph dev`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from segue.core.conversation import ConversationConfig
from tests.ports import free_port

EXTRA = "Studio's tests need the LangGraph CLI: pip install -e '.[studio]'."
pytest.importorskip("langgraph_cli", reason=EXTRA)
sdk = pytest.importorskip("langgraph_sdk", reason=EXTRA)

ROOT = Path(__file__).parents[1]
SETUP = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
GRAPHS = sorted(SETUP["graphs"])
TALKS = [name for name in GRAPHS if name not in ("controller_executor", "conversation")]
"""The graphs that take messages; a flow takes a goal and a plan, a conversation its configuration."""
SETTINGS = re.compile(r"^(OPENAI|SEGUE|LANGSMITH|LANGCHAIN|LANGGRAPH)_")
START_SECONDS = 180
STOP_SECONDS = 10

BEIJING = "帮我规划一个北京3日游，包括景点和美食"
BEIJING_TOTAL = "2495"
SHANGHAI = "帮我规划一个上海2日游，包括景点和美食"

OWN_TOOLS = """
import json

import segue
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph


@segue.tool(needs_approval=True, keywords=("send", "发送"))
def send(text: str = "hi") -> str:
    \"\"\"Send a text.\"\"\"
    return f"sent {text}"


def reply(action, **output):
    result = {"action_type": action, "output": output}
    return AIMessage(json.dumps({"observe": "", "thought": "", "action": {"result": result}}))


def asking():
    asks = reply("CLARIFY", question="Which text?", choices=["hi", "bye"])
    model = FakeMessagesListChatModel(responses=[asks, reply("ANSWER", answer="Thank you.")])
    builder = StateGraph(MessagesState)
    builder.add_node("ask", segue.graph("react", agents=[segue.Agent(agent_id="asking", model=model)]))
    builder.add_edge(START, "ask").add_edge("ask", END)
    return builder.compile()


graph = asking()
"""
OWN_AGENTS = """
[[agent]]
agent_id = "travel"
tools = ["travel", "calculator", "clock"]

[[agent]]
agent_id = "own"
model = "offline"
tools = ["own_tools:send"]

[[agent]]
agent_id = "reviewed"
model = "offline"
tools = ["own_tools:send"]
review_plan = true

[modes]
draft_and_check = "draft_modes:graph"
asking = "own_tools:graph"
"""

Json = dict[str, Any]


def serve_from(folder: Path) -> list[str]:
    """Write the project's langgraph.json for another folder, which the server may litter; returns the command."""
    graphs = {name: str(ROOT / spec) if "/" in spec else spec for name, spec in SETUP["graphs"].items()}
    setup = {**SETUP, "dependencies": [str(ROOT)], "graphs": graphs}
    (folder / "langgraph.json").write_text(json.dumps(setup), encoding="utf-8")
    (folder / "own_tools.py").write_text(OWN_TOOLS, encoding="utf-8")
    shutil.copy(ROOT / "examples/draft_and_check/draft_modes.py", folder)
    (folder / "agents.toml").write_text(OWN_AGENTS, encoding="utf-8")
    options = ["--host", "127.0.0.1", "--port", str(free_port()), "--no-browser", "--no-reload"]
    return [sys.executable, "-m", "langgraph_cli", "dev", *options]


def await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/ok", timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail(f"langgraph dev does not start:\n{log.read_text(encoding='utf-8')[-6000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and whatever it started."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, signal_)
        try:
            process.wait(STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("studio")
    command, log = serve_from(folder), folder / "log"
    environment = {name: value for name, value in os.environ.items() if not SETTINGS.match(name)}
    environment |= {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
    environment["SEGUE_AGENTS"] = str(folder / "agents.toml")
    address = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            await_ready(address, process, log)
            yield address
        finally:
            stop(process)
    assert "BlockingError" not in log.read_text(encoding="utf-8"), "a node blocked the server's event loop"


@pytest.fixture
async def client(url: str) -> AsyncIterator[Any]:
    async with sdk.get_client(url=url, api_key=None) as studio:
        yield studio


@pytest.fixture
async def thread(client: Any) -> str:
    """A thread with one turn: the trip to Beijing, planned."""
    made: str = (await client.threads.create())["thread_id"]
    output = await client.runs.wait(made, "chat", input=said(BEIJING), context=TRAVEL | {"mode": "plan"})
    assert BEIJING_TOTAL in output["result"]["answer"]
    return made


TRAVEL = {"agent": "travel"}


def said(message: str) -> Json:
    return {"messages": [{"role": "user", "content": message}]}


async def assistant(client: Any, graph: str) -> str:
    (found,) = await client.assistants.search(graph_id=graph)
    identity: str = found["assistant_id"]
    return identity


async def before(client: Any, thread: str, node: str) -> Json:
    """The thread's state when that node was next."""
    history: list[Json] = await client.threads.get_history(thread, limit=100)
    return next(state for state in history if state["next"] == [node])


def reached(start: str, edges: set[tuple[str, str]]) -> set[str]:
    found, todo = {start}, [start]
    while todo:
        here = todo.pop()
        ahead = {target for source, target in edges if source == here} - found
        found |= ahead
        todo += ahead
    return found


async def test_every_graph_is_an_assistant(client: Any) -> None:
    found = {assistant["graph_id"] for assistant in await client.assistants.search(limit=100)}
    assert found == set(GRAPHS)
    assert found >= {"chat", "react", "plan", "direct"}


@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_drawing_leads_from_the_start_through_every_node_to_the_end(client: Any, graph: str) -> None:
    drawing = await client.assistants.get_graph(await assistant(client, graph))
    nodes = {node["id"] for node in drawing["nodes"]}
    edges = {(edge["source"], edge["target"]) for edge in drawing["edges"]}
    assert reached("__start__", edges) == nodes
    assert reached("__end__", {(target, source) for source, target in edges}) == nodes


async def test_the_chat_graph_shows_its_modes_and_what_is_inside(client: Any) -> None:
    chat = await assistant(client, "chat")
    drawing = await client.assistants.get_graph(chat)
    modes = {edge["target"] for edge in drawing["edges"] if edge["source"] == "SELECT_MODE"}
    assert modes == {*TALKS, "draft_and_check", "asking"} - {"chat"}
    unfolded = await client.assistants.get_graph(chat, xray=True)
    assert {"direct:ANSWER", "react:CALL_LLM", "plan:EXECUTE_STEP"} <= {node["id"] for node in unfolded["nodes"]}


@pytest.mark.parametrize("graph", TALKS)
async def test_schemas_ask_for_messages_and_the_context_and_for_no_services(client: Any, graph: str) -> None:
    schemas = await client.assistants.get_schemas(await assistant(client, graph))
    assert "HumanMessage" in json.dumps(schemas["input_schema"]["properties"]["messages"])
    assert schemas["output_schema"]["properties"].keys() >= {"messages", "result"}
    assert schemas["state_schema"]["properties"].keys() >= {"messages", "task_id", "objective", "result", "events"}
    context = schemas["context_schema"]["properties"]
    assert context.keys() == {"agent", "mode", "user_id", "model", "language"}
    assert context["agent"]["enum"] == ["", "travel", "own", "reviewed"]
    assert {field["type"] for field in context.values()} == {"string"}
    assert all("default" in field for field in context.values())


@pytest.mark.parametrize("graph", [graph for graph in TALKS if graph not in ("chat", "direct")])
async def test_a_mode_runs_by_itself(client: Any, graph: str) -> None:
    output = await client.runs.wait(None, graph, input=said(BEIJING), context=TRAVEL)
    assert output["result"]["success"]
    assert BEIJING_TOTAL in output["result"]["answer"]


async def test_a_mode_of_two_modes_runs_is_interrupted_and_resumed(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    context = {"agent": "own", "mode": "draft_and_check"}
    await client.runs.wait(thread, "chat", input=said("send a text"), context=context)
    state = await client.threads.get_state(thread, subgraphs=True)
    assert state["tasks"][0]["interrupts"][0]["value"]["calls"][0]["name"] == "send"
    output = await client.runs.wait(thread, "chat", command={"resume": "approve"}, context=context)
    assert output["result"]["success"] and output["result"]["mode"] == "draft_and_check"
    assert "sent" in output["messages"][-1]["content"]


async def test_a_conversation_runs_by_itself_with_the_dummies(client: Any) -> None:
    output = await client.runs.wait(None, "conversation", input={})
    assert output["result"]["answer"].startswith("[USER] user query...\n[BOT] bot response...")


async def test_a_conversations_input_is_a_form_of_its_configuration(client: Any) -> None:
    schemas = await client.assistants.get_schemas(await assistant(client, "conversation"))
    fields = schemas["input_schema"]["properties"]
    assert fields.keys() == ConversationConfig.model_fields.keys()
    assert all(field["description"] for field in fields.values())
    assert fields["conversation_turn_limit"]["type"] == "integer"
    given = {"workflow": "travel_change", "seed": 3}
    output = await client.runs.wait(None, "conversation", input=given)
    assert output["result"]["answer"].startswith("[USER] I am ill and would like a refund.")
    wrong = await client.runs.wait(None, "conversation", input={"bot_mode": "nobody"}, raise_error=False)
    assert wrong["__error__"]["message"].startswith('There is no bot "nobody"; use one of: dummy_bot, ')


async def test_a_flow_runs_by_itself(client: Any) -> None:
    schemas = await client.assistants.get_schemas(await assistant(client, "controller_executor"))
    assert schemas["input_schema"]["properties"].keys() >= {"plan", "memory_files", "goal", "logs"}
    assert schemas["output_schema"]["properties"].keys() == {"result", "summary", "status"}
    output = await client.runs.wait(None, "controller_executor", input={"goal": BEIJING}, context=TRAVEL)
    assert output["status"] == "finished" and BEIJING_TOTAL in output["result"]


async def test_a_run_streams_what_is_thought_and_said_and_each_nodes_update(client: Any) -> None:
    parts = defaultdict(list)
    async for part in client.runs.stream(
        None,
        "chat",
        input=said(BEIJING),
        context=TRAVEL | {"mode": "plan"},
        stream_mode=["custom", "updates", "messages-tuple", "values"],
        stream_subgraphs=True,
    ):
        kind, _, namespace = part.event.partition("|")
        parts[kind, namespace.partition(":")[0]].append(part.data)
    deltas = parts["custom", "plan"]
    assert {delta["type"] for delta in deltas} >= {"thinking", "token"}
    answer = parts["values", ""][-1]["result"]["answer"]
    assert BEIJING_TOTAL in answer
    assert "".join(delta["data"]["content"] for delta in deltas if delta["type"] == "token") == answer
    assert [name for update in parts["updates", ""] for name in update] == ["INIT", "plan", "FINISH"]
    assert {"MAKE_PLAN", "EXECUTE_STEP", "ANSWER"} <= {name for update in parts["updates", "plan"] for name in update}
    assert "ai" in {message["type"] for message, _ in parts["messages", "plan"]}


async def test_a_thread_has_a_history_and_takes_a_second_turn(client: Any, thread: str) -> None:
    history = await client.threads.get_history(thread, limit=100)
    assert [state["next"] for state in history] == [[], ["FINISH"], ["plan"], ["INIT"], ["__start__"]]
    first = history[0]["values"]
    assert first["mode"] == "plan"
    await client.runs.wait(thread, "chat", input=said("那上海有哪些景点？"), context=TRAVEL | {"mode": "react"})
    state = await client.threads.get_state(thread)
    assert state["next"] == []
    assert state["values"]["messages"][: len(first["messages"])] == first["messages"]
    assert "外滩" in state["values"]["messages"][-1]["content"]
    assert state["values"]["task_id"] != first["task_id"]


async def test_the_same_checkpoint_can_be_run_again(client: Any, thread: str) -> None:
    earlier = await before(client, thread, "plan")
    await client.runs.wait(
        thread,
        "chat",
        input=None,
        checkpoint_id=earlier["checkpoint"]["checkpoint_id"],
        context=TRAVEL | {"mode": "plan"},
    )
    state = await client.threads.get_state(thread)
    assert state["next"] == []
    assert state["values"]["task_id"] == earlier["values"]["task_id"]
    assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai", *["tool"] * 4, "ai"]
    assert BEIJING_TOTAL in state["values"]["result"]["answer"]


async def test_a_fork_with_another_mode_takes_the_other_way(client: Any, thread: str) -> None:
    earlier = await before(client, thread, "plan")
    fork = await client.threads.update_state(
        thread, {"mode": "react"}, as_node="SELECT_MODE", checkpoint=earlier["checkpoint"]
    )
    assert (await client.threads.get_state(thread))["next"] == ["react"]
    output = await client.runs.wait(thread, "chat", input=None, checkpoint=fork["checkpoint"], context=TRAVEL)
    assert output["result"]["mode"] == "react"
    assert BEIJING_TOTAL in output["result"]["answer"]


async def test_a_fork_with_an_edited_message_answers_that_one(client: Any, thread: str) -> None:
    earlier = await before(client, thread, "INIT")
    (message,) = earlier["values"]["messages"]
    edited = {"messages": [{**message, "content": SHANGHAI}]}
    fork = await client.threads.update_state(thread, edited, as_node="__start__", checkpoint=earlier["checkpoint"])
    await client.runs.wait(thread, "chat", input=None, checkpoint=fork["checkpoint"], context=TRAVEL | {"mode": "plan"})
    values = (await client.threads.get_state(thread))["values"]
    assert [message["content"] for message in values["messages"] if message["type"] == "human"] == [SHANGHAI]
    assert "外滩" in values["result"]["answer"]
    assert BEIJING_TOTAL not in values["result"]["answer"]


async def test_a_fork_may_start_inside_a_mode(client: Any, thread: str) -> None:
    (task,) = (await before(client, thread, "plan"))["tasks"]
    inside = await client.threads.get_history(thread, limit=100, checkpoint=task["checkpoint"])
    earlier = next(state for state in inside if state["next"] == ["ANSWER"])
    await client.runs.wait(
        thread, "chat", input=None, checkpoint=earlier["checkpoint"], context=TRAVEL | {"mode": "plan"}
    )
    state = await client.threads.get_state(thread)
    assert state["next"] == []
    assert BEIJING_TOTAL in state["values"]["result"]["answer"]


async def test_a_question_is_an_interrupt_that_its_answer_continues(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    context = {"agent": "own", "mode": "asking"}
    await client.runs.wait(thread, "chat", input=said("send a text"), context=context)
    (asked,) = (await client.threads.get_state(thread, subgraphs=True))["tasks"][0]["interrupts"]
    assert asked["value"] == {"kind": "question", "question": "Which text?", "choices": ["hi", "bye"], "by_segue": True}
    output = await client.runs.wait(thread, "chat", command={"resume": "bye"}, context=context)
    assert output["result"]["answer"] == "Thank you."


@pytest.mark.parametrize("graph", ["plan", "chat"])
async def test_the_review_of_a_plan_is_an_interrupt_and_what_is_edited_is_what_runs(client: Any, graph: str) -> None:
    thread = (await client.threads.create())["thread_id"]
    context = {"agent": "reviewed", "mode": "plan"}
    await client.runs.wait(thread, graph, input=said('send the text "hi"'), context=context)
    (asked,) = (await client.threads.get_state(thread, subgraphs=True))["tasks"][0]["interrupts"]
    (call,) = asked["value"]["calls"]
    steps = [step for step in call["arguments"]["steps"] if step["action"] == "send"]
    assert call["name"] == "review_plan" and steps
    edited = {**call["arguments"], "steps": [{"step": 1, "action": "send", "params": {"text": "bye"}}]}
    verdict = {"verdicts": [{"index": 0, "verdict": "edit", "arguments": edited}]}
    await client.runs.wait(thread, graph, command={"resume": verdict}, context=context)
    output = await client.runs.wait(thread, graph, command={"resume": "approve"}, context=context)  # of the call
    assert "sent bye" in str(output)


@pytest.mark.parametrize("graph", ["react", "chat"])
async def test_an_agent_of_ones_own_runs_is_interrupted_resumed_and_forked(client: Any, graph: str) -> None:
    thread = (await client.threads.create())["thread_id"]
    context = {"agent": "own", "mode": "react"}
    await client.runs.wait(thread, graph, input=said("send a text"), context=context)
    state = await client.threads.get_state(thread, subgraphs=True)
    assert state["tasks"][0]["interrupts"][0]["value"]["calls"][0]["name"] == "send"
    output = await client.runs.wait(thread, graph, command={"resume": "approve"}, context=context)
    assert "sent" in str(output["messages"])
    earlier = await before(client, thread, "INIT")
    edited = {"messages": [{**earlier["values"]["messages"][0], "content": "hello"}]}
    fork = await client.threads.update_state(thread, edited, as_node="__start__", checkpoint=earlier["checkpoint"])
    output = await client.runs.wait(thread, graph, input=None, checkpoint=fork["checkpoint"], context=context)
    assert "sent" not in str(output["messages"]) and output["result"]["success"]
