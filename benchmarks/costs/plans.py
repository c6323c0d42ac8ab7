"""Independent steps of a plan: what several take beside one, and how soon each shows."""

import asyncio
import json
import sys
import time
from pathlib import Path

import segue
from segue.app import App

STEP = 0.5
"""Seconds of one step."""
MOST = 8


async def main(url: str, folder: Path) -> None:
    """Time the steps from the first call to the last result, and the lag from a step's end to its event."""
    ended: dict[int, float] = {}

    @segue.tool(read_only=True)
    async def wait(number: int) -> str:
        """Wait for one number."""
        await asyncio.sleep(STEP * (1 + number / 10) if spread else STEP)
        ended[number] = time.perf_counter()
        return str(number)

    agent = segue.Agent(
        agent_id="bench",
        model="openai:bench-model",
        base_url=url,
        tools=[wait],
        mode="plan",
        budget=segue.Budget(parallel_calls=MOST),
    )
    async with segue.open(folder / "plans.db", agents=[agent]) as app:
        spread = False
        await spent(app, 1, "warm", ended)
        took = {steps: (await spent(app, steps, f"even-{steps}", ended))[0] for steps in (1, 4, MOST)}
        spread = True
        lags = (await spent(app, MOST, "spread", ended))[1]
    print(json.dumps({"seconds": took, "lags": lags}))


async def spent(app: App, steps: int, name: str, ended: dict[int, float]) -> tuple[float, list[float]]:
    began, last, lags = 0.0, 0.0, []
    async for event in app.chat(f"Wait. [bench plan {steps} {name}]", session_id=name, agent="bench", mode="plan"):
        if event.type == "tool_call":
            began = began or time.perf_counter()
        elif event.type == "tool_result":
            last = time.perf_counter()
            lags.append(last - ended[event.arguments["number"]])
    return last - began, lags


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
