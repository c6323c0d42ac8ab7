"""Limits of what tasks spend: shared without a race, asked about, raised and cancelled."""

import asyncio
import re
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

import segue
from segue.app import App
from segue.checkpoints import saver
from segue.checkpoints.ports import Connection
from segue.checkpoints.spend import count_calls
from segue.checkpoints.storage import open_storage
from segue.core.agents import Agent, Prices
from segue.core.context import Services
from segue.core.conversation import ConversationConfig
from segue.core.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    InvalidAnswer,
    QuestionClosed,
    TaskError,
    TooManyTasks,
)
from segue.core.records import Json, NewTask
from segue.core.spend import (
    Owner,
    Quotas,
    Raised,
    Reached,
    Scope,
    Unit,
    UsageTotal,
    load_quotas,
    load_spend,
    read_limit,
)
from segue.entry import open_app
from segue.registry import Registry
from segue.runtime.run import Capacity, Slot
from segue.testing.rehearsal import start_conversation
from segue.testing.rehearsal.segue_bot import attach
from tests.fakes import FixedClock, Item, ScriptedChatModel, answer, call_tool
from tests.modes import CALLING, agent_that, plan_of

PRICES = Prices(input=100, output=1000)
"""A call of 1000 and 100 tokens costs 0.2 dollars; at most, with 200 tokens of reply, a little more."""
COST = 0.2
ROOT = Path(__file__).parents[2]
USAGE = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}


def counted(item: Item) -> AIMessage:
    """A reply whose tokens the endpoint counts."""
    message = item if isinstance(item, AIMessage) else AIMessage(str(item))
    return message.model_copy(update={"usage_metadata": USAGE})


def agent(agent_id: str = "a", item: Item | None = None, **fields: Any) -> Agent:
    """An agent that answers at once, whatever it is asked."""
    reply = counted(answer("done") if item is None else item)
    own = {"mode": "react", "prices": PRICES, "max_tokens": 200, "model": ScriptedChatModel(lambda _: reply)}
    return Agent(**{"agent_id": agent_id, **own, **fields})


def calls_of(*agents: Agent) -> int:
    return sum(len(each.model.calls) for each in agents)


async def rest(app: App) -> None:
    """Wait until nothing runs."""
    while app.tasks.running():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)


async def used(app: App) -> Mapping[str, float]:
    """What is used of each limit, by its name and whose it is."""
    return {f"{use.limit_name} {use.name}".strip(): use.used for use in (await app.tasks.usage_report(1)).limits}


@pytest.mark.slow
@pytest.mark.parametrize("at", ["sqlite", "postgres"])
async def test_fifty_tasks_share_a_limit_and_one_answer_continues_all(
    at: str, database: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if at == "postgres" else str(database)
    worker = agent()
    async with segue.open(url, agents=[worker], spend={"per_day": 2.0}) as app:
        asking = [app.ask("go", session_id=f"s{n}", agent="a") for n in range(50)]
        results = await asyncio.gather(*asking)
        spent = calls_of(worker) * COST
        assert spent <= 2.0 and (await used(app))["per_day"] == pytest.approx(spent)
        waiting = await app.waiting()
        assert len(waiting) == 50 - calls_of(worker) > 0 and {row.kind for row in waiting} == {"spend"}
        assert {result["status"] for result in results} == {"done", "waiting"}
        done = await app.answer(waiting[7].task_id, {"limit": 20})
        assert done["status"] == "done"
        await rest(app)
        assert await app.waiting() == [] and calls_of(worker) == 50
        assert (await used(app))["per_day"] == pytest.approx(50 * COST)


async def test_apps_over_one_database_share_a_limit(database: Path) -> None:
    agents = [agent(), agent()]
    async with (
        segue.open(database, agents=agents[:1], spend={"per_day": 1.0}) as one,
        segue.open(database, agents=agents[1:], spend={"per_day": 1.0}) as other,
    ):
        await asyncio.gather(*(app.ask("go", agent="a") for app in (one, other) for _ in range(10)))
        assert 0 < calls_of(*agents) * COST <= 1.0


@segue.tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@segue.tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


async def test_what_a_cancelled_task_cost_has_the_currency_of_its_agent(database: Path) -> None:
    async with segue.open(database, agents=[agent(item=call_tool(("pay", {"amount": 5})), tools=(pay,))]) as app:
        asked = await app.ask("go", agent="a")
        await app.cancel(asked["task_id"])
        total = (await app.tasks.usage_report(1)).total
        assert (total.currency, total.known_costs) == ("USD", {"USD": pytest.approx(COST)})


async def exact_total(app: App) -> UsageTotal:
    """What the ended tasks used, once the limit of the day is known to have that and the estimates."""
    report = await app.tasks.usage_report(1)
    (use,) = report.limits
    assert use.used == pytest.approx(report.total.known_costs.get("USD", 0) + report.total.estimated_cost)
    return report.total


SCOPES: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "per_session": ({"session_id": "s"}, {"session_id": "t"}),
    "per_user_per_day": ({"user_id": "u"}, {"user_id": "v"}),
    "per_agent_per_day": ({"agent": "a"}, {"agent": "b"}),
}
"""Options of messages that share a limit, and of one that has its own."""


