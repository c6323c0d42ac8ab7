"""Pause a run between two events, and go on with it later. Runs offline, without a key."""

import asyncio

from segue.lifecycle import ConversationEngine


async def main() -> None:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    gen = engine.run("帮我规划一个北京3日游，包括景点和美食")

    # 获取前几个事件 · the first few events
    for _ in range(5):
        event = await gen.__anext__()
        print(event)

    # 只能在调度或执行时暂停 · only a run that schedules or executes can be paused
    while not engine.pause():
        print(await gen.__anext__())
    print(f"进度: {engine.current_progress}")

    # 稍后恢复 · go on later
    await asyncio.sleep(0.1)
    engine.resume()

    # 继续处理 · and see the rest
    async for event in gen:
        print(event)


asyncio.run(main())
