"""Twelve tools, each with one fault."""

import http.client
import os
import smtplib
from contextlib import closing

import httpx

from segue import NOT_DONE, CallContext, tool

from . import place


@tool(idempotent=True)
def charge(order: int, amount: int) -> str:
    """Charge a card. The service gets no key, so it cannot recognise a repetition."""
    place.post("payments", {"order": order, "amount": amount})
    return f"charged {amount} for order {order}"


@tool(idempotent=True)
async def add_note(customer: str, text: str) -> str:
    """Add a note about a customer. It is added once more each time."""
    with (place.folder() / "notes.txt").open("a") as file:
        file.write(f"{customer}: {text}\n")
    return "noted"


@tool(idempotent=True)
def book_seat(seat: str, call: CallContext) -> str:
    """Book a seat. Its key is stored in another transaction, later than the seat."""
    with place.database() as db:
        if not db.execute("SELECT 1 FROM keys WHERE key = ?", (call.idempotency_key,)).fetchone():
            db.execute("INSERT INTO seats VALUES (?)", (seat,))
            db.execute("INSERT INTO keys VALUES (?)", (call.idempotency_key,))
    return f"booked {seat}"


def was_shipped(order: int) -> object:
    """A shipment appears a while after it was accepted."""
    rows = place.get("shipments")
    return "shipped" if {"order": order} in rows else NOT_DONE


@tool(check=was_shipped)
def ship(order: int) -> str:
    """Ship an order. Its check looks too early."""
    place.post("shipments", {"order": order})
    return "shipped"


def close_ticket(call: CallContext) -> None:
    """Delete the ticket, and leave its history."""
    with place.database() as db:
        db.execute("DELETE FROM tickets WHERE ticket = ?", (call.result,))


@tool(undo=close_ticket)
def open_ticket(title: str) -> int:
    """Open a ticket."""
    with place.database() as db:
        db.execute("BEGIN")
        ticket = db.execute("INSERT INTO tickets (title) VALUES (?)", (title,)).lastrowid
        db.execute("INSERT INTO history VALUES (?, 'opened')", (ticket,))
        db.execute("COMMIT")
    return ticket or 0


async def withdraw(name: str) -> None:
    """Delete the report, and leave it in the index."""
    (place.folder() / f"{name}.txt").unlink(missing_ok=True)


@tool(undo=withdraw)
async def publish(name: str, text: str) -> str:
    """Publish a report."""
    (place.folder() / f"{name}.txt").write_text(text)
    with (place.folder() / "index.txt").open("a") as index:
        index.write(f"{name}\n")
    return f"published {name}"


@tool(read_only=True)
def find_customer(name: str) -> str:
    """Find a customer, and count how often."""
    with place.database() as db:
        db.execute("UPDATE customers SET lookups = lookups + 1 WHERE name = ?", (name,))
        return str(db.execute("SELECT status FROM customers WHERE name = ?", (name,)).fetchone()[0])


@tool(idempotent=True)
def take_number(call: CallContext) -> str:
    """Take a number. A repetition has no effect, but another answer."""
    with place.database() as db:
        taken = db.execute("INSERT OR IGNORE INTO numbers (key) VALUES (?)", (call.idempotency_key,))
        return f"number {taken.lastrowid}" if taken.rowcount else "you have a number"


@tool(read_only=True)
def list_payments() -> str:
    """List the payments. It waits for the service for ever."""
    with closing(http.client.HTTPConnection(os.environ["STAGING_URL"].removeprefix("http://"))) as connection:
        connection.request("GET", f"/{place.namespace()}/payments")
        return connection.getresponse().read().decode()


@tool
def send_invoice(customer: str) -> int:
    """Send an invoice. It fails once the mail is sent."""
    host, port = os.environ["STAGING_SMTP"].split(":")
    with smtplib.SMTP(host, int(port), "localhost", timeout=5) as server:
        refused = server.sendmail("shop@shop.test", f"{customer}@{place.namespace()}.test", "Subject: Invoice\n\nPay.")
    return int(refused["message_number"])


@tool
async def order_parts(part: str) -> str:
    """Order parts. Without an answer it fails, though the order has arrived."""
    async with httpx.AsyncClient(timeout=1) as client:
        answer = await client.post(place.url("orders"), json={"part": part})
    return str(answer.json()["accepted"])


@tool
def transfer(amount: int) -> str:
    """Transfer money in two transactions."""
    with place.database() as db:
        db.execute("UPDATE accounts SET balance = balance - ? WHERE name = 'checking'", (amount,))
        db.execute("UPDATE accounts SET balance = balance + ? WHERE name = 'savings'", (amount,))
    return f"transferred {amount}"