@pytest.mark.parametrize(("name", "unit"), [*zip(SCOPES, ("", "_tokens", ""), strict=True)])
async def test_a_limit_is_that_of_its_session_user_or_agent(database: Path, name: str, unit: str) -> None:
    limit = {"": 0.6, "_tokens": 3300}[unit]
    async with segue.open(database, agents=[agent(), agent("b")], spend={f"{name}{unit}": limit}) as app:
        same, other = ({"agent": "a", **options} for options in SCOPES[name])
        statuses = [(await app.ask("go", **same))["status"] for _ in range(2)]
        assert statuses == ["done", "done"]
        asked = await app.ask("go", **same)
        assert (asked["status"], asked["question"]["limit_name"]) == ("waiting", f"{name}{unit}")
        assert asked["question"]["used"] == pytest.approx(2 * (1100 if unit else COST))
        assert (await app.ask("go", **other))["status"] == "done"


async def test_a_task_has_its_limit_for_itself_and_keeps_what_a_person_made_of_it(database: Path) -> None:
    worker = agent(
        item=AIMessage("", tool_calls=[{"id": "1", "name": "current_time", "args": {}, "type": "tool_call"}])
    )
    worker = worker.model_copy(update={"protocol": "native", "tools": ("clock",)})
    async with segue.open(database, agents=[worker], spend={"per_task": 0.65}) as app:
        asked = await app.ask("go", session_id="s", agent="a")
        assert (asked["status"], calls_of(worker)) == ("waiting", 2)
        again = await app.answer(asked["task_id"], {"limit": 1.05})
        assert (again["status"], again["question"]["limit"], calls_of(worker)) == ("waiting", 1.05, 4)
        other = await app.ask("go", session_id="t", agent="a")
        assert (other["question"]["limit"], calls_of(worker)) == (0.65, 6)


@pytest.mark.parametrize("mode", [*CALLING, "direct"])
async def test_every_mode_asks_and_goes_on_where_it_was(database: Path, mode: str) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    if mode == "direct":
        given = Agent(agent_id="a", mode=mode, model=ScriptedChatModel(["done"]))
    else:
        given = agent_that(mode, ("pay", {"amount": 1}), tools=(pay,))
    script = [counted(item) for item in given.model._script]
    worker = given.model_copy(update={"model": ScriptedChatModel(script), "prices": PRICES, "max_tokens": 200})
    async with segue.open(database, agents=[worker], spend={"per_day": 0.01}) as app:
        result = await app.ask("go", session_id="s", agent="a")
        asked = 0
        while result["status"] == "waiting":
            asked += 1
            assert result["question"]["kind"] == "spend"
            result = await app.answer(result["task_id"], result["question"]["choices"][0])
        assert (result["status"], paid) == ("done", [] if mode == "direct" else [1])
        assert asked >= 1 and (await used(app))["per_day"] == pytest.approx(len(script) * COST)
        assert (await exact_total(app)).estimated == 0
    worker.model.assert_spent()


