"""One process of the month: it runs what is due and answers for the person, moment by moment, until killed."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

import segue
from segue import NOT_DONE, Agent, ApprovalSettings, CallContext, Receiver
from segue.app import App
from segue.core.agents import Prices
from segue.core.errors import SegueError
from segue.core.records import WaitingTask
from segue.entry import Opening
from segue.testing.chaos.traps import append_line, kill, read_journal
from tests.crash.traps import Traps
from tests.operations.calendar import (
    APPROVALS,
    COSTLY_DAY,
    COSTLY_TASK,
    LOOKS,
    ZONE,
    Blow,
    SharedClock,
    day_of,
    day_of_run,
    limit_answer,
    moment,
    next_look,
    payment_answer,
)
from tests.operations.outside import INPUT, OUTPUT

SPEND = {"per_task": 0.25, "per_day": 0.3, "timezone": ZONE}
DEADLINES = ApprovalSettings(remind_after="4h", expire_after="1d")  # type: ignore[arg-type]


class DayTraps(Traps):
    """Kills this process at the blow's point, counted from when its day is there."""

    def __init__(self, blow: Blow | None, clock: SharedClock) -> None:
        super().__init__({})
        self._blow = blow
        self._clock = clock
        self._left = blow.number if blow else 0

    def install(self) -> None:
        """Watch the statements on PostgreSQL as well."""
        super().install()
        real: Any = psycopg.Cursor.execute

        def execute(cursor: Any, query: Any, *values: Any, **options: Any) -> Any:
            self._note(0, query.decode() if isinstance(query, bytes) else str(query))
            return real(cursor, query, *values, **options)

        psycopg.Cursor.execute = execute  # type: ignore[method-assign]

    def reach(self, point: str) -> None:
        if self._blow and point.startswith(self._blow.kind) and day_of(self._clock()) == self._blow.day:
            self._left -= 1
            if self._left == 0:
                kill()

    def move(self, to: float) -> None:
        """Move the clock on; a day whose blow has not come yet ends with it."""
        if self._blow and day_of(self._clock()) == self._blow.day < day_of(to):
            kill()
        self._clock.move(to)


def tools_over(books: Path, traps: Traps) -> Mapping[str, Any]:
    """The tools, whose effects are lines of a file: the account of the world outside."""

    def enter(call: CallContext, name: str, label: str) -> None:
        traps.reach("tool:before")
        append_line(books, {"key": call.idempotency_key, "tool": name, "label": label, "task": call.task_id})
        traps.reach("tool:after")

    def is_entered(call: CallContext) -> Any:
        return "entered" if any(line["key"] == call.idempotency_key for line in read_journal(books)) else NOT_DONE

    @segue.tool(read_only=True)
    def orders(call: CallContext) -> dict[str, Any]:
        """The orders of today."""
        day = day_of_run(call.session_id)
        count = 12 if day in COSTLY_TASK else 6 if day in COSTLY_DAY else 2
        is_costly = count > 2 and call.user_id == "clerk"
        return {"run": call.session_id[-15:], "orders": count, **({"about": "costly"} if is_costly else {})}

    def was_posted(label: str, amount: int, call: CallContext) -> Any:
        return is_entered(call)

    @segue.tool(check=was_posted)
    def post(label: str, amount: int, call: CallContext) -> str:
        """Enter an order into the books; twice would be wrong, and the books can be asked."""
        enter(call, "post", label)
        return "entered"

    @segue.tool
    def send_report(label: str, call: CallContext) -> str:
        """Send the report; twice would be wrong."""
        enter(call, "send_report", label)
        return "sent"

    @segue.tool(needs_approval=True)
    def pay(amount: int, call: CallContext) -> str:
        """Pay an invoice, if a person approves."""
        enter(call, "pay", "")
        return f"paid {amount}"

    return {"clerk": (orders, post), "reporter": (orders, send_report), "cashier": (pay,)}


