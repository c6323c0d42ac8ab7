"""The usage examples of the engine's document as they are written there, and the files in examples/lifecycle/."""

import asyncio
import contextlib
import json
import os
import runpy
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from tests.cli.process import run_elsewhere

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples/lifecycle"

BEFORE = """
import asyncio, json
from segue.lifecycle.engine import FolderCoordinator
from segue.lifecycle import ConversationEngine

coordinator = FolderCoordinator({folder!r})
llm = "offline"
"""

BASIC = """
async def basic():
    engine = ConversationEngine(coordinator=coordinator, llm=llm)

    async for event in engine.run("帮我分析销售数据"):
        print(f"[{event.event_type}] {event.data}")

asyncio.run(basic())
"""

PAUSE_AND_RESUME = """
import asyncio

async def main():
    engine = ConversationEngine(coordinator=coordinator, llm=llm)
    gen = engine.run("复杂任务")

    # 获取前几个事件
    for _ in range(5):
        event = await gen.__anext__()
        print(event)

    # 暂停
    engine.pause()
    print(f"进度: {engine.current_progress}")

    # 稍后恢复
    await asyncio.sleep(1)
    engine.resume()

    # 继续处理
    async for event in gen:
        print(event)

asyncio.run(main())
"""

SNAPSHOT = """
async def keep(engine):
    async for event in engine.run("复杂任务"):
        if event.event_type == "task_started":
            break
    return engine

engine = asyncio.run(keep(ConversationEngine(coordinator=coordinator, llm=llm)))

# 保存状态
snapshot = engine.create_snapshot()
with open("engine_state.json", "w") as f:
    json.dump(snapshot, f)

# 恢复状态
with open("engine_state.json", "r") as f:
    snapshot = json.load(f)

new_engine = ConversationEngine()
new_engine.restore_from_snapshot(snapshot)

print(new_engine.state, new_engine.total_tasks)
"""


def script(folder: Path, out: Path, *command: str) -> None:
    """Run a script as `python` does; what it prints goes to a file."""
    os.chdir(folder)
    sys.argv[:] = command
    warnings.simplefilter("error", RuntimeWarning)
    with out.open("w", encoding="utf-8") as said, contextlib.redirect_stdout(said):
        runpy.run_path(command[0], run_name="__main__")


async def run(folder: Path, *command: str) -> str:
    """What a script prints in a process of its own; it must end well."""
    out = folder / "printed.txt"
    assert await asyncio.to_thread(run_elsewhere, script, folder, out, *command) == 0
    return await asyncio.to_thread(out.read_text, encoding="utf-8")


async def test_the_documents_examples_run_as_written(tmp_path: Path) -> None:
    before = BEFORE.format(folder=str(EXAMPLES / "handbook"))
    file = tmp_path / "example.py"
    file.write_text(before + "".join(map(textwrap.dedent, (BASIC, PAUSE_AND_RESUME, SNAPSHOT))), encoding="utf-8")
    lines = (await run(tmp_path, str(file))).splitlines()
    assert lines[0] == "[state_changed] {'from': 'idle', 'to': 'receiving'}"
    assert "进度: 0.0" in lines
    assert sum("ENGINE_COMPLETED" in line or "[engine_completed]" in line for line in lines) == 2
    assert lines[-1] == "paused 1"
    assert json.loads((tmp_path / "engine_state.json").read_text())["state"] == "paused"


@pytest.mark.parametrize(("name", "said"), [("basic", "[engine_completed]"), ("pause", "ENGINE_RESUMED")])
async def test_an_example_runs(tmp_path: Path, name: str, said: str) -> None:
    out = await run(tmp_path, str(EXAMPLES / f"{name}.py"))
    assert said in out and "2495" in out


async def test_the_snapshot_example_goes_on_in_a_new_process(tmp_path: Path) -> None:
    example = str(EXAMPLES / "snapshot.py")
    assert (await run(tmp_path, example, "state.json")).splitlines() == ["2/5"]
    out = await run(tmp_path, example, "state.json", "resume")
    assert out.splitlines()[:4] == ["task 3", "task 4", "task 5", "5/5"]
    assert "2495" in out and "故宫" in out


async def test_the_kept_example_goes_on_in_a_new_process(tmp_path: Path) -> None:
    example = str(EXAMPLES / "kept.py")
    assert (await run(tmp_path, example, "s.db")).splitlines()[-1] == "1/5"
    out = await run(tmp_path, example, "s.db")
    assert out.splitlines()[-1] == "5/5" and out.count("[task_started]") == 4
