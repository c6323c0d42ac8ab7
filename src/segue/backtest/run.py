"""Backtests: recorded turns answered anew, compared, and summed up."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from typing_extensions import TypedDict

from ..checkpoints.storage import Storage
from ..core.records import Json
from ..nodes.chat.run_mode import ModeGraph
from ..registry import Registry
from ..rehearsal.cassette.cassette import ToolCall
from ..rehearsal.report.statistics import Estimate, rate
from ..runtime.modes import chat_graph
from .behaviour import Behaviour, recorded_behaviour
from .bots import bots_of, registered
from .comparison import CHANGED, Effects, TaskReport, Verdict, compared, sides
from .recording import RecordedTurn, Recording, age
from .steps import decided_anew, steps_of
from .turn import Policy, Setup, TurnRun

CONCURRENT = 8
"""Turns that are answered at the same time."""


Progress = Callable[[int, int], None]
"""Hears how many tasks of how many are done."""


class BacktestOptions(TypedDict, total=False):
    """What is backtested, and how."""

    since: str
    """Only tasks that began in the last 7d, 12h, 30m or 2w."""
    sample: int
    """So many sessions, drawn at random with `seed`."""
    seed: int
    model: str
    """Takes the place of the agents' own; "recorded" replies what was recorded."""
    steps: bool
    """Compare each decision by itself, made anew from its recorded state, instead of whole turns."""
    live_reads: bool
    """Run a tool that only reads where the recording has no result of its call."""
    effects: Policy
    """What another call without a recorded result does: `stop` ends the turn, `recorded-shape` gives it the result of
    the call of that tool whose arguments are most alike."""
    concurrency: int
    """Turns that are answered at the same time; 8."""
    on_progress: Progress


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """The outcome of a backtest; `skipped` says why tasks were left out."""

    tasks: Sequence[TaskReport]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, int]:
        """How many tasks have each verdict."""
        found = Counter(task.verdict for task in self.tasks)
        return {str(verdict): found[verdict] for verdict in reversed(Verdict)}

    @property
    def changed(self) -> list[TaskReport]:
        """The tasks that differ, the worst first."""
        order = [*Verdict]
        return sorted(
            (task for task in self.tasks if task.verdict != Verdict.SAME), key=lambda task: order.index(task.verdict)
        )

    @property
    def coverage(self) -> float | None:
        """The share of the calls that the recording could answer; None without calls."""
        answered: Counter[str] = Counter()
        for task in self.tasks:
            answered.update(task.answered)
        return answered["recording"] / answered.total() if answered else None

    @property
    def agreement(self) -> Estimate | None:
        """The share of decisions that are the same, or differ in words only; None where none were compared."""
        steps = [verdict for task in self.tasks for verdict in task.steps]
        return rate(sum(verdict not in CHANGED for verdict in steps), len(steps))

    @property
    def shares(self) -> dict[str, Estimate | None]:
        """The share of tasks with each verdict, with its interval."""
        return {name: rate(count, len(self.tasks)) for name, count in self.summary.items()}

    @property
    def is_changed(self) -> bool:
        """Whether a task fails, or makes other calls."""
        return any(task.verdict in CHANGED for task in self.tasks)

    def json(self) -> Json:
        """{"summary", "shares", "coverage", "agreement", "tasks", "skipped"}."""
        shares = {name: asdict(share) if share else None for name, share in self.shares.items()}
        return {
            "summary": self.summary,
            "shares": shares,
            "coverage": self.coverage,
            "agreement": asdict(self.agreement) if self.agreement else None,
            "tasks": [task.json() for task in self.tasks],
            "skipped": dict(self.skipped),
        }


