"""Orders and returns of a shop for devices that does not exist."""

from random import Random

from ....core.records import Json
from .backend import CONFLICT, NOT_FOUND, Backend, Refused

_DAYS = {"unwanted": 30, "defective": 730}
"""The days after delivery within which a device can be returned, by reason."""


def _order(email: str, item: str, price: int, days: int) -> Json:
    return {"email": email, "item": item, "price": price, "days_since_delivery": days, "status": "delivered"}


def initial(seed: int) -> Json:
    """Six known orders among others that the seed makes up, and the stock."""
    random = Random(seed)
    orders = {
        "R-1001": _order("maria.santos@example.com", "Aria headphones", 129, 12),
        "R-1002": _order("j.novak@example.com", "Lumen lamp", 59, 45),
        "R-1003": _order("yuki.mori@example.com", "Pico speaker", 89, 200),
        "R-1004": _order("tom.becker@example.com", "Aria headphones", 129, 300),
        "R-1005": _order("lea.dubois@example.com", "Volt charger", 35, 5),
        "R-1006": _order("omar.farouk@example.com", "Pico speaker", 89, 21),
    }
    for number in range(2000, 2005):
        price, days = random.randint(20, 400), random.randint(1, 900)
        orders[f"R-{number}"] = _order(f"customer{number}@example.com", "Lumen lamp", price, days)
    stock = {"Aria headphones": 0, "Lumen lamp": 8, "Pico speaker": 3, "Volt charger": 40}
    return {"orders": orders, "stock": stock, "returns": {}}


def _found(state: Json, order_id: str) -> Json:
    order: Json | None = state["orders"].get(order_id)
    if order is None:
        raise Refused(NOT_FOUND, f"there is no order {order_id}")
    return order


def find_order(state: Json, order_id: str, email: str) -> Json:
    order = _found(state, order_id)
    if order["email"] != email:
        raise Refused(NOT_FOUND, f"there is no order {order_id} for {email}")
    return {"order_id": order_id, "item": order["item"]}


def find_order_by_email(state: Json, email: str) -> Json:
    for order_id, order in state["orders"].items():
        if order["email"] == email:
            return {"order_id": order_id, "item": order["item"]}
    raise Refused(NOT_FOUND, f"there is no order for {email}")


def _returnable(order: Json, reason: str) -> None:
    if order["status"] != "delivered":
        raise Refused(CONFLICT, f"this order is {order['status']}")
    if order["days_since_delivery"] > _DAYS[reason]:
        raise Refused(CONFLICT, f"a device that is {reason} can be returned within {_DAYS[reason]} days")


def check_return(state: Json, order_id: str, reason: str) -> Json:
    order = _found(state, order_id)
    _returnable(order, reason)
    return {"refund": order["price"], "in_stock": state["stock"][order["item"]] > 0}


def create_return(state: Json, order_id: str, reason: str, resolution: str) -> Json:
    order = _found(state, order_id)
    _returnable(order, reason)
    if resolution == "exchange":
        if not state["stock"][order["item"]]:
            raise Refused(CONFLICT, f"the {order['item']} is out of stock")
        state["stock"][order["item"]] -= 1
    return_id = f"RET-{len(state['returns']) + 1}"
    state["returns"][return_id] = {"order_id": order_id, "reason": reason, "resolution": resolution}
    order["status"] = "being returned"
    return {"return_id": return_id, "resolution": resolution}


_APIS = (find_order, find_order_by_email, check_return, create_return)
DEVICE_RETURN = Backend("device_return", initial, {function.__name__: function for function in _APIS})
