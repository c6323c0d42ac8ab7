"""Schedules on the page: when they run next; they are paused, resumed and deleted."""

from pathlib import Path

from playwright.sync_api import expect

from .conftest import Visit
from .serving import Service


def test_a_schedule_is_listed_paused_resumed_and_deleted(tmp_path: Path, visit: Visit) -> None:
    with Service(tmp_path) as service:
        body = {"message": "Summarise the week.", "every": "0 9 * * mon", "timezone": "Europe/Berlin"}
        made = service.api.post("/api/schedules", json=body).json()
        path = f"/api/schedules/{made['schedule_id']}"
        service.api.post("/api/chat", json={"session_id": "s", "message": "hello"})
        page = visit(service, "#/s/s")
        page.get_by_role("button", name="Open the inspector").click()
        page.get_by_role("tab", name="Schedules").click()
        schedule = page.locator(".schedule")
        expect(schedule).to_contain_text("Summarise the week.")
        expect(schedule).to_contain_text("Next run:")
        schedule.get_by_role("button", name="Pause").click()
        expect(schedule).to_contain_text("Paused")
        assert service.api.get(path).json()["active"] is False
        schedule.get_by_role("button", name="Resume").click()
        expect(schedule).to_contain_text("Next run:")
        schedule.get_by_role("button", name="Delete this schedule").click()
        schedule.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_text("No schedules yet")).to_be_visible()
        assert service.api.get(path).status_code == 404
