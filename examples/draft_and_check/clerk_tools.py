"""The orders of a shop."""

from segue import tool

ORDERS = {17: "delivered", 18: "on its way"}


@tool(read_only=True, keywords=["order"])
def find_order(order_id: int) -> str:
    """Look up where an order is."""
    return f"Order {order_id} is {ORDERS.get(order_id, 'unknown')}."
