"""Tools that are right but for one fault each, which no kill shows."""

import asyncio

import httpx

from segue import CallContext, UnknownOutcome, tool

from . import place


@tool(idempotent=True)
def admit(name: str, call: CallContext) -> str:
    """Admit a member, unless the key is there already: two workers look before either adds it."""
    with place.database() as db:
        if not db.execute("SELECT 1 FROM keys WHERE key = ?", (call.idempotency_key,)).fetchone():
            db.execute("BEGIN")
            db.execute("INSERT INTO history VALUES (1, ?)", (name,))
            db.execute("INSERT OR IGNORE INTO keys VALUES (?)", (call.idempotency_key,))
            db.execute("COMMIT")
    return f"admitted {name}"


@tool
async def order_paint(colour: str) -> str:
    """Order paint. It knows what a time-out means, and not what a lost connection does."""
    async with httpx.AsyncClient(timeout=1) as client:
        try:
            answer = await client.post(place.url("orders"), json={"paint": colour})
        except (httpx.ReadTimeout, asyncio.CancelledError) as error:
            raise UnknownOutcome("the supplier did not answer") from error
    return str(answer.json()["accepted"])


@tool
def write_twice(name: str, text: str) -> str:
    """Write a file, then list it: the disk is full between the two."""
    (place.folder() / name).write_text(text)
    with (place.folder() / "list.txt").open("a") as file:
        file.write(f"{name}\n")
    return f"wrote {name}"
