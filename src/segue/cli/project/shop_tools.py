"""Tools of a shop: typed functions, whose docstrings the model reads."""

import segue

ORDERS = {17: "shipped", 18: "packed"}


@segue.tool(read_only=True, keywords=["order", "parcel", "订单"])
def lookup(order_id: int) -> dict[str, object]:
    """Look up an order."""
    if order_id not in ORDERS:
        raise ValueError(f"There is no order {order_id}; the orders are {', '.join(map(str, ORDERS))}.")
    return {"order_id": order_id, "status": ORDERS[order_id], "summary": f"Order {order_id} is {ORDERS[order_id]}."}


@segue.tool(needs_approval=True, keywords=["refund", "money back", "退款"])
def refund(order_id: int) -> str:
    """Refund an order; a person approves it first."""
    return f"Order {order_id} is refunded."
