"""The inspector's panels, the pages of the workspace, and the page of the HTTP API."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Download, Page, expect

from segue.testing.rehearsal import ConversationConfig
from segue.testing.rehearsal.batch import batch_of

from .conftest import Visit
from .serving import Service

Show = Callable[..., Page]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a plan, a lifecycle run and a controller's rounds, and a batch without a report."""
    folder = tmp_path_factory.mktemp("panels")
    (folder / "rehearsals" / "first").mkdir(parents=True)
    batch_of(ConversationConfig(workflow="travel_change"), n=2).write(folder / "rehearsals" / "first")
    with Service(folder, SEGUE_REHEARSALS="rehearsals", SEGUE_MEMORY=str(folder / "memory")) as service:
        for session, mode, message in (
            ("trip", "plan", "Plan 3 days in Beijing, with sights and food"),
            ("run", "lifecycle", "帮我规划北京3日游，包括景点和预算"),
            ("flow", "controller", "1. 查询北京的景点\n2. 计算北京3天的预算"),
        ):
            body = {"session_id": session, "mode": mode, "message": message}
            assert '"status":"done"' in service.api.post("/api/chat", json=body).text
        yield service


@pytest.fixture
def show(worked: Service, visit: Visit) -> Show:
    """Opens a session with one of the panels."""

    def opened(panel: str, session: str, **options: object) -> Page:
        page = visit(worked, f"#/s/{session}", **options)
        page.get_by_role("button", name="Open the inspector").click()
        page.get_by_role("tab", name=panel).click()
        return page

    return opened


def test_the_state_machine_marks_what_ran_at_each_level(show: Show) -> None:
    page = show("Graph", "run")
    drawing = page.get_by_role("img", name="State machine Lifecycle")
    expect(drawing.locator(".seen", has_text="Completed")).to_be_visible()
    expect(drawing.locator(".node:not(.seen)", has_text="Error")).to_be_visible()
    page.get_by_role("button", name="Show state names").click()
    expect(drawing.locator(".seen", has_text="COMPLETED")).to_be_visible()
    expect(drawing.locator(".now")).to_have_count(0)
    page.locator(".path").get_by_role("button", name="Conversation").click()
    outer = page.get_by_role("img", name="State machine Conversation")
    expect(outer.locator(".seen", has_text="lifecycle")).to_be_visible()


def test_the_state_machine_follows_a_running_task(tmp_path: Path, visit: Visit) -> None:
    with Service(tmp_path, SEGUE_OFFLINE_PACE="60") as service:
        page = visit(service)
        page.get_by_role("button", name="Open the inspector").click()
        page.get_by_role("tab", name="Graph").click()
        page.locator("textarea").fill("Plan 3 days in Beijing, with sights and food")
        page.locator("textarea").press("Enter")
        expect(page.locator(".drawing .now")).to_be_visible()
        expect(page.get_by_text(re.compile("^Now at "))).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text(re.compile("^Stopped before "))).to_be_visible()
        expect(page.locator(".drawing .now")).to_have_count(0)


def test_the_trace_shows_calls_with_their_time_and_result(show: Show) -> None:
    page = show("Trace", "trip")
    labels = page.locator(".trace .label b")
    for place, label in enumerate(["Task started", "Plan", "Make the plan"]):
        expect(labels.nth(place)).to_have_text(label)
    expect(labels.last).to_have_text("Answer")
    call = page.locator(".trace .span", has_text="query_attractions")
    expect(call.locator(".took")).to_have_text(re.compile(r"\d+ ms"))
    call.locator("summary").click()
    expect(call.locator(".value", has_text="Forbidden City")).to_be_visible()


def test_a_fork_from_the_second_step_is_resumed_and_compared(show: Show) -> None:
    page = show("Timeline", "trip")
    together = re.compile(r"^Steps [123], [123], [123]$")  # in the order in which they ended
    expect(page.locator(".snapshot .place b")).to_have_text(["Message sent", "Plan made", together, "Answered"])
    page.locator(".snapshot", has_text="Plan made").get_by_role("button", name="Fork to a new session").click()
    expect(page.get_by_text("Paused. Finished work is kept.")).to_be_visible()
    page.get_by_role("button", name="Compare with the original").click()
    differing = page.locator(".difference table tbody tr").first
    expect(differing.locator("td").nth(1)).to_have_text("Done")
    expect(differing.locator("td").nth(2)).to_have_text("Pending")
    page.get_by_role("button", name="Back", exact=True).click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".snapshot", has_text="Answered")).to_be_visible()
    page.get_by_role("button", name="Compare with the original").click()
    expect(page.get_by_text("Same plan, calls and answer.")).to_be_visible()