async def test_a_limit_that_is_raised_in_the_configuration_continues_the_tasks_that_wait_for_it(database: Path) -> None:
    async with segue.open(database, agents=[agent()], spend={"per_task": 0.01}) as app:
        asked = [await app.ask("go", session_id=name, agent="a") for name in ("s", "t")]
        assert [each["status"] for each in asked] == ["waiting", "waiting"]
    for limit, status in ((0.01, "waiting"), (5, "done")):
        async with segue.open(database, agents=[agent()], spend={"per_task": limit}) as app:
            await app.tasks.continue_raised()
            await rest(app)
            assert [(await app.task(each["task_id"])).status for each in asked] == [status, status]


async def test_answers_raise_the_limit_or_cancel_and_others_are_refused(database: Path) -> None:
    async with segue.open(database, agents=[agent()], spend={"per_user_per_day": 0.5}, audit=True) as app:
        asked = await app.ask("go", session_id="s", agent="a")
        while asked["status"] == "done":
            asked = await app.ask("go", session_id="s", agent="a")
        question = asked["question"]
        assert {"unit": "USD", "limit": 0.5, "day": str(datetime.now(UTC).date())}.items() <= question.items()
        assert question["used"] + question["needs"] > 0.5 and question["choices"] == ["1", "cancel"]
        (waiting,) = await app.waiting()
        assert waiting.spend["used"] == question["used"] and waiting.question == question["question"]
        for wrong in (
            "perhaps",
            {"limit": "much"},
            {"limit": True},
            {"limit": 0.5},
            "0.5",
            {"limit": float("nan")},
            {"limit": 10**400},
            {"limit": 1e10},
            {"limit": None},
            {},
            "5,00",
            "1,5",
            "5000 tokens",
            "5 dollars please",
            "-5",
        ):
            with pytest.raises(InvalidAnswer):
                await app.answer(asked["task_id"], wrong)
        assert (await app.task(asked["task_id"])).status == "waiting"
        assert (await app.answer(asked["task_id"], "$0.80 USD"))["status"] == "done"
        cancelled = [await app.ask("go", session_id="s", agent="a") for _ in range(2)][-1]
        for word in ("cancel", {"manual_finish": True}):
            assert cancelled["status"] == "waiting"
            result = await app.answer(cancelled["task_id"], word)
            assert (result["status"], (await app.task(cancelled["task_id"])).status) == ("cancelled", "cancelled")
            with pytest.raises((TaskError, QuestionClosed)):
                await app.answer(cancelled["task_id"], "9")
            cancelled = await app.ask("go", session_id="s", agent="a")
        (raised,) = await app.audit.list(action="raised_limit")
        assert {"kind": "user", "limit": 0.8, "unit": "USD"}.items() <= raised.details.items()
        assert not (await app.audit.verify()).findings


@pytest.mark.parametrize(
    ("unit", "text", "limit"),
    [
        ("USD", "1,200.50", 1200.5),
        ("USD", "US$ 7", 7),
        ("USD", "7 dollars", 7),
        ("USD", "7 美元", 7),
        ("tokens", "30,000,000 tokens", 30_000_000),
        ("tokens", "3000 个词元", 3000),
        ("tokens", "$3000", None),
        ("USD", "3000 tokens", None),
        ("USD", "7,50", None),
    ],
)
def test_an_amount_is_read_as_it_is_meant_or_refused(unit: Unit, text: str, limit: float | None) -> None:
    question = {"scope": "x", "unit": unit, "used": 1, "needs": 1, "suggestion": "4"}
    if limit is None:
        with pytest.raises(InvalidAnswer):
            read_limit(question, text)
    else:
        assert read_limit(question, text) == Raised("x", unit, limit)


@pytest.mark.parametrize(("unit", "limit"), [("USD", 0.00001), ("tokens", 10**10)])
def test_what_a_question_offers_and_an_error_names_are_answers(unit: Unit, limit: float) -> None:
    reached = Reached(scope=Scope("day", "", ""), unit=unit, limit=limit, used=limit, needs=limit / 8)
    question = reached.json()
    assert read_limit(question, reached.suggestion) == Raised(reached.scope.key, unit, 2 * limit)
    with pytest.raises(InvalidAnswer) as refused:
        read_limit(question, {"limit": limit})
    assert read_limit(question, re.search(r"give ([\d.]+) or more", str(refused.value))[1])


