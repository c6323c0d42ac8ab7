"""Schedules on the page: when they run next; they are paused, resumed and deleted."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import Visit
from .serving import Service


def test_a_schedule_is_listed_paused_resumed_and_deleted(tmp_path: Path, visit: Visit) -> None:
    with Service(tmp_path) as service:
        body = {"message": "Summarise the week.", "every": "0 9 * * mon", "timezone": "Europe/Berlin"}
        made = service.api.post("/api/schedules", json=body).json()
        path = f"/api/schedules/{made['schedule_id']}"
        service.api.post("/api/chat", json={"session_id": "s", "message": "hello"})
        page = visit(service, "#/schedules")
        schedule = page.locator(".schedule")
        expect(schedule).to_contain_text("Summarise the week.")
        expect(schedule).to_contain_text("Next run:")
        expect(schedule).to_contain_text("every Monday at 09:00, Europe/Berlin")
        chinese = visit(service, "#/schedules", locale="zh-CN")
        expect(chinese.locator(".schedule")).to_contain_text("每星期一 09:00")
        schedule.get_by_role("button", name="Pause").click()
        expect(schedule).to_contain_text("Paused")
        assert service.api.get(path).json()["active"] is False
        schedule.get_by_role("button", name="Resume").click()
        expect(schedule).to_contain_text("Next run:")
        schedule.get_by_role("button", name="Delete this schedule").click()
        schedule.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_text("No schedules yet")).to_be_visible()
        assert service.api.get(path).status_code == 404


CRON = {
    "0 9 * * *": ("every day at 09:00", "每天 09:00"),
    "30 8,17 * * mon-fri": ("Monday to Friday at 08:30, 17:30", "星期一至星期五 08:30, 17:30"),
    "0 7 * * 0,6": ("every Sunday, Saturday at 07:00", "每星期日、星期六 07:00"),
    "5 6 1 * *": ("on day 1 of each month at 06:05", "每月 1 日 06:05"),
    "*/15 * * * *": ("every 15 minutes", "每 15 分钟"),
    "0 9 1 1 *": ("0 9 1 1 *", "0 9 1 1 *"),
    "0 */2 * * *": ("0 */2 * * *", "0 */2 * * *"),
}
_WORDS = "async all => { const { cronText } = await import('/page/panels/parts/cron.js'); return all.map(cronText); }"


@pytest.mark.parametrize(("place", "locale"), [(0, "en-US"), (1, "zh-CN")])
def test_a_cron_expression_is_told_in_words(offline: Service, visit: Visit, place: int, locale: str) -> None:
    page = visit(offline, "#/schedules", locale=locale)
    expect(page.locator(".workspace .empty")).to_be_visible()
    assert page.evaluate(_WORDS, [*CRON]) == [words[place] for words in CRON.values()]
