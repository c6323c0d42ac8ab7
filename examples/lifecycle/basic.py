"""A goal from its receipt to its completion, every step of it as an event. Runs offline, without a key."""

import asyncio
from pathlib import Path

from segue.lifecycle import ConversationEngine
from segue.lifecycle.engine import FolderCoordinator


async def main() -> None:
    coordinator = FolderCoordinator(Path(__file__).parent / "handbook")
    llm = "offline"  # or "openai:<name>", or a chat model

    engine = ConversationEngine(coordinator=coordinator, llm=llm, tools=("travel", "calculator"))

    async for event in engine.run("帮我规划一个北京3日游，包括景点和美食"):
        print(f"[{event.event_type}] {event.data}")


asyncio.run(main())
