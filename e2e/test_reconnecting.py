"""A browser that lost its connection gets what it missed, and nothing twice."""

import json
import signal
from pathlib import Path

from .conftest import Open
from .models import FIRST, REST, Model, scripted
from .serving import Json, Service, wait_until

BEGIN = "message => void (window.listened = listen(message, 'direct'))"
FETCH = """([taskId, headers]) => void (
  window.text = fetch(`/api/tasks/${taskId}/stream`, { headers }).then((response) => response.text())
)"""


def frames_of(text: str) -> list[Json]:
    """The frames of a stream that was read to its end."""
    lines = [line for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_what_was_missed_comes_after_the_last_event_id(service: Service, model: Model, tab: Open) -> None:
    page = tab(service)
    page.evaluate(BEGIN, "wait")
    wait_until(lambda: page.evaluate("heard.token") == FIRST)
    seen = [frame["seq"] for frame in page.evaluate("heard.frames") if frame.get("seq")]
    task_id = page.evaluate("heard.frames[0].task_id")
    page.close()

    page = tab(service)
    page.evaluate(FETCH, [task_id, {"Last-Event-ID": f"{task_id}:{seen[-1]}"}])
    model.go.set()
    rest = frames_of(page.evaluate("text"))
    assert seen + [frame["seq"] for frame in rest if frame.get("seq")] == service.seqs(task_id)
    assert [frame["type"] for frame in rest].count("done") == 1 and rest[-1]["type"] == "done"

    for after in (0, 1, len(service.seqs(task_id))):
        page.evaluate(FETCH, [task_id, {"Last-Event-ID": f"{task_id}:{after}"} if after else {}])
        again = frames_of(page.evaluate("text"))
        assert [frame["seq"] for frame in again[:-1]] == service.seqs(task_id)[after:]
        assert again[-1] == rest[-1]


def test_a_page_sees_a_task_through_though_the_service_is_killed(tmp_path: Path, model: Model, tab: Open) -> None:
    with scripted(tmp_path, model) as service:
        page = tab(service)
        page.evaluate(BEGIN, "wait")
        wait_until(lambda: page.evaluate("heard.token") == FIRST)
        task_id = page.evaluate("heard.frames[0].task_id")
        page.evaluate("taskId => follow(taskId)", task_id)
        wait_until(lambda: page.evaluate("seen.ids.length") > 0)

        service.stop(signal.SIGKILL)
        model.go.set()
        service.start()
        wait_until(lambda: service.task(task_id)["status"] == "done")

        seen = page.evaluate("followed")
        assert seen["connections"] == 2
        assert seen["ids"] == [f"{task_id}:{seq}" for seq in service.seqs(task_id)]
        assert "resumed" in [frame["type"] for frame in seen["frames"]]
        assert seen["frames"][-1]["result"]["answer"] == service.answer(task_id) == FIRST + REST
