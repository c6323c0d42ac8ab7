"""Tools that are right but for one fault each, which no kill shows."""

import asyncio
from datetime import UTC, datetime

import httpx

from segue import NOT_DONE, CallContext, UnknownOutcome, tool

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


@tool
def order_ink(colour: str) -> str:
    """Order ink. It knows what a lost answer means, and not what one without a number does."""
    try:
        answer = place.post("orders", {"ink": colour})
    except OSError as error:
        raise UnknownOutcome("the supplier did not answer") from error
    return f"order {int(answer['number'])}"


def was_ordered(what: str) -> object:
    """Whether the supplier has the order, which it has at once. It takes no answer for a no."""
    try:
        return "ordered" if {"what": what} in place.get("orders") else NOT_DONE
    except OSError:
        return NOT_DONE


@tool(check=was_ordered)
def order_lamp(what: str) -> str:
    """Order a lamp."""
    return _ordered(what)


def was_listed(what: str) -> object:
    """Whether the supplier has the order."""
    return "ordered" if {"what": what} in place.get("orders") else NOT_DONE


@tool(check=was_listed)
def order_desk(what: str) -> str:
    """Order a desk, without a key: a worker that was slow orders it, too."""
    return _ordered(what)


def _ordered(what: str) -> str:
    try:
        place.post("orders", {"what": what})
    except OSError as error:
        raise UnknownOutcome("the supplier did not answer") from error
    return "ordered"


@tool(idempotent=True)
def order_lunch(dish: str) -> str:
    """Order lunch. Its key is the dish and the day, which is another one when it is resumed."""
    place.post("payments", {"dish": dish}, f"{dish}-{datetime.now(UTC):%Y-%m-%d}")
    return "ordered"


@tool
async def order_glue(kind: str) -> str:
    """Order glue. It knows what no answer means, and not that its own time may be up."""
    async with httpx.AsyncClient(timeout=5) as client:
        try:
            answer = await client.post(place.url("orders"), json={"glue": kind})
            return str(answer.json()["accepted"])
        except (httpx.HTTPError, ValueError) as error:
            raise UnknownOutcome("the supplier did not answer") from error
