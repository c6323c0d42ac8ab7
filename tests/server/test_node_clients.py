"""Stock clients of Node hold a conversation with the service, which restarts in the middle."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from segue.core.agents import Agent
from tests.fakes import answer, call_tool, choose
from tests.node import WEB, command
from tests.reference.blocks import ROOT, blocks_of

from .serving import Held, Served, ServerSettings
from .shop import FRUITS, refund

GUIDES = ("ag-ui", "openai-clients")
SECONDS = 300.0
OPEN = ServerSettings(heartbeat_seconds=5.0, chats_a_minute=6000)
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "note": ({"name": "one"}, "noted one"),
    "show": ({"page": "cart"}, "shown the cart"),
    "refund": ({"amount": 5}, "refunded 5"),
}


def reply(messages: Sequence[BaseMessage]) -> str:
    """Make the call that was asked for last, name the fruit that was named last, or ask for a colour."""
    parts = [part for message in messages if isinstance(message.content, list) for part in message.content]
    if any(isinstance(part, dict) and str(part.get("type")).startswith("image") for part in parts):
        return answer("I see a picture.")
    text = "\n".join(str(message.content) for message in messages)
    if "Rewrite the answer below" in text:
        return '{"fruit": "plums"}'
    if "## Branches" in text:
        asked = choose("ask_user", question="Which colour?")
        return choose("final_answer", answer="It is blue.") if '"success": "blue"' in text else asked
    asked_for = str([message for message in messages if message.type == "human"][-1].content)
    name = next((name for name in (*CALLS, *FRUITS) if name in asked_for), "nothing")
    if name not in CALLS:
        return answer(f"Heard {name}.", thought="A fruit.")
    arguments, result = CALLS[name]
    return answer(f"Did {name}.") if result in text else call_tool((name, arguments), thought=f"I {name}.")


def serve(database: Path) -> Served:
    desk: Agent = Held().agent("desk", reply, tools=(refund,), accepts=("image",))
    return Served(database, OPEN, agents=[desk])


@pytest.mark.slow
@pytest.mark.parametrize("client", ["ag-ui", "openai", "ai-sdk"])
def test_a_conversation_with_a_restart_in_the_middle(client: str, database: Path) -> None:
    with serve(database) as served:
        program = subprocess.Popen(
            command(str(WEB / "clients" / f"{client}.mjs"), served.url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert program.stdout and program.stdin
        came = program.stdout.readline()
        assert came == "restart\n", program.communicate(timeout=SECONDS)[1]
    with serve(database) as served:
        said, why = program.communicate(f"{served.url}\n", timeout=SECONDS)
    assert (program.returncode, said) == (0, "done\n"), why


def programs() -> Iterator[str]:
    """What the guides show in JavaScript."""
    for guide in GUIDES:
        blocks = blocks_of(ROOT / "docs" / "guides" / f"{guide}.md")
        yield from (block.text for block in blocks if block.language == "js")


@pytest.mark.slow
@pytest.mark.parametrize("program", [*programs()])
def test_what_the_guides_show_runs(program: str, database: Path) -> None:
    with serve(database) as served:
        code = program.replace("http://127.0.0.1:8000", served.url)
        run = command("--input-type=module", "--eval", code)
        done = subprocess.run(run, cwd=WEB, check=False, capture_output=True, text=True)
    assert (done.returncode, "84" in done.stdout) == (0, True), done.stderr


@pytest.mark.slow
def test_what_the_guide_of_langgraphs_api_shows_runs(tmp_path: Path) -> None:
    blocks = [*blocks_of(ROOT / "docs/guides/langgraph-server.md")]
    for block in blocks:
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    (program,) = (block for block in blocks if block.language == "js")
    with Served(tmp_path / "segue.db", replace(OPEN, graphs=tmp_path / "langgraph.json")) as served:
        code = program.text.replace("http://127.0.0.1:8000", served.url)
        run = command("--input-type=module", "--eval", code)
        done = subprocess.run(run, cwd=WEB, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, program.output), done.stderr


def test_the_guides_name_the_versions_that_are_run() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    said = "".join((ROOT / "docs" / "guides" / f"{guide}.md").read_text(encoding="utf-8") for guide in GUIDES)
    for name in ("@ag-ui/client", "openai", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible"):
        assert re.search(rf"`{name}`[ |]+{packages[f'node_modules/{name}']['version']}", said), name