SMALL = """
[[agent]]
agent_id = "a"
model = "offline"
mode = "react"
tools = ["calculator"]

[agent.budget]
prompt_tokens = 2400
"""


def test_entries_of_the_digest_open_the_turn_and_the_call_that_they_came_from(tmp_path: Path, visit: Visit) -> None:
    sums = [f"Calculate {number} + 1. {'The garden has trees and benches by the pond. ' * 12}" for number in range(24)]
    with Service(tmp_path, SMALL) as service:
        for message in ("Never call a customer before nine.", *sums):
            assert '"done"' in service.api.post("/api/chat", json={"session_id": "s", "message": message}).text
        page = visit(service, "#/s/s")
        page.get_by_role("button", name="Open the inspector").click()
        page.get_by_role("tab", name="Timeline").click()
        page.locator(".snapshot").last.locator(".place button.quiet").click()
        digest = page.locator(".digest")
        rule = digest.locator("li", has_text="Never call a customer before nine.")
        rule.get_by_role("link", name="turn 1").click()
        said = page.get_by_role("log").get_by_text("Never call a customer before nine.")
        expect(said).to_be_in_viewport()
        digest.get_by_role("link", name="call").first.click()
        expect(page.get_by_role("log").locator("details.call[open]")).to_be_in_viewport()


def test_two_snapshots_are_compared(show: Show) -> None:
    page = show("Timeline", "trip")
    first = page.locator(".snapshot", has_text="Message sent")
    first.get_by_role("button", name="Compare").click()
    expect(first.get_by_role("button", name="Chosen")).to_have_attribute("aria-pressed", "true")
    page.locator(".snapshot", has_text="Answered").get_by_role("button", name="Compare with this").click()
    result = page.locator(".only[data-side=b]", has_text="generate_route").first
    result.locator("summary").click()
    expect(result.locator(".value")).to_contain_text("success")


def test_a_lifecycle_run_has_its_phases_and_subtasks(show: Show) -> None:
    page = show("Lifecycle", "run")
    expect(page.locator(".phases [aria-current=step]")).to_have_text("Completed")
    rows = page.locator(".subtasks tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.last.locator("td").nth(3)).to_have_text("1, 2, 3")
    expect(rows.last.locator("td").nth(4)).to_have_text("Done")
    rows.nth(1).locator("summary").click()
    expect(rows.nth(1).locator(".value")).to_contain_text("2495")
    expect(page.get_by_role("tab", name="Rounds")).to_have_count(0)


def test_rounds_of_a_controller_and_what_they_noted(show: Show) -> None:
    page = show("Rounds", "flow")
    for place, name in enumerate(["query_attractions", "calculate_budget"]):
        expect(page.locator(".round code").nth(place)).to_have_text(name)
    page.locator(".round summary").first.click()
    expect(page.locator(".round .value", has_text="故宫").first).to_be_visible()
    page.get_by_role("link", name="Workspace").click()
    page.get_by_role("link", name="Memory").click()
    file = page.locator(".memory-file")
    file.get_by_role("button", name="flow/controller.logs.md", exact=True).click()
    expect(file.locator(".entries > li")).to_have_count(3)
    file.get_by_role("button", name="Delete flow/controller.logs.md").click()
    file.get_by_role("button", name="Cancel").click()
    expect(file).to_have_count(1)
    file.get_by_role("button", name="Delete flow/controller.logs.md").click()
    file.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No memory files yet")).to_be_visible()


def test_ratings_are_counted_by_mode(show: Show) -> None:
    page = show("Details", "run")
    good, four = page.get_by_role("button", name="Good answer"), page.get_by_role("button", name="4 of 5")
    good.click()
    expect(page.get_by_role("button", name="5 of 5")).to_have_attribute("aria-pressed", "true")
    four.click()
    expect(four).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "true")
    page.goto(page.url.replace("#/s/run", "#/ratings"))
    row = page.locator("tbody tr", has_text="Lifecycle")
    expect(row.locator("td").nth(2)).to_have_text("1 / 0")
    expect(row.locator("td").last).to_have_text("4.0 (1)")


