"""The same graph as a mode of Segue: nothing in it changes."""

import asyncio

from langgraph_before import builder

import segue


async def main() -> None:
    async with segue.open("after.db", modes={"refunds": builder}) as app:
        result = await app.ask("Please refund order 17", mode="refunds", session_id="ann")
        print((await app.question(result.task_id))["question"])
        result = await app.answer(result.task_id, "yes")
        print(result.answer)


if __name__ == "__main__":
    asyncio.run(main())
