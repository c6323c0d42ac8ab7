"""The client that keeps no buffer gets every frame whole, in a real browser."""

import pytest

from .conftest import Open
from .models import FIRST, LONG, REST, Model
from .serving import Json, Service, wait_until

BEIJING = "帮我规划一个北京3日游，包括景点和美食"
LISTEN = "([message, mode, slowness]) => listen(message, mode, slowness)"
BEGIN = "([message, mode, slowness]) => void (window.listened = listen(message, mode, slowness))"


def check(heard: Json, service: Service) -> str:
    """Everything arrived, once and in order; returns the answer."""
    frames = heard["frames"]
    types = [frame["type"] for frame in frames]
    assert types.count("done") == 1 and types[-1] == "done"
    assert heard["ascii"], "a byte that is no character of its own could be cut"
    (task_id,) = {frame["task_id"] for frame in frames}
    assert [frame["seq"] for frame in frames if frame.get("seq")] == service.seqs(task_id)
    answer = service.answer(task_id)
    assert heard["token"] == "".join(frame["content"] for frame in frames if frame["type"] == "token") == answer
    shown = frames[-1]["result"]["answer"]
    assert shown == answer or (frames[-1]["result"]["truncated"] and answer.startswith(shown.removesuffix("…")))
    return answer


@pytest.mark.parametrize("mode", ["direct", "react", "plan"])
def test_each_mode_is_thought_aloud_and_answered_as_it_is_written(offline: Service, tab: Open, mode: str) -> None:
    heard = tab(offline).evaluate(LISTEN, [BEIJING, mode, 0])
    assert "离线规划器" in check(heard, offline)
    types = [frame["type"] for frame in heard["frames"]]
    assert heard["thinking"].strip() and types.count("token") > 10
    assert types.index("thinking") < types.index("token") < types.index("answer")
    assert "token" not in types[types.index("answer") :]
    assert heard["frames"][-1]["result"]["mode"] == mode


@pytest.mark.parametrize("slowness", [0, 2], ids=["at once", "by a busy page"])
@pytest.mark.parametrize("size", [3, 5_000])
def test_a_long_chinese_answer_is_read_whole(service: Service, tab: Open, size: int, slowness: float) -> None:
    heard = tab(service).evaluate(LISTEN, [f"in pieces of {size}", "direct", slowness])
    assert check(heard, service) == LONG
    assert len(heard["reads"]) <= len(heard["frames"]) + 1


def test_the_first_words_are_there_before_the_last_are_written(service: Service, model: Model, tab: Open) -> None:
    page = tab(service)
    page.evaluate(BEGIN, ["wait", "direct", 0])
    wait_until(lambda: page.evaluate("heard.token") == FIRST)
    model.go.set()
    assert check(page.evaluate("listened"), service) == FIRST + REST


def test_five_tabs_at_once_get_each_their_own_answer(offline: Service, tab: Open) -> None:
    cities = ["北京", "上海", "成都", "西安", "杭州"]
    pages = [tab(offline) for _ in cities]
    for page, city in zip(pages, cities, strict=True):
        page.evaluate(BEGIN, [f"帮我规划一个{city}3日游，包括景点和美食", "plan", 1])
    for page, city in zip(pages, cities, strict=True):
        answer = check(page.evaluate("listened"), offline)
        assert city in answer and not any(other in answer for other in cities if other != city)


def test_a_tab_that_is_closed_in_mid_stream_leaves_the_task_running(service: Service, model: Model, tab: Open) -> None:
    page = tab(service)
    page.evaluate(BEGIN, ["wait", "direct", 0])
    wait_until(lambda: page.evaluate("heard.token") == FIRST)
    task_id = page.evaluate("heard.frames[0].task_id")
    page.close()
    assert service.task(task_id)["status"] == "running"
    model.go.set()
    wait_until(lambda: service.task(task_id)["status"] == "done")
    assert service.answer(task_id) == FIRST + REST
    service.seqs(task_id)