async def test_a_lower_answer_to_an_older_question_takes_nothing_back(database: Path) -> None:
    async with segue.open(database, agents=[agent()], spend={"per_day": 0.01}) as app:
        asked = await app.ask("go", agent="a")
        scope = asked["question"]["scope"]
        assert (await app.answer(asked["task_id"], {"limit": 20}))["status"] == "done"
        await app._runner.spend.raise_limit(Raised(scope, "USD", 0.5), remote=False)
        (use,) = (await app.tasks.usage_report(1)).limits
        assert use.limit == 20


async def test_a_question_outlives_its_process_and_a_resume_looks_again(database: Path) -> None:
    worker = agent()
    async with segue.open(database, agents=[worker], spend={"per_task": 0.01}) as app:
        task_id = (await app.ask("go", session_id="s", agent="a"))["task_id"]
    async with segue.open(database, agents=[worker], spend={"per_task": 0.02}) as app:
        assert (await app.resume(task_id))["question"]["limit"] == 0.02
    async with segue.open(database, agents=[worker]) as app:
        assert ((await app.resume(task_id))["status"], calls_of(worker)) == ("done", 1)


class Clocked(Registry):
    """Agents whose runs have this clock."""

    def __init__(self, clock: FixedClock) -> None:
        super().__init__()
        self._clock = clock

    def for_run(self, services: Services) -> Services:
        services.clock = self._clock
        return services


async def test_another_day_has_its_own_limit_in_the_zone_where_days_begin(database: Path) -> None:
    clock = FixedClock(datetime(2026, 3, 1, 15, 30, tzinfo=UTC).timestamp())  # 23:30 in Shanghai
    spend = {"per_day": 0.4, "timezone": "Asia/Shanghai"}
    app = await open_app(database, [agent()], None, registry=Clocked(clock), spend=spend)
    try:
        assert (await app.ask("go", session_id="s", agent="a"))["status"] == "done"
        asked = await app.ask("go", session_id="t", agent="a")
        assert (asked["status"], asked["question"]["day"]) == ("waiting", "2026-03-01")
        clock.advance(3600)
        assert (await app.resume(asked["task_id"]))["status"] == "done"
        asked = await app.ask("go", session_id="u", agent="a")
        assert (asked["status"], asked["question"]["day"]) == ("waiting", "2026-03-02")
    finally:
        await app.close()


async def test_each_tenant_has_a_limit_for_itself_or_its_own(database: Path) -> None:
    spend = {"per_day": 0.4, "tenants": {"rich": {"per_day": 0.6}}}
    async with segue.open(database, agents=[agent()], spend=spend) as app:

        async def statuses(*sessions: str) -> list[str]:
            return [(await app.ask("go", session_id=name, agent="a"))["status"] for name in sessions]

        assert await statuses("one:a", "two:a") == ["done", "done"]
        assert await statuses("one:b", "two:b") == ["waiting", "waiting"]
        assert await statuses("rich:a", "rich:b", "rich:c") == ["done", "done", "waiting"]
        (waiting,) = await app.waiting(prefix="one:")
        await app.answer(waiting.task_id, "5")
        await rest(app)
        assert {row.session_id for row in await app.waiting()} == {"two:b", "rich:c"}
        assert [use.used for use in (await app.tasks.usage_report(1, session_prefix="rich:")).limits] == [2 * COST]


async def test_what_nobody_counted_is_estimated_and_says_so(database: Path) -> None:
    uncounted = agent(model=ScriptedChatModel([answer("done")]))
    async with segue.open(database, agents=[uncounted], spend={"per_day": 1.0}) as app:
        await app.ask("go", session_id="s", agent="a", user_id="u")
        report = await app.tasks.usage_report(1)
        assert (report.total.uncounted, report.total.estimated) == (1, 1)
        assert 0 < report.total.estimated_cost == report.by_user["u"].estimated_cost < 0.3
        assert report.limits[0].used == pytest.approx(report.total.estimated_cost)
        assert report.json()["by_user"][0]["user"] == "u"