def test_a_rehearsal_is_run_and_compared(worked: Service, visit: Visit) -> None:
    page = visit(worked, "#/rehearsals")
    page.get_by_role("link", name="first").click()
    expect(page.get_by_text("No conversation has ended yet.")).to_be_visible()
    page.get_by_role("link", name="All rehearsals").click()
    expect(page.get_by_text("0 of 2 conversations")).to_be_visible()
    for name in ("one", "two"):
        page.get_by_role("button", name="Run a rehearsal").click()
        form = page.get_by_role("form", name="Run a rehearsal")
        form.get_by_label("Name").fill(name)
        form.locator("select").first.select_option("travel_change")
        form.get_by_label("Conversations").fill("2")
        form.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("heading", name="Success")).to_be_visible()
        expect(page.locator(".progress")).to_have_count(0)
        page.get_by_role("link", name="All rehearsals").click()
    page.get_by_label("Compare one").check()
    page.get_by_label("Compare two").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    row = page.locator("tbody tr").first
    expect(row.locator("td")).to_have_text(["All", "100%", "100%", "–"])
    page.locator(".outcomes summary").first.click()
    expect(page.locator(".both .transcript")).to_have_count(2)


CHART = """flowchart TD
  A([Start]) --> B[/reference/]
  B --> C[Thanks]
  C --> D([End])
"""


def test_a_conversation_about_several_workflows_is_started(worked: Service, visit: Visit) -> None:
    page = visit(worked, "#/rehearsals")
    page.get_by_role("button", name="Start a conversation").click()
    form = page.get_by_role("form", name="Start a conversation")
    english = [each["name"] for each in worked.api.get("/api/workflows").json()["items"] if each["language"] == "en"]
    for name in english:
        form.get_by_label(name, exact=True).check()
    form.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".transcript li").first).to_be_visible()
    config = worked.api.get(f"/api/conversations/{page.url.split('#/s/')[1]}").json()["config"]
    assert {config["workflow"], *config["workflows"]} == {*english}
    assert config["bot_mode"] == "main_bot"


def test_a_flowchart_is_converted_to_a_workflow(worked: Service, visit: Visit) -> None:
    page = visit(worked, "#/rehearsals")
    page.get_by_role("button", name="Import a workflow").click()
    form = page.get_by_role("group", name="Import a workflow")
    chosen = form.locator("input[type=file]")
    chosen.set_input_files({"name": "broken.mmd", "mimeType": "text/plain", "buffer": b"flowchart TD\n  A --"})
    expect(form.get_by_role("alert")).to_be_visible()
    chosen.set_input_files({"name": "returns.mmd", "mimeType": "text/plain", "buffer": CHART.encode()})
    expect(form.locator("pre")).to_contain_text("reference")
    with page.expect_download(lambda each: each.suggested_filename == "returns.workflow.yaml"):
        form.get_by_role("button", name="Save the file").click()


def test_a_session_is_saved_as_a_test(show: Show, tmp_path: Path) -> None:
    page = show("Details", "trip")
    found: list[Download] = []
    page.on("download", lambda each: found.extend([each]))
    with page.expect_download(lambda each: each.suggested_filename == "test_trip.py"):
        page.get_by_role("button", name="Save as a test").click()
    expect(page.get_by_text("test_trip.py and its cassette were saved")).to_be_visible()
    for each in found:
        each.save_as(tmp_path / each.suggested_filename)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout  # the test, and the cassette itself


