"""Twelve tools that are safe to resume."""

import asyncio
import os
import smtplib

import httpx

from segue import NOT_DONE, CallContext, UnknownOutcome, tool

from . import place


@tool(idempotent=True)
async def pay(order: int, amount: int, call: CallContext) -> str:
    """Pay an order. The service keeps the key."""
    async with httpx.AsyncClient(timeout=5) as client:
        headers = {"Idempotency-Key": call.idempotency_key}
        await client.post(place.url("payments"), json={"order": order, "amount": amount}, headers=headers)
    return f"paid {amount} for order {order}"


@tool(idempotent=True)
def take_stock(item: str, count: int, call: CallContext) -> str:
    """Take something from stock. PostgreSQL refuses the key of an earlier call."""
    import psycopg

    table = f"stock_{place.namespace()}"
    with psycopg.connect(os.environ["STAGING_POSTGRES"]) as db:
        statement = f"INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT (key) DO NOTHING"
        db.execute(statement.encode(), (call.idempotency_key, item, count))
    return f"took {count} {item}"


@tool(idempotent=True)
def register(name: str, call: CallContext) -> str:
    """Register a member, once for a key."""
    with place.database() as db:
        db.execute("INSERT OR IGNORE INTO members VALUES (?, ?)", (call.idempotency_key, name))
    return f"registered {name}"


@tool
def log_visit(visitor: str) -> str:
    """Log a visit. An interrupted call is reported, and not repeated."""
    with (place.folder() / "visits.txt").open("a") as file:
        file.write(f"{visitor}\n")
    return "logged"


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    host, port = os.environ["STAGING_SMTP"].split(":")
    with smtplib.SMTP(host, int(port), "localhost", timeout=5) as server:
        server.sendmail("shop@shop.test", f"{to}@{place.namespace()}.test", f"Subject: Hello\n\n{text}")
    return f"sent to {to}"


@tool(idempotent=True)
async def enqueue(job: str, call: CallContext) -> str:
    """Queue a job: a file in a folder, whose name is the key."""
    queue = place.folder() / "queue"
    queue.mkdir(exist_ok=True)
    written = place.folder(f"{place.namespace()}.new") / call.idempotency_key
    written.write_text(job)
    written.rename(queue / call.idempotency_key)
    return f"queued {job}"


@tool
def set_status(name: str, status: str) -> str:
    """Set a customer's status: it could be marked idempotent."""
    with place.database() as db:
        db.execute("UPDATE customers SET status = ? WHERE name = ?", (status, name))
    return f"{name} is {status}"


def was_accepted(call: CallContext) -> object:
    """What the service answered to the key, which it knows from the moment it accepts it."""
    return "accepted" if place.get(f"replies/{call.idempotency_key}") else NOT_DONE


@tool(check=was_accepted)
def dispatch(order: int, call: CallContext) -> str:
    """Ship an order. Its check asks for the key."""
    try:
        place.post("shipments", {"order": order}, call.idempotency_key)
    except OSError as error:
        raise UnknownOutcome("the courier did not answer") from error
    return "accepted"


def remove_ticket(call: CallContext) -> None:
    """Delete the ticket with its history."""
    with place.database() as db:
        db.execute("BEGIN")
        db.execute("DELETE FROM tickets WHERE ticket = ?", (call.result,))
        db.execute("DELETE FROM history WHERE ticket = ?", (call.result,))
        db.execute("COMMIT")


@tool(undo=remove_ticket)
def file_ticket(title: str) -> int:
    """Open a ticket."""
    with place.database() as db:
        db.execute("BEGIN")
        ticket = db.execute("INSERT INTO tickets (title) VALUES (?)", (title,)).lastrowid
        db.execute("INSERT INTO history VALUES (?, 'opened')", (ticket,))
        db.execute("COMMIT")
    return ticket or 0


@tool(read_only=True)
def count_payments() -> str:
    """Count the payments."""
    return f"{len(place.get('payments'))} payments"


@tool(timeout=10)
async def order_supplies(what: str) -> str:
    """Order supplies. Without an answer it says that it does not know."""
    async with httpx.AsyncClient(timeout=1) as client:
        try:
            answer = await client.post(place.url("orders"), json={"what": what})
            return str(answer.json()["accepted"])
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise
        except (Exception, asyncio.CancelledError) as error:
            raise UnknownOutcome("the supplier's answer is not known") from error


@tool(idempotent=True)
async def save_document(name: str, text: str, call: CallContext) -> str:
    """Save a document, whole or not at all."""
    written = place.folder(f"{place.namespace()}.new") / call.idempotency_key
    written.write_text(text)
    written.replace(place.folder() / name)
    return f"saved {name}"