async def test_a_call_that_fails_or_is_stopped_counts_nothing_or_what_it_might_have_used(database: Path) -> None:
    begun = asyncio.Event()

    def stuck(_: Any) -> str:
        begun.set()
        raise asyncio.CancelledError

    failing = agent("f", model=ScriptedChatModel([RuntimeError("down")]))
    stopped = agent("c", model=ScriptedChatModel(stuck))
    async with segue.open(database, agents=[failing, stopped], spend={"per_agent_per_day": 1.0}) as app:
        with pytest.raises(RuntimeError):
            await app.ask("go", session_id="s", agent="f")
        task = await app.start("go", session_id="t", agent="c")
        await begun.wait()
        await rest(app)
        found = await used(app)
        assert found["per_agent_per_day f"] == 0 and found["per_agent_per_day c"] > COST
        report = await app.tasks.usage_report(1)
        assert report.by_agent["c"].estimated == 1 and report.by_agent["f"].estimated == 0
        await app.cancel(task.task_id)


KILLED = """
import asyncio, os, signal, sys
import segue
from tests.fakes import ScriptedChatModel
from tests.runtime.test_spend import agent

def dies(_):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    worker = agent(model=ScriptedChatModel(dies))
    async with segue.open(sys.argv[1], agents=[worker], spend={"per_task": 1.0}) as app:
        await app.ask("go", session_id="s", agent="a")

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_call_whose_process_is_killed_keeps_its_room_and_the_one_in_its_place_has_its_own(
    database: Path,
) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(database), cwd=ROOT)
    assert await process.wait() == -signal.SIGKILL
    async with segue.open(database, agents=[agent()], spend={"per_task": 1.0}) as app:
        ((task_id, kept),) = (await used(app)).items()
        assert kept > COST
        (found,) = await app.resumable()
        assert (await app.resume(found.task_id))["status"] == "done"
        assert (await used(app))[task_id] == pytest.approx(kept + COST)
        report = await app.tasks.usage_report(1)
        assert (report.total.estimated, report.total.estimated_cost) == (1, pytest.approx(kept))


async def test_a_call_whose_step_could_not_be_stored_is_an_estimate_of_what_it_used(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = True

    def count_or_fail(connection: Connection, calls: Sequence[str]) -> None:
        if calls and is_full:
            raise DatabaseUnavailable("The disk is full.")
        count_calls(connection, calls)

    monkeypatch.setattr(saver, "count_calls", count_or_fail)
    async with segue.open(database, agents=[agent()], spend={"per_day": 1.0}) as app:
        with pytest.raises(DatabaseUnavailable):
            await app.ask("go", session_id="s", agent="a")
        assert (await used(app))["per_day"] == pytest.approx(COST)
        is_full = False
        (found,) = await app.resumable()
        assert (await app.resume(found.task_id))["status"] == "done"
        total = await exact_total(app)
        assert (total.calls, total.estimated, total.estimated_cost) == (1, 1, pytest.approx(COST))


async def test_a_call_that_its_node_makes_again_after_a_question_is_an_estimate(database: Path) -> None:
    script = [plan_of([("look", {})]), "", "done"]
    worker = agent(mode="plan", tools=(look,), model=ScriptedChatModel([*map(counted, script)]))
    async with segue.open(database, agents=[worker], spend={"per_day": 0.55}) as app:
        asked = await app.ask("go", session_id="s", agent="a")
        assert (asked["status"], calls_of(worker)) == ("waiting", 2)
        assert (await app.answer(asked["task_id"], "20"))["status"] == "done"
        total = await exact_total(app)
        assert (total.calls, total.estimated, total.estimated_cost) == (2, 1, pytest.approx(COST))


async def test_a_call_whose_node_fails_later_is_an_estimate(database: Path) -> None:
    script = [counted(plan_of([("look", {})])), counted(""), RuntimeError("down")]
    worker = agent(mode="plan", tools=(look,), model=ScriptedChatModel(script))
    async with segue.open(database, agents=[worker], spend={"per_day": 2.0}) as app:
        with pytest.raises(RuntimeError):
            await app.ask("go", session_id="s", agent="a")
        total = (await app.tasks.usage_report(1)).total
        assert (total.estimated, total.estimated_cost) == (1, pytest.approx(COST))
        assert (await used(app))["per_day"] == pytest.approx(2 * COST)


async def test_the_summary_of_a_hidden_result_is_counted_with_its_call(database: Path) -> None:
    @segue.tool(read_only=True, hidden="summary")
    def read_page() -> str:
        """Read a page."""
        return "long"

    script = [call_tool(("read_page", {})), "A page.", answer("done")]
    worker = agent(tools=(read_page,), model=ScriptedChatModel([*map(counted, script)]))
    async with segue.open(database, agents=[worker], spend={"per_day": 2.0}) as app:
        await app.ask("go", session_id="s", agent="a")
        total = await exact_total(app)
        assert (total.calls, total.estimated) == (3, 0)


async def test_a_conversation_asks_for_its_bot_and_its_user(database: Path) -> None:
    user, bot = agent("user", "Is it red?"), agent("bot", answer("It is."))
    config = ConversationConfig(
        user_mode="llm_profile", user_agent="user", bot_mode="segue:react", bot_agent="bot", conversation_turn_limit=2
    )
    async with segue.open(database, agents=[user, bot], spend={"per_agent_per_day": 0.3}) as app:
        attach(app)
        task, run = await start_conversation(app, config, "talk")
        result, asked = await app.tasks.result(task, run), []
        while result["status"] == "waiting":
            (waiting,) = await app.waiting()
            assert (waiting.session_id, waiting.kind) == ("talk", "spend")
            asked.append(waiting.question)
            result = await app.answer(task.task_id, waiting.spend["limit"] * 2)
        assert (result["status"], len(asked), calls_of(user, bot)) == ("done", 2, 4)


async def test_copies_count_nothing_and_a_deleted_session_does_not_give_its_day_back(database: Path) -> None:
    async with segue.open(database, agents=[agent()], spend={"per_day": 1.0, "per_session": 0.5}) as app:
        await app.ask("go", session_id="s", agent="a")
        place = (await app.sessions.snapshots("s"))[0].checkpoint_id
        await app.rewind.fork("s", place, session_id="copy")
        assert await used(app) == {"per_session s": pytest.approx(COST), "per_day": pytest.approx(COST)}
        await app.sessions.delete("s")
        assert await used(app) == {"per_day": pytest.approx(COST)}


class Colour(BaseModel):
    """What the answer is made."""

    name: str


async def test_an_object_of_the_answer_needs_room_too(database: Path) -> None:
    script = [counted(answer("It is red.")), counted('{"name": "red"}')]
    async with segue.open(database, agents=[agent(model=ScriptedChatModel(script))], spend={"per_day": 0.4}) as app:
        with pytest.raises(TaskError, match="per_day is too low to convert the answer"):
            await app.ask("go", agent="a", response_model=Colour)
    async with segue.open(":memory:", agents=[agent(model=ScriptedChatModel(script))], spend={"per_day": 1}) as app:
        result = await app.ask("go", agent="a", response_model=Colour)
        assert result["object"] == Colour(name="red")
        total = await exact_total(app)
        assert (total.calls, total.estimated, total.estimated_cost) == (1, 1, pytest.approx(COST))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"prices": None}, "price .* is not known"), ({"prices": Prices(input=1, output=1, currency="CNY")}, "in CNY")],
)
async def test_a_limit_in_dollars_needs_prices_in_dollars(
    database: Path, fields: Mapping[str, Any], problem: str
) -> None:
    async with segue.open(database, agents=[agent(**fields)], spend={"per_day": 1.0}) as app:
        with pytest.raises(ConfigurationError, match=problem):
            await app.ask("go", session_id="s", agent="a")
        assert await app.threads() == []
    async with segue.open(database, agents=[agent(**fields)], spend={"per_day_tokens": 10_000}) as app:
        assert (await app.ask("go", session_id="s", agent="a"))["status"] == "done"


WRONG: Iterable[tuple[str, str]] = (
    ("per_month = 3", r"\[spend\] in .*agents.toml has an unknown field 'per_month': use per_task, "),
    ("per_day = 0", "per_day: Input should be greater than 0"),
    ('timezone = "Mars"', "timezone: 'Mars' is not a time zone"),
    ("tenants = {x = {per_week = 1}}", "unknown field 'tenants.x.per_week': use per_task"),
)


@pytest.mark.parametrize(("line", "problem"), WRONG)
def test_a_wrong_table_is_refused_by_its_field(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(f'[[agent]]\nagent_id = "a"\n[spend]\n{line}\n')
    with pytest.raises(ConfigurationError, match=problem):
        load_spend(file)


async def test_without_limits_nothing_is_counted(database: Path) -> None:
    async with segue.open(database, agents=[agent(prices=None)]) as app:
        await app.ask("go", session_id="s", agent="a")
        report: Json = (await app.tasks.usage_report(1)).json()
        assert report["limits"] == [] and report["total"]["estimated"] == 0


# How many tasks of a user and of a tenant run and wait: fair in one process, and in the workers' queue.


A, B = Owner("a", "a:u"), Owner("b", "b:u")
MANY = 1000
WAKE = """
    SELECT segue_wake(task_id, agent_id, NULL, false) FROM (
        SELECT * FROM tasks WHERE starts_with(thread_id, %s) ORDER BY position
    ) AS queued
