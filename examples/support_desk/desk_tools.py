"""Tools of a support desk over a SQLite database, which is made with three orders when it is first used."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import segue

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (order_id INTEGER PRIMARY KEY, email TEXT, item TEXT, price REAL, status TEXT);
CREATE TABLE IF NOT EXISTS refunds (order_id INTEGER PRIMARY KEY, amount REAL, call TEXT);
INSERT OR IGNORE INTO orders VALUES
    (17, 'ann@example.com', 'Lumen lamp', 59.0, 'delivered'),
    (18, 'ann@example.com', 'Volt charger', 35.0, 'shipped'),
    (19, 'bob@example.com', 'Pico speaker', 89.0, 'delivered');
"""


@contextmanager
def shop() -> Iterator[sqlite3.Connection]:
    """Open the database SHOP_DB in one transaction."""
    with closing(sqlite3.connect(os.environ.get("SHOP_DB", "shop.db"))) as db, db:
        db.executescript(SCHEMA)
        db.row_factory = sqlite3.Row
        yield db


def order(db: sqlite3.Connection, order_id: int) -> sqlite3.Row:
    found: sqlite3.Row | None = db.execute("SELECT * FROM orders WHERE order_id = ?", (order_id,)).fetchone()
    if found is None:
        raise ValueError(f"There is no order {order_id}: ask the customer for the number.")
    return found


@segue.tool(read_only=True, keywords=["order", "parcel", "where", "订单", "包裹"])
def find_order(order_id: int) -> dict[str, object]:
    """Look up an order: its item, price and status."""
    with shop() as db:
        found = order(db, order_id)
    return {
        **found,
        "summary": f"Order {order_id}, {found['item']} for {found['price']:.2f} EUR, is {found['status']}.",
    }


def was_refunded(order_id: int, call: segue.CallContext) -> object:
    """Find out after a crash whether this call took effect."""
    with shop() as db:
        made = db.execute("SELECT 1 FROM refunds WHERE call = ?", (call.idempotency_key,)).fetchone()
    return f"Order {order_id} is refunded." if made else segue.NOT_DONE


@segue.tool(needs_approval=True, check=was_refunded, keywords=["refund", "money back", "退款"])
def refund(order_id: int, call: segue.CallContext) -> str:
    """Refund a delivered order; a person approves it first."""
    with shop() as db:
        found = order(db, order_id)
        if found["status"] != "delivered":
            raise ValueError(f"Order {order_id} is {found['status']}: only a delivered order can be refunded.")
        db.execute("INSERT INTO refunds VALUES (?, ?, ?)", (order_id, found["price"], call.idempotency_key))
        db.execute("UPDATE orders SET status = 'refunded' WHERE order_id = ?", (order_id,))
    return f"Order {order_id} is refunded: {found['price']:.2f} EUR."
