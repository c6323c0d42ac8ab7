"""A run in a database: whatever stops this process, the next one goes on with it. Runs offline, without a key."""

import asyncio
import sys

import segue
from segue.lifecycle import ConversationEngine


async def main(database: str) -> None:
    async with segue.open(database) as app:
        standing = await app.resumable()
        engine = ConversationEngine(app=app, task_id=standing[0].task_id if standing else "")
        goal = None if standing else "帮我规划一个北京3日游，包括景点和美食"
        gen = engine.run(goal)
        async for event in gen:
            print(f"[{event.event_type}] {event.data}")
            if event.event_type == "task_completed" and not standing:
                break  # as if somebody had stopped it
        await gen.aclose()
        print(f"{engine.completed_tasks}/{engine.total_tasks}")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "segue.db"))