async def backtest(
    storage: Storage,
    registry: Registry,
    modes: Mapping[str, ModeGraph],
    session_ids: Sequence[str],
    options: BacktestOptions,
) -> Backtest:
    """Answer the messages of recorded sessions anew with the agents of a registry, and compare.

    Raises:
        UnknownThread, ConfigurationError.
    """
    recording = Recording(storage, chat_graph(modes).copy({"checkpointer": storage.saver()}))
    turns = await _turns(recording, session_ids, options)
    setup = Setup(
        registry=registry,
        modes=modes,
        storage=storage,
        model=options.get("model", ""),
        live_reads=options.get("live_reads", False),
        effects=options.get("effects", "stop"),
        shapes=_shapes(turns),
    )
    limit, done = asyncio.Semaphore(options.get("concurrency", CONCURRENT)), 0
    on_progress = options.get("on_progress", _ignore)

    async def one(turn: RecordedTurn) -> TaskReport | None:
        nonlocal done
        async with limit:
            report = await (_steps(setup, recording, turn) if options.get("steps") else _turn(setup, turn))
        done += 1
        on_progress(done, len(turns))
        return report

    on_progress(0, len(turns))
    with registered(registry, await bots_of(storage, registry, turns)):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(turn)) for turn in turns]
    reports = [report for task in tasks if (report := task.result())]
    return Backtest(tasks=reports, skipped=recording.skipped)


def _ignore(done: int, total: int) -> None:
    """Nobody wants to know."""


async def _turns(recording: Recording, session_ids: Sequence[str], options: BacktestOptions) -> list[RecordedTurn]:
    after = time.time() - age(options["since"]) if options.get("since") else 0.0
    names = await recording.select(session_ids, after)
    if (sample := options.get("sample")) is not None and sample < len(names):
        names = sorted(random.Random(options.get("seed", 0)).sample(names, sample))
    return [turn for name in names for turn in await recording.turns(name, after)]


def _shapes(turns: Sequence[RecordedTurn]) -> dict[str, list[ToolCall]]:
    found: dict[str, list[ToolCall]] = {}
    for turn in turns:
        for call in turn.turn.tool_calls:
            if "success" in (call.outcome or {}):
                found.setdefault(call.name, []).append(call)
    return found


async def _steps(setup: Setup, recording: Recording, recorded: RecordedTurn) -> TaskReport | None:
    """The decisions of a turn, of which the worst is the task's; None where it has none that can be made anew."""
    if setup.registry.get(recorded.task.agent_id) is None:
        return await _turn(setup, recorded)
    made = [await decided_anew(setup, recorded, step) async for step in steps_of(recording, recorded)]
    if not made:
        recording.skipped[recorded.task.task_id] = "no_steps"
        return None
    worst = min(made, key=lambda step: [*Verdict].index(step.verdict))
    first = next((step.difference for step in made if step.difference), None)
    then = recorded_behaviour(recorded, setup.tools(recorded))
    return TaskReport(
        session_id=recorded.task.thread_id,
        task_id=recorded.task.task_id,
        verdict=worst.verdict,
        difference=first,
        effects=Effects.of(step.effects for step in made),
        message=recorded.turn.message,
        answers=(then.answer, ""),
        cost=sides(then.usage.get("cost"), None),
        tokens=sides(_tokens(then), None),
        seconds=sides(then.seconds, None),
        steps=[step.verdict for step in made],
    )


async def _turn(setup: Setup, recorded: RecordedTurn) -> TaskReport:
    if setup.registry.get(recorded.task.agent_id) is None:
        now = Behaviour(status="error", error=f"There is no agent {recorded.task.agent_id}.", usage={})
    else:
        now = await TurnRun(setup, recorded).run()
    then = recorded_behaviour(recorded, setup.tools(recorded))
    verdict, difference, effects = compared(then, now)
    return TaskReport(
        session_id=recorded.task.thread_id,
        task_id=recorded.task.task_id,
        verdict=verdict,
        difference=difference,
        effects=effects,
        message=recorded.turn.message,
        status=now.status,
        answers=(then.answer, now.answer),
        cost=sides(then.usage.get("cost"), now.usage.get("cost")),
        tokens=sides(_tokens(then), _tokens(now)),
        seconds=sides(then.seconds, now.seconds),
        answered=dict(Counter(call.answered for call in now.calls)),
    )


def _tokens(behaviour: Behaviour) -> int:
    return int(behaviour.usage.get("input", 0)) + int(behaviour.usage.get("output", 0))
