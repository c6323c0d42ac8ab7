"""Reports of what tasks used, and the size of a prompt."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from segue.core.models import ModelRequest, PromptSize, SentPrompts, Usage, common_prefix
from segue.core.spend import Period, TaskUsage, UsageTotal
from tests.cases import cases

NOW = datetime(2026, 3, 2, 1, 0, tzinfo=UTC).timestamp()
EAST = timezone(timedelta(hours=8))


def used(cost: float | None = 0.5, currency: str = "USD", tokens: int = 10, **task: object) -> TaskUsage:
    usage: Usage = {"input": tokens, "output": 1 if tokens else 0, "calls": 1, "cost": cost, "currency": currency}
    return TaskUsage(**{"created_at": NOW, "agent_id": "a", "result": {"usage": usage, "model": "m"}, **task})  # type: ignore[arg-type]


OPEN = TaskUsage(created_at=NOW, agent_id="a", model="m")


@cases(
    "tasks, cost, known, counts",
    [
        ([], 0.0, {}, (0, 0, 0, 0)),
        ([used(), used()], 1.0, {"USD": 1.0}, (2, 0, 0, 0)),
        ([used(), used(None)], None, {"USD": 0.5}, (2, 0, 0, 1)),
        ([used(None, tokens=0)], None, {}, (1, 0, 1, 1)),
        ([used(), OPEN], None, {"USD": 0.5}, (2, 1, 0, 1)),
        ([used(), used(2.0, "CNY")], None, {"CNY": 2.0, "USD": 0.5}, (2, 0, 0, 0)),
        ([used(0.0, "", tokens=0), used(result={})], 0.0, {}, (2, 0, 0, 0)),
        ([used(), used(result={"usage": "much"})], None, {"USD": 0.5}, (2, 1, 0, 1)),
        ([used(), used(result={"usage": {"input": 1, "cost": "dear"}})], None, {"USD": 0.5}, (2, 1, 0, 1)),
        ([used(), used(result={"usage": {"input": 1, "calls": 1}})], None, {"USD": 0.5}, (2, 0, 0, 1)),
    ],
)
def test_a_cost_that_is_not_known_is_none_and_what_is_known_is_beside_it(
    tasks: list[TaskUsage], cost: float | None, known: dict[str, float], counts: tuple[int, int, int, int]
) -> None:
    total = UsageTotal.of(tasks)
    assert (total.cost, total.known_costs) == (cost, known)
    assert (total.tasks, total.unfinished, total.uncounted, total.unpriced) == counts


def test_days_begin_at_the_midnight_of_the_zone_and_each_is_listed() -> None:
    late = used(created_at=datetime(2026, 3, 1, 16, 30, tzinfo=UTC).timestamp())  # 00:30 in the east
    assert [day for day, total in Period.last(3, NOW, UTC).report([late]).by_day.items() if total.tasks] == [
        "2026-03-01"
    ]
    east = Period.last(3, NOW, EAST)
    assert {day: total.tasks for day, total in east.report([late]).by_day.items()} == {
        "2026-02-28": 0,
        "2026-03-01": 0,
        "2026-03-02": 1,
    }
    assert east.since == datetime(2026, 2, 27, 16, tzinfo=UTC).timestamp()


def test_a_task_whose_moment_is_damaged_is_on_no_day() -> None:
    report = Period.last(2, NOW, UTC).report([used(), used(created_at=0.0)])
    assert ([*report.by_day], report.total.tasks) == (["2026-03-01", "2026-03-02"], 1)


def test_agents_and_models_come_with_the_most_tokens_first() -> None:
    tasks = [used(agent_id="b", tokens=5), used(agent_id="c", tokens=50), OPEN]
    form = Period.last(1, NOW, UTC).report(tasks).json()
    assert [row["agent"] for row in form["by_agent"]] == ["c", "b", "a"]
    assert [(row["model"], row["tasks"], row["unfinished"]) for row in form["by_model"]] == [("m", 3, 1)]
    assert (form["since"], form["until"], form["total"]["input"]) == ("2026-03-02", "2026-03-02", 55)


# The size of a prompt, and what it shares with the one before.

PROMPTS = st.lists(st.text("ab\n", max_size=5), max_size=4)


@given(PROMPTS, PROMPTS)
def test_a_prompt_shares_what_its_text_shares(first: list[str], second: list[str]) -> None:
    prompts = SentPrompts()
    sizes = [prompts.add(ModelRequest("decide", list(map(HumanMessage, texts)))) for texts in (first, second)]
    before, text = ("\n".join(f"human: {text}" for text in texts) for texts in (first, second))
    assert sizes == [PromptSize(len(before), 0), PromptSize(len(text), common_prefix(before, text))]
