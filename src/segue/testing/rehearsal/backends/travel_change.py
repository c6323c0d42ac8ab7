"""Bookings and flights of an airline that does not exist."""

from random import Random

from ....core.records import Json
from .backend import CONFLICT, FORBIDDEN, NOT_FOUND, Backend, Refused

_FEES = {"flex": 0, "standard": 40}
"""The fee of a change by fare; a light fare cannot be changed."""
_REFUNDED = {"flex": 100, "standard": 50, "light": 0}
"""Per cent of the price that a cancellation refunds."""


def _booking(surname: str, birth_date: str, flight: str, date: str, fare: str, price: int) -> Json:
    return {
        **{"surname": surname, "birth_date": birth_date, "flight": flight, "date": date, "fare": fare},
        **{"price": price, "status": "confirmed", "fees": 0, "refunded": 0},
    }


def initial(seed: int) -> Json:
    """Five known bookings among others that the seed makes up; flights by number and day, with their free seats."""
    random = Random(seed)
    bookings = {
        "KX4821": _booking("Keller", "1984-03-12", "SK201", "2026-05-14", "flex", 210),
        "BD1190": _booking("Okafor", "1991-11-02", "SK201", "2026-05-14", "standard", 160),
        "LM7734": _booking("Rossi", "1979-07-25", "SK340", "2026-05-20", "light", 75),
        "TR2056": _booking("Haddad", "1988-01-30", "SK340", "2026-05-20", "standard", 180),
        "QP6618": _booking("Lindqvist", "1995-09-09", "SK201", "2026-05-14", "flex", 240),
    }
    for _ in range(5):
        reference = f"ZZ{random.randint(1000, 9999)}"
        fare = random.choice(sorted(_REFUNDED))
        bookings[reference] = _booking("Doe", "1970-01-01", "SK201", "2026-05-14", fare, random.randint(60, 300))
    flights = {
        "2026-05-15": {"SK203": {"departs": "07:10", "seats": 9}, "SK207": {"departs": "16:45", "seats": 3}},
        "2026-05-16": {"SK203": {"departs": "07:10", "seats": 0}, "SK207": {"departs": "16:45", "seats": 0}},
        "2026-05-17": {"SK205": {"departs": "11:30", "seats": 4}},
        "2026-05-21": {"SK342": {"departs": "09:05", "seats": 6}, "SK346": {"departs": "19:20", "seats": 2}},
    }
    return {"bookings": bookings, "flights": flights}


def _found(state: Json, reference: str) -> Json:
    booking: Json | None = state["bookings"].get(reference)
    if booking is None:
        raise Refused(NOT_FOUND, f"there is no booking {reference}")
    return booking


def _active(state: Json, reference: str) -> Json:
    booking = _found(state, reference)
    if booking["status"] != "confirmed":
        raise Refused(CONFLICT, f"booking {reference} is {booking['status']}")
    return booking


def find_booking(state: Json, reference: str, surname: str) -> Json:
    booking = _found(state, reference)
    if booking["surname"].casefold() != surname.casefold():
        raise Refused(NOT_FOUND, f"there is no booking {reference} for {surname}")
    return {"reference": reference, "status": booking["status"]}


def verify_passenger(state: Json, reference: str, birth_date: str) -> Json:
    if _found(state, reference)["birth_date"] != birth_date:
        raise Refused(FORBIDDEN, "the date of birth does not match the booking")
    return {"verified": True}


def search_flights(state: Json, reference: str, date: str) -> Json:
    _active(state, reference)
    flights = state["flights"].get(date, {})
    free = [{"flight": number, "departs": flight["departs"]} for number, flight in flights.items() if flight["seats"]]
    if not free:
        raise Refused(NOT_FOUND, f"there are no free seats on {date}")
    return {"date": date, "flights": free}


def _fee(booking: Json) -> int:
    if booking["fare"] not in _FEES:
        raise Refused(CONFLICT, f"a booking with the {booking['fare']} fare cannot be changed")
    return _FEES[booking["fare"]]


def _seat(state: Json, flight: str, date: str) -> Json:
    found: Json | None = state["flights"].get(date, {}).get(flight)
    if found is None:
        raise Refused(NOT_FOUND, f"{flight} does not fly on {date}")
    if not found["seats"]:
        raise Refused(CONFLICT, f"{flight} on {date} is full")
    return found


def quote_change(state: Json, reference: str, flight: str, date: str) -> Json:
    fee = _fee(_active(state, reference))
    _seat(state, flight, date)
    return {"fee": fee, "currency": "EUR"}


def change_booking(state: Json, reference: str, flight: str, date: str) -> Json:
    booking = _active(state, reference)
    fee = _fee(booking)
    _seat(state, flight, date)["seats"] -= 1
    booking.update(flight=flight, date=date, fees=booking["fees"] + fee)
    return {"flight": flight, "date": date, "fee": fee}


def _refund(booking: Json) -> int:
    return int(booking["price"] * _REFUNDED[booking["fare"]] // 100)


def quote_cancellation(state: Json, reference: str) -> Json:
    return {"refund": _refund(_active(state, reference)), "currency": "EUR"}


def cancel_booking(state: Json, reference: str) -> Json:
    booking = _active(state, reference)
    booking.update(status="cancelled", refunded=_refund(booking))
    return {"status": "cancelled", "refund": booking["refunded"]}


_APIS = (
    find_booking,
    verify_passenger,
    search_flights,
    quote_change,
    change_booking,
    quote_cancellation,
    cancel_booking,
)
TRAVEL_CHANGE = Backend("travel_change", initial, {function.__name__: function for function in _APIS})
