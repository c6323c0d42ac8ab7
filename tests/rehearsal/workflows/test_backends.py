"""The simulated systems: what calls change, what they refuse, and what the seed does."""

from copy import deepcopy
from typing import Any

import pytest

from segue.testing.rehearsal.participants import backend_of, find_backend, load_workflow, shipped_names
from tests.cases import cases
from tests.rehearsal.workflows.talks import replayed

REFUSED: list[tuple[str, str, dict[str, Any], int]] = [
    ("travel_change", "find_booking", {"reference": "AA0000", "surname": "Keller"}, 404),
    ("travel_change", "find_booking", {"reference": "KX4821", "surname": "Rossi"}, 404),
    ("travel_change", "verify_passenger", {"reference": "KX4821", "birth_date": "1990-01-01"}, 403),
    ("travel_change", "search_flights", {"reference": "KX4821", "date": "2026-05-16"}, 404),
    ("travel_change", "quote_change", {"reference": "LM7734", "flight": "SK346", "date": "2026-05-21"}, 409),
    ("travel_change", "change_booking", {"reference": "KX4821", "flight": "SK203", "date": "2026-05-16"}, 409),
    ("travel_change", "change_booking", {"reference": "KX4821", "flight": "SK999", "date": "2026-05-15"}, 404),
    ("clinic_appointment", "find_patient", {"phone": "13900000000"}, 404),
    ("clinic_appointment", "verify_patient", {"patient_id": "P101", "birth_date": "1990-05-07"}, 403),
    ("clinic_appointment", "list_times", {"department": "骨科", "date": "2026-06-08"}, 404),
    (
        "clinic_appointment",
        "book_appointment",
        {"patient_id": "P101", "department": "内科", "date": "2026-06-08", "time": "11:00"},
        409,
    ),
    ("clinic_appointment", "find_appointment", {"patient_id": "P101"}, 404),
    ("clinic_appointment", "cancel_appointment", {"patient_id": "P101", "appointment_id": "A1"}, 404),
    ("device_return", "find_order", {"order_id": "R-1001", "email": "j.novak@example.com"}, 404),
    ("device_return", "find_order_by_email", {"email": "nobody@example.com"}, 404),
    ("device_return", "check_return", {"order_id": "R-1002", "reason": "unwanted"}, 409),
    ("device_return", "create_return", {"order_id": "R-1004", "reason": "defective", "resolution": "exchange"}, 409),
    ("device_return", "repair", {}, 400),
]

REPEATED: list[tuple[str, str, dict[str, Any]]] = [
    ("travel_change", "cancel_booking", {"reference": "KX4821"}),
    ("clinic_appointment", "cancel_appointment", {"patient_id": "P103", "appointment_id": "A1"}),
    ("device_return", "create_return", {"order_id": "R-1001", "reason": "unwanted", "resolution": "refund"}),
]


@cases("name, api, arguments, status", REFUSED)
def test_a_refused_call_changes_nothing(name: str, api: str, arguments: dict[str, Any], status: int) -> None:
    backend = find_backend(name)
    state = backend.initial(0)
    response = backend.call(state, api, arguments)
    assert (response.status_code, response.state) == (status, backend.initial(0))
    assert response.data["error"]


@pytest.mark.parametrize(("name", "api", "arguments"), REPEATED)
def test_a_call_changes_a_copy_and_cannot_be_made_twice(name: str, api: str, arguments: dict[str, Any]) -> None:
    backend = find_backend(name)
    state = backend.initial(0)
    before = deepcopy(state)
    first = backend.call(state, api, arguments)
    assert state == before != first.state
    assert first.status_code == 200
    again = backend.call(first.state, api, arguments)
    assert again.status_code in (404, 409)
    assert again.state == first.state == replayed(backend, 0, [(api, arguments)])


@pytest.mark.parametrize("name", shipped_names())
def test_the_seed_decides_the_state(name: str) -> None:
    backend = backend_of(load_workflow(name))
    assert backend.initial(1) == backend.initial(1) != backend.initial(2)


def test_an_unknown_name_lists_the_names() -> None:
    backend = find_backend("device_return")
    assert "find_order, find_order_by_email" in backend.call({}, "refund", {}).data["error"]