def test_the_tabs_are_reached_by_the_keyboard_at_phone_width(show: Show) -> None:
    page = show("Graph", "trip", viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Details")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Trace")).to_be_focused()
    expect(page.locator(".trace .span").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_have_count(0)


FETCHED = {
    "#/usage": "**/api/usage?*",
    "#/schedules": "**/api/schedules",
    "#/rehearsals": "**/api/rehearsals",
    "#/rehearsals/first": "**/api/rehearsals/first",
    "#/backtests": "**/api/backtests",
    "#/memory": "**/api/memory",
    "#/ratings": "**/api/users/default/preferences",
    "Timeline": "**/timeline?*",
    "Trace": "**/api/tasks/*?html=true",
    "Graph": "**/snapshots?*",
    "Rounds": "**/api/tasks/*?html=true",
}


@pytest.mark.parametrize("panel", FETCHED)
def test_a_panel_that_cannot_be_loaded_says_so_and_is_tried_again(worked: Service, visit: Visit, panel: str) -> None:
    problem = {"error": {"type": "DatabaseUnavailable", "message": "The database is busy."}}
    page = visit(worked, "#/s/flow")
    expect(page.locator(".turn-actions")).to_be_visible()
    page.route(FETCHED[panel], lambda route: route.fulfill(status=503, json=problem))
    if panel.startswith("#"):
        page.goto(f"{worked.url}/{panel}")
    else:
        page.get_by_role("button", name="Open the inspector").click()
        page.get_by_role("tab", name=panel).click()
    shown = page.locator(".panel").get_by_role("alert")
    expect(shown).to_contain_text("The database is busy.")
    page.unroute(FETCHED[panel])
    shown.get_by_role("button", name="Try again").click()
    expect(shown).to_have_count(0)
    expect(page.locator(".panel [aria-busy]")).to_have_count(0)


@pytest.mark.parametrize(("width", "locale"), [(390, "en-US"), (390, "zh-CN"), (1280, "en-US")])
def test_the_tabs_fit_one_row(worked: Service, visit: Visit, width: int, locale: str) -> None:
    page = visit(worked, "#/s/flow", viewport={"width": width, "height": 800}, locale=locale)
    page.locator(".bar button").last.click()
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_count(5)
    assert len({box["y"] for tab in tabs.all() if (box := tab.bounding_box())}) == 1
    assert page.get_by_role("tablist").evaluate("list => list.scrollWidth <= list.clientWidth")


def test_the_workspace_has_addresses(worked: Service, visit: Visit) -> None:
    page = visit(worked, "#/s/trip")
    expect(page.locator(".markdown").first).to_be_visible()
    page.get_by_role("link", name="Workspace").click()
    for name in ("Schedules", "Rehearsals", "Backtests", "Memory", "Ratings", "Usage"):
        page.get_by_role("navigation", name="Workspace").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        assert page.url.endswith(f"#/{name.lower()}")
        expect(page).to_have_title(re.compile(f"^{name}"))
    expect(page.locator(".usage table").first).to_be_visible()
    page.reload()
    expect(page.locator(".usage table").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Ratings", exact=True)).to_be_visible()
    page.goto(f"{worked.url}/#/rehearsals/first")
    expect(page.get_by_text("No conversation has ended yet.")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What can I do for you?")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("No conversation has ended yet.")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1024])
def test_a_panel_fits_beside_the_conversation(show: Show, width: int) -> None:
    page = show("Graph", "run", viewport={"width": width, "height": 800})
    expect(page.locator(".drawing")).to_be_visible()
    edges = page.locator(".inspector, .drawing").evaluate_all(
        "found => found.map(e => e.getBoundingClientRect().right)"
    )
    assert max(edges) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_api_is_described_and_searched(worked: Service, visit: Visit) -> None:
    page = visit(worked, "docs#chat")
    chat = page.locator("#chat")
    expect(chat.locator(".fields dt", has_text="session_id")).to_be_visible()
    expect(chat.locator("pre")).to_contain_text(f"curl -X POST '{worked.url}/api/chat'")
    described = worked.api.get("/openapi.json").json()["paths"]
    expect(page.locator(".operation")).to_have_count(sum(map(len, described.values())))
    page.get_by_role("searchbox").fill("snapshots that")
    expect(page.locator(".operation")).to_have_count(1)
    page.get_by_role("link", name="Snapshots").click()
    expect(page.locator("#snapshots .fields").first).to_be_visible()
