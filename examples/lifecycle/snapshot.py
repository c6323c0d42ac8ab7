"""Keep a run in a file and go on with it in another process. Runs offline, without a key.

python snapshot.py engine_state.json          begins, and stops after two tasks
python snapshot.py engine_state.json resume   does the rest
"""

import asyncio
import json
import sys
from typing import Any

from segue.lifecycle import ConversationEngine


async def begin() -> dict[str, Any]:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    gen = engine.run("帮我规划一个北京3日游，包括景点和美食")
    async for event in gen:
        if event.event_type == "task_completed" and engine.completed_tasks == 2:
            break
    engine.pause()
    await gen.aclose()
    print(f"{engine.completed_tasks}/{engine.total_tasks}")
    return engine.create_snapshot()


async def go_on(snapshot: dict[str, Any]) -> None:
    new_engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    if not new_engine.restore_from_snapshot(snapshot):
        sys.exit(new_engine.refused)

    async for event in new_engine.run(None):
        if event.event_type == "task_started":
            print(f"task {event.data['task_id']}")
    print(f"{new_engine.completed_tasks}/{new_engine.total_tasks}")
    print(new_engine.results["5"])


if len(sys.argv) < 2:
    sys.exit(__doc__)
if sys.argv[2:] == ["resume"]:
    # 恢复状态 · take it up again
    with open(sys.argv[1], encoding="utf-8") as f:
        snapshot = json.load(f)
    asyncio.run(go_on(snapshot))
else:
    # 保存状态 · keep it
    snapshot = asyncio.run(begin())
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        json.dump(snapshot, f)