def agents_over(folder: Path, url: str, traps: Traps) -> list[Agent]:
    tools = tools_over(folder / "books.jsonl", traps)
    own: dict[str, Any] = {"base_url": url, "api_key": "k", "mode": "react", "protocol": "native", "max_tokens": 200}
    prices = Prices(input=INPUT, output=OUTPUT)
    return [
        Agent(agent_id=name, model=f"openai:{name}", tools=held, prices=prices, **own) for name, held in tools.items()
    ]


def opened(orders: Mapping[str, Any], traps: DayTraps, clock: SharedClock) -> Opening:
    """The app over the month's database."""
    hook = Receiver(name="ops", url=orders["hook"], secret="HOOK_SECRET", allow_private=True)
    return segue.open(
        orders["database"],
        agents=agents_over(Path(orders["folder"]), orders["endpoint"], traps),
        clock=clock,
        spend=SPEND,
        audit=True,
        notify=[hook],
        approvals=DEADLINES,
    )


def live(orders: Mapping[str, Any]) -> None:
    """Run the month on from where its clock stands.

    `orders` are {"folder", "database", "endpoint", "hook", "blow", "last"}, the last day among them.
    """
    clock = SharedClock(Path(orders["folder"]))
    traps = DayTraps(Blow(**orders["blow"]) if orders["blow"] else None, clock)
    traps.install()
    asyncio.run(_live(orders, traps, clock))


async def _live(orders: Mapping[str, Any], traps: DayTraps, clock: SharedClock) -> None:
    end = moment(orders["last"] + 1)
    async with opened(orders, traps, clock) as app:
        if len(await app.schedules.list()) < 2 + len(APPROVALS) + len(COSTLY_DAY):
            await schedule(app)
        while (now := clock()) < end:
            await run_moment(app, now)
            coming = await app.schedules.next_due()
            traps.move(min(each for each in (coming, next_look(now), end) if each))
        await run_moment(app, now)


async def schedule(app: App) -> None:
    """Ask for what is to happen in the month; what was asked for already stays."""
    daily = {"timezone": ZONE, "missed": "all"}
    await _schedule(app, "Settle the orders of today.", "clerk", every="0 9 * * *", **daily)
    await _schedule(app, "Write the report of the week.", "reporter", every="0 9 * * mon", **daily)
    for day in APPROVALS:
        await _schedule(app, "Pay the invoice.", "cashier", at=moment(day, 10))
    for day in COSTLY_DAY:
        await _schedule(app, "Settle what was left.", "clerk", at=moment(day, 8) + 1800)


async def _schedule(app: App, message: str, agent: str, **times: Any) -> None:
    key = f"{agent}-{times.get('at', 'daily')}"
    await app.start(message, agent=agent, user_id=agent, idempotency_key=key, **times)


async def run_moment(app: App, now: float) -> None:
    """Do what is to be done at a moment, until nothing is left."""
    is_busy = True
    while is_busy:
        await app.schedules.run_due()
        is_busy = bool(app.tasks.running())
        if now in {moment(day_of(now), hour) for hour in LOOKS}:
            is_busy |= await look_into_inbox(app, now)
        deadline = time.monotonic() + 30
        while app.tasks.running():
            await asyncio.sleep(0.002)
            assert time.monotonic() < deadline, await app.tasks.list()
        await app.notifications.sent()


async def look_into_inbox(app: App, now: float) -> bool:
    """Answer for the person what they answer now; returns whether that was anything."""
    answers = [(task, answer) for task in await app.tasks.waiting() if (answer := answer_to(task, now)) is not None]
    for task, answer in answers:
        if answer == "resume":
            with suppress(SegueError):
                await app.tasks.resume(task.task_id)
        else:
            await app.tasks.resume(task.task_id, answer=answer)
    return any(answer != "resume" for _, answer in answers)


def answer_to(task: WaitingTask, now: float) -> Any:
    """What a person says now to a task; None: nothing yet."""
    day = day_of_run(task.session_id)
    if task.kind == "approval":
        return payment_answer(day, now)
    assert task.spend is not None, task
    answer = limit_answer(day, now)
    return {"limit": float(task.spend["suggestion"])} if answer == "raise" else answer