"""


def given(slots: list[Slot]) -> list[bool]:
    return [slot.done() for slot in slots]


async def test_a_tenant_with_a_thousand_queued_tasks_delays_another_by_one() -> None:
    capacity = Capacity(1, 2 * MANY)
    many = [capacity.reserve(A) for _ in range(MANY)]
    other = [capacity.reserve(B) for _ in range(3)]
    turns = []
    for _ in range(6):
        running = next(slot for slot in (*many, *other) if slot.done() and slot not in turns)
        turns.append(running)
        capacity.release(running)
    assert [slot in other for slot in turns] == [False, False, True, False, True, False]


async def test_a_quota_lets_others_pass_and_its_own_wait() -> None:
    capacity = Capacity(4, 100, Quotas(tasks_per_user=1, tasks_per_tenant=2))
    same, colleague, third = Owner("a", "a:u"), Owner("a", "a:v"), Owner("a", "a:w")
    slots = [capacity.reserve(owner) for owner in (same, same, colleague, third, B)]
    assert given(slots) == [True, False, True, False, True]
    capacity.release(slots[2])
    assert given(slots) == [True, False, True, True, True]
    capacity.release(slots[0])
    assert given(slots)[1] and capacity.is_within_quotas(Owner("c", "c:u"))
    assert not capacity.is_within_quotas(same) and not capacity.is_within_quotas(Owner("c", "u"), [Owner("c", "u")])


async def test_a_stopped_task_leaves_the_queue_and_gives_its_turn_away() -> None:
    capacity = Capacity(1, 100)
    running, stopped, last = (capacity.reserve(A) for _ in range(3))
    stopped.set_result(False)
    capacity.release(stopped)
    capacity.release(running)
    assert last.done() and last.result()


async def test_a_full_queue_refuses_its_user_and_its_tenant_and_nobody_else() -> None:
    capacity = Capacity(1, 100, Quotas(queued_per_user=2, queued_per_tenant=3))
    slots = [capacity.reserve(A) for _ in range(3)]
    with pytest.raises(TooManyTasks, match="of this user wait: 2 is the limit"):
        async with capacity.admitted(A):
            pass
    async with capacity.admitted(Owner("a", "a:v")):
        with pytest.raises(TooManyTasks, match="of this tenant wait: 3 is the limit"):
            async with capacity.admitted(Owner("a", "a:w")):
                pass
        slots.append(capacity.reserve(Owner("a", "a:v")))
    async with capacity.admitted(B), capacity.admitted(None):
        pass
    for slot in slots:
        capacity.release(slot)


async def test_messages_that_come_at_once_are_counted_as_they_start() -> None:
    async with segue.open(":memory:", max_running=1, quotas=Quotas(queued_per_tenant=1)) as app:
        late = [app.start("hello", session_id=f"a:{n}", model="offline", mode="direct") for n in range(6)]
        started = await asyncio.gather(*late, return_exceptions=True)
        refused = [each for each in started if isinstance(each, TooManyTasks)]
        assert len(refused) >= 3 and len(await app.tasks.list()) == 6 - len(refused)


async def test_messages_over_the_quota_are_refused_and_others_run_in_turns() -> None:
    gate, begun = asyncio.Event(), list[str]()

    async def hold(who: str) -> str:
        """Hold until the gate opens."""
        begun.append(who)
        await gate.wait()
        return who

    async with segue.open(":memory:", max_running=1, quotas=Quotas(queued_per_tenant=2)) as app:
        for name in ("a1", "a2", "a3", "b1"):
            script = [call_tool(("hold", {"who": name})), answer("ok")]
            app.register(Agent(agent_id=name, model=ScriptedChatModel(script), tools=(hold,), mode="react"))
        rows = [await app.start("go", agent=name, session_id=f"a:{name}") for name in ("a1", "a2", "a3")]
        with pytest.raises(TooManyTasks, match="of this tenant wait"):
            await app.start("go", agent="a3", session_id="a:late")
        rows.append(await app.start("go", agent="b1", session_id="b:b1"))
        gate.set()
        for row in rows:
            async for _ in app.follow(row.task_id):
                pass
        assert begun.index("b1") <= 2 and await app.tasks.list(session_id="a:late") == []


@pytest.mark.postgres
async def test_tasks_that_wait_for_workers_are_counted_in_the_database(postgres_url: str) -> None:
    quotas = Quotas(queued_per_user=2, queued_per_tenant=3)
    async with segue.open(postgres_url, dispatch="always", quotas=quotas) as app:
        for number in range(2):
            await app.start("go", session_id=f"a:{number}", user_id="a:u")
        with pytest.raises(TooManyTasks, match="of this user wait: 2 is the limit"):
            await app.start("go", session_id="a:2", user_id="a:u")
        assert await app.tasks.list(session_id="a:2") == []
        late = [app.start("go", session_id=f"a:late{n}", user_id=f"a:{n}") for n in range(4)]
        refused = await asyncio.gather(*late, return_exceptions=True)
        assert sum(isinstance(each, TooManyTasks) for each in refused) == 3
        for name in ("b:1", "plain"):
            await app.start("go", session_id=name, user_id="a:u")


@pytest.mark.postgres
async def test_workers_fetch_tenants_tasks_in_turns(postgres_url: str) -> None:
    """A thousand tasks of one tenant are queued before one of another, which is fetched second at most."""
    storage = await open_storage(postgres_url)
    try:
        for number, thread in enumerate([*(f"a:{n}" for n in range(MANY)), "b:1", "b:2"]):
            task = NewTask(
                task_id=f"t{number}", session_id=thread, agent_id="x", user_id="u", mode="react", model="", message="m"
            )
            await storage.tasks.create(task)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SET search_path TO segue")
            connection.execute(WAKE, ("a:",))
            fetched = [fetch(connection) for _ in range(500)]
            assert fetched == [f"t{n}" for n in range(500)]
            connection.execute(WAKE, ("b:",))
            order = [fetch(connection) for _ in range(5)]
            assert order == ["t500", "t1000", "t501", "t1001", "t502"]
    finally:
        await storage.close()


def fetch(connection: "psycopg.Connection[tuple[object, ...]]") -> str:
    """What a worker would run next; it is not queued any more."""
    row = connection.execute(
        "DELETE FROM procrastinate_jobs WHERE id = (SELECT id FROM procrastinate_jobs WHERE status = 'todo' "
        "ORDER BY priority DESC, id LIMIT 1) RETURNING args ->> 'task_id'"
    ).fetchone()
    assert row
    return str(row[0])


def test_the_agents_file_sets_the_quotas(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text("[quotas]\ntasks_per_user = 2\n")
    assert load_quotas(file) == Quotas(tasks_per_user=2)
    file.write_text("[quotas]\ntasks_per_users = 2\n")
    with pytest.raises(ConfigurationError, match=r"\[quotas\] table of .*tasks_per_users"):
        load_quotas(file)
