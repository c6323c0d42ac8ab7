"""Keep a run in a file and go on with it in another process. Runs offline, without a key.

python lifecycle_snapshot.py engine_state.json          begins, and stops after two tasks
python lifecycle_snapshot.py engine_state.json resume   does the rest
"""

import asyncio
import json
import sys

from segue.engine import ConversationEngine


async def begin(file: str) -> None:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    gen = engine.run("帮我规划一个北京3日游，包括景点和美食")
    async for event in gen:
        if event.event_type == "task_completed" and engine.completed_tasks == 2:
            break
    engine.pause()
    await gen.aclose()

    # 保存状态 · keep it
    snapshot = engine.create_snapshot()
    with open(file, "w", encoding="utf-8") as f:
        json.dump(snapshot, f)
    print(f"{engine.completed_tasks}/{engine.total_tasks}")


async def go_on(file: str) -> None:
    # 恢复状态 · take it up again
    with open(file, encoding="utf-8") as f:
        snapshot = json.load(f)

    new_engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    new_engine.restore_from_snapshot(snapshot)

    async for event in new_engine.run(None):
        if event.event_type == "task_started":
            print(f"task {event.data['task_id']}")
    print(f"{new_engine.completed_tasks}/{new_engine.total_tasks}")
    print(new_engine.results["5"])


asyncio.run(go_on(sys.argv[1]) if sys.argv[2:] == ["resume"] else begin(sys.argv[1]))
