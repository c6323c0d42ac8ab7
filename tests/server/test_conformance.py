"""The suite `llm-comply` against the service: OpenAI's chat completions, and Open Responses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from segue.core.agents import Agent
from segue.server import ServerSettings
from tests.fakes import ScriptedChatModel

from .serving import SECONDS, Served

pytestmark = pytest.mark.slow


def agent() -> Agent:
    """An agent that calls a client's function where one is offered, and then answers."""

    def reply(messages: list[BaseMessage]) -> AIMessage:
        offered = [tool["function"]["name"] for tool in model.call_kwargs[-1].get("tools", ())]
        if "get_weather" in offered and not any(message.type == "tool" for message in messages):
            call = {"name": "get_weather", "args": {"location": "San Francisco"}, "id": "c1"}
            return AIMessage("", tool_calls=[call])
        return AIMessage("Hello: one, two, three.")

    model = ScriptedChatModel(reply)
    return Agent(agent_id="m", model=model, mode="react", protocol="native", accepts=("image",))


@pytest.mark.parametrize(("form", "least"), [("open-responses", 12), ("openai-chat", 8)])
def test_the_suite_passes(tmp_path: Path, form: str, least: int) -> None:
    settings = ServerSettings(chats_a_minute=10_000, requests_a_minute=100_000)
    with Served(tmp_path / "segue.db", settings, agents=[agent()]) as served:
        main = "import sys; from llm_comply.cli import main; sys.exit(main())"
        about = ("-u", f"{served.url}/v1", "-k", "none", "-m", "m", "--format", form, "--json")
        ended = subprocess.run(
            [sys.executable, "-c", main, *about],
            check=False,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    results = {each["id"]: each for each in json.loads(ended.stdout)["results"]}
    failed = {name: each["errors"] for name, each in results.items() if each["status"] == "failed"}
    assert not failed, failed
    assert sum(each["status"] in ("passed", "warned", "warning") for each in results.values()) >= least
