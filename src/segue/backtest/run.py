"""Backtests: recorded turns answered anew, compared, and summed up."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from typing_extensions import TypedDict

from ..checkpoints.storage import Storage
from ..core.agents import Agent
from ..core.disclosure import discloses
from ..core.errors import SegueError, UnknownAgent
from ..core.models import Model
from ..core.records import Json
from ..nodes.chat.run_mode import ModeGraph
from ..registry import Registry
from ..rehearsal.cassette.cassette import ToolCall
from ..rehearsal.report.judge import judge_named
from ..rehearsal.report.statistics import Estimate, rate
from ..runtime.modes import chat_graph
from .behaviour import Behaviour, recorded_behaviour
from .bots import bots_of, registered
from .comparison import CHANGED, Difference, Effects, Sides, TaskReport, Verdict, compared
from .conclusion import Change, conclusion
from .judge import judged
from .recording import RecordedTurn, Recording, age
from .stand_in import Policy, check_author, check_policy
from .steps import decided_anew, steps_of
from .success import by_rating, by_scenario
from .turn import RECORDED, Setup, TurnRun, failed

CONCURRENT = 8
"""Turns that are answered at the same time."""


Progress = Callable[[int, int], None]
"""Hears how many tasks of how many are done."""


class BacktestOptions(TypedDict, total=False):
    """What is backtested, and how. The database is only read, and no call with an effect runs.

    Raises UnknownThread, and ConfigurationError where an option is wrong.
    """

    agents: Sequence[Agent]
    """Take the place of the app's agents of their ids, which are then known as they were."""
    session_prefix: str
    """Only sessions whose names begin so."""
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
    """Run a tool that only reads, and only read then, where the recording has no result of its call."""
    effects: Policy
    """What another call without a recorded result does: `stop` ends the turn, `recorded-shape` gives it the result of
    the call of that tool whose arguments are most alike, `model` one that the judge, else the agent's model writes."""
    judge: str | Model
    """A language model that decides whether other words say the same, and whether each version does what was asked."""
    baseline: Sequence[Agent]
    """The unchanged agents, whose own changes by chance are taken into account."""
    concurrency: int
    """Turns that are answered at the same time; 8."""
    on_progress: Progress


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """The outcome of a backtest; `skipped` says why tasks were left out, `baseline` is that of the unchanged agents."""

    tasks: Sequence[TaskReport]
    skipped: Mapping[str, str] = field(default_factory=dict)
    baseline: "Backtest | None" = None
    models: Mapping[str, bool] = field(default_factory=dict)
    """The models that answered, and whether they read the prompt."""

    @property
    def summary(self) -> dict[str, int]:
        """How many tasks have each verdict."""
        found = Counter(task.verdict for task in self.tasks)
        return {str(verdict): found[verdict] for verdict in reversed(Verdict)}

    @property
    def differing(self) -> list[TaskReport]:
        """The tasks that differ, the worst first."""
        order = [*Verdict]
        differ = [task for task in self.tasks if task.verdict is not Verdict.SAME]
        return sorted(differ, key=lambda task: order.index(task.verdict))

    @property
    def coverage(self) -> float | None:
        """The share of the calls that the recording could answer; None without calls."""
        answered: Counter[str] = Counter()
        for task in self.tasks:
            answered.update(task.answered)
        return answered["recording"] / answered.total() if answered else None

    @property
    def stand_ins(self) -> int:
        """How many calls a stand-in answered."""
        return sum(len(task.stand_ins) for task in self.tasks)

    @property
    def ran(self) -> dict[str, int]:
        """How many calls of each tool were really carried out, in the baseline's turns, too."""
        found: Counter[str] = Counter()
        for task in [*self.tasks, *(self.baseline.tasks if self.baseline else ())]:
            found.update(task.ran)
        return dict(found)

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
    def success(self) -> Change | None:
        """How the success of tasks changed, where it is known: by rating, rehearsal or judge; None where it is not."""
        known = [task.success for task in self.tasks if None not in task.success]
        if not known:
            return None
        return Change(
            sum(then is True and not now for then, now in known), sum(now is True and not then for then, now in known)
        )

    @property
    def beyond_baseline(self) -> Change | None:
        """The tasks that change only now, and only with the unchanged agents; None without a baseline."""
        if self.baseline is None:
            return None
        before = {task.task_id: task.verdict in CHANGED for task in self.baseline.tasks}
        pairs = [(before[t.task_id], t.verdict in CHANGED) for t in self.tasks if t.task_id in before]
        return Change(sum(now and not then for then, now in pairs), sum(then and not now for then, now in pairs))

    @property
    def is_changed(self) -> bool:
        """Whether a task fails or makes other calls; with a baseline, whether more do than by chance."""
        if change := self.beyond_baseline:
            return change.exceeds_noise
        return any(task.verdict in CHANGED for task in self.tasks)

    def conclusion(self, language: str = "en") -> str:
        """What came out, in a sentence or two."""
        return conclusion(self.summary, self.beyond_baseline, language)

    def json(self) -> Json:
        """Its parts by name: "summary", "shares", "coverage", "agreement", "success", "ran", "tasks" and so on."""
        shares = {name: asdict(share) if share else None for name, share in self.shares.items()}
        change = self.beyond_baseline
        return {
            "summary": self.summary,
            "shares": shares,
            "coverage": self.coverage,
            "agreement": asdict(self.agreement) if self.agreement else None,
            "success": self.success.json() if self.success else None,
            "baseline": {"summary": self.baseline.summary, **change.json()} if self.baseline and change else None,
            "models": dict(self.models),
            "ran": self.ran,
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
        UnknownThread, UnknownTool, ConfigurationError.
    """
    current, registry = registry, registry.changed(options.get("agents", ()))
    for agent in options.get("agents", ()):
        registry.tools_for(agent)
    policy = options.get("effects", "stop")
    check_policy(policy)
    recording = Recording(storage, chat_graph(modes).copy({"checkpointer": storage.saver()}))
    turns = await _turns(recording, session_ids, options)
    named = options.get("judge")
    judge = judge_named(named) if isinstance(named, str) and named else named or None
    setup = Setup(
        registry=registry,
        modes=modes,
        storage=storage,
        model=options.get("model", ""),
        live_reads=options.get("live_reads", False),
        effects=policy,
        shapes=_shapes(turns),
        judge=judge,
        author=judge,
        unchanged=current if "agents" in options else None,
    )
    if policy == "model":
        setup = replace(setup, private=_private(setup, turns))
        for turn in {turn.task.agent_id: turn for turn in turns if turn.task.agent_id in registry}.values():
            check_author(setup.author_of(turn))
    baseline = None
    if "baseline" in options:
        unchanged = current.changed(options["baseline"])
        before = replace(setup, registry=unchanged, model="", judge=None)
        baseline = Backtest(tasks=await _tasks(before, recording, turns, {**options, "on_progress": _ignore}))
        setup = replace(setup, unchanged=unchanged)
    tasks = await _tasks(setup, recording, turns, options)
    return Backtest(tasks=tasks, skipped=recording.skipped, baseline=baseline, models=_models(setup, turns))


def _models(setup: Setup, turns: Sequence[RecordedTurn]) -> dict[str, bool]:
    """The models that answered these turns, and whether they read the prompt."""
    if setup.model == RECORDED:
        return {RECORDED: False}
    known = [turn for turn in turns if turn.task.agent_id in setup.registry]
    found: dict[str, bool] = {}
    for turn in {(turn.task.agent_id, setup.model_of(turn)): turn for turn in known}.values():
        with suppress(SegueError):  # its tasks say why
            model = setup.registry.model_for(setup.agent(turn), setup.model_of(turn))
            found[model.name] = model.is_language_model
    return found


async def _tasks(
    setup: Setup, recording: Recording, turns: Sequence[RecordedTurn], options: BacktestOptions
) -> list[TaskReport]:
    """The reports of the turns, in their order."""
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
    with registered(setup.registry, await bots_of(setup.storage, setup.registry, turns)):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(turn)) for turn in turns]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
    reports = [report for task in tasks if (report := task.result())]
    return await by_scenario(setup.storage, turns, reports)


def _ignore(done: int, total: int) -> None:
    """Nobody wants to know."""


async def _turns(recording: Recording, session_ids: Sequence[str], options: BacktestOptions) -> list[RecordedTurn]:
    after = time.time() - age(options["since"]) if options.get("since") else 0.0
    names = await recording.select(session_ids, after, options.get("session_prefix", ""))
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


def _private(setup: Setup, turns: Sequence[RecordedTurn]) -> set[int]:
    """The ids of the recorded calls that hold hidden or secret values of their session."""
    found: set[int] = set()
    for turn in turns:
        values = turn.private({**setup.tools_then(turn), **setup.tools(turn)})
        for call in turn.turn.tool_calls if values else ():
            if any(discloses([call.arguments, call.outcome], value, ()) for value in values):
                found.add(id(call))
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
    then = recorded_behaviour(recorded, setup.tools_then(recorded))
    found = worst.verdict, first, Effects.of(step.effects for step in made)
    report = _report(recorded, then, None, found, steps=[step.verdict for step in made])
    return by_rating(recorded.task, report)


async def _turn(setup: Setup, recorded: RecordedTurn) -> TaskReport:
    run = None
    if setup.registry.get(recorded.task.agent_id) is None:
        now = failed(UnknownAgent(recorded.task.agent_id, setup.registry), recorded)
    else:
        run = TurnRun(setup, recorded)
        now = await run.run()
    then = recorded_behaviour(recorded, setup.tools_then(recorded))
    found = compared(then, now)
    report = _report(
        recorded,
        then,
        now,
        found,
        status=now.status,
        answered=dict(Counter(call.answered for call in now.calls)),
        calls=[call.json() for call in now.ran],
        ran=dict(Counter(call.name for call in now.calls if call.answered == "live")),
        stand_ins=[{**call.json(), "result": call.stand_in} for call in now.calls if call.answered == "stand_in"],
    )
    if setup.judge and report.verdict is not Verdict.SAME:
        agent = setup.registry.get(recorded.task.agent_id)
        is_private = run.is_private if run else lambda value: False
        report = await judged(setup.judge, recorded, agent.prompt if agent else "", then, now, report, is_private)
    return by_rating(recorded.task, report)


def _report(
    recorded: RecordedTurn,
    then: Behaviour,
    now: Behaviour | None,
    found: tuple[Verdict, Difference | None, Effects],
    **more: Any,
) -> TaskReport:
    """The report of a task; without `now` only its decisions were compared."""
    verdict, difference, effects = found
    return TaskReport(
        session_id=recorded.task.thread_id,
        task_id=recorded.task.task_id,
        agent_id=recorded.task.agent_id,
        verdict=verdict,
        difference=difference,
        effects=effects,
        message=recorded.turn.message,
        answers=(then.answer, now.answer if now else ""),
        cost=Sides(then.usage.get("cost"), now.usage.get("cost") if now else None),
        tokens=Sides(_tokens(then), _tokens(now) if now else None),
        seconds=Sides(then.seconds, now.seconds if now else None),
        **more,
    )


def _tokens(behaviour: Behaviour) -> int:
    return int(behaviour.usage.get("input", 0)) + int(behaviour.usage.get("output", 0))
