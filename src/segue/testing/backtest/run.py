"""Backtests: recorded turns answered anew, compared, summed up and reported."""

import asyncio
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ...checkpoints.storage import Storage
from ...core.agents import Agent, load_agents
from ...core.digests import definition_changes
from ...core.errors import SegueError, UnknownAgent, listed
from ...core.models import Model
from ...core.provenance import discloses
from ...core.records import BEST, Json, Task
from ...nodes.chat import ModeGraph
from ...nodes.context import as_text
from ...prompts.catalogue import backtest_text, comma
from ...registry import Registry
from ...runtime.modes import chat_graph
from ..cassette.cassette import ToolCall
from ..rehearsal.grades import Case, case_of, judge_named
from ..rehearsal.report import SIGNIFICANT, Estimate, canonical, environment, mcnemar, rate, rule_success
from ..rehearsal.simulate import conversation_in, replace_text
from .comparison import (
    CHANGED,
    MESSAGE_CHARS,
    Behaviour,
    Difference,
    Effects,
    Sides,
    TaskReport,
    Verdict,
    compared,
    judged,
    recorded_behaviour,
    shortened,
)
from .confirmation import TASKS, TIMES, Confirmation, choose, confirm
from .recording import RecordedTurn, Recording, age
from .turn import (
    RECORDED,
    Policy,
    Setup,
    TurnRun,
    bots_of,
    check_author,
    check_policy,
    decide_again,
    failed,
    registered,
    steps_of,
)

# What a backtest comes to, in a sentence.


@dataclass(frozen=True)
class Change:
    """Of paired tasks, how many got worse and better, and the p-value of McNemar's exact test."""

    worse: int
    better: int

    @property
    def p_value(self) -> float:
        return mcnemar(self.better, self.worse)

    @property
    def exceeds_noise(self) -> bool:
        """Whether so much worse would be rare between two equal agents."""
        return self.worse > self.better and self.p_value < SIGNIFICANT

    def json(self) -> Json:
        """{"worse", "better", "p_value", "exceeds_noise"}."""
        return {**asdict(self), "p_value": self.p_value, "exceeds_noise": self.exceeds_noise}

    def describe(self, language: str) -> str:
        """Whether more changes than with the baseline."""
        name = "exceeds_noise" if self.exceeds_noise else "is_noise"
        return backtest_text(name, language, worse=self.worse, better=self.better, p=f"{self.p_value:.3g}")


def conclusion(summary: Mapping[str, int], change: "Change | Confirmation | None", language: str) -> str:
    """What came out: how many tasks have each verdict, and whether that is more than chance, where it was tried."""
    total, found = sum(summary.values()), [verdict for verdict in Verdict if summary.get(verdict)]
    one = "_one" if total == 1 else ""
    if not found:
        return backtest_text("nothing_compared", language)
    if found == [Verdict.SAME]:
        head = backtest_text(f"all_same{one}", language, n=total)
    else:
        parts = [backtest_text(f"would_{verdict}", language, n=summary[verdict]) for verdict in found]
        listed = comma(language).join(parts)
        head = backtest_text(f"of_tasks{one}", language, n=total, parts=listed)
    return " ".join([head, *([change.describe(language)] if change else [])])


# Whether tasks did what was asked, then and now: by rating, by the scenario of a rehearsal, or by the judge.

GOOD, POOR = (BEST, BEST - 1), (1, 2)
"""Ratings of success and of failure."""


def by_rating(task: Task, report: TaskReport) -> TaskReport:
    """The report of a rated task with its success then; now it is known where nothing differs, and by a judge."""
    if task.rating not in (*GOOD, *POOR):
        return report
    then, now = task.rating in GOOD, report.success[1]
    if report.verdict in (Verdict.SAME, Verdict.ERROR):
        now = then and report.verdict is Verdict.SAME
    return replace(report, success=(then, now))


async def by_scenario(
    storage: Storage, turns: Iterable[RecordedTurn], reports: Sequence[TaskReport]
) -> list[TaskReport]:
    """The reports, in which the last task of a rehearsed conversation has the conversation's success."""
    found = {report.task_id: report for report in reports}
    for session in dict.fromkeys(turn.task.session_id for turn in turns):
        own = [report for report in reports if report.session_id == session]
        talk = await storage.tasks.conversation_of(session)
        if talk is None or len(own) < len(await storage.tasks.task_ids(session)):
            continue
        conversation = conversation_in(talk, await storage.events.read(talk.task_id))
        with suppress(SegueError):  # its workflow is not here any more
            case = case_of(conversation)
            then = rule_success(case.calls, case.state_differences, case.expectation)
            if conversation.ending and then is not None:
                found[own[-1].task_id] = replace(own[-1], success=(then, _now(case, then, own)))
    return [*found.values()]


def _now(case: Case, then: bool, own: Sequence[TaskReport]) -> bool | None:
    """Whether the conversation succeeds with the calls of now; None where they do not tell."""
    if not any(report.verdict in CHANGED for report in own):
        return then
    if any(report.verdict is Verdict.ERROR for report in own):
        return False
    if any(report.steps or report.status != "done" for report in own):
        return None
    made = Counter((call["name"], canonical(call["arguments"])) for report in own for call in report.calls)
    expected = case.expectation.calls
    exact = Counter((name, canonical(arguments)) for name, arguments in expected if arguments is not None)
    further = Counter(name for name, _ in (made - exact).elements())
    if exact - made or Counter(name for name, arguments in expected if arguments is None) - further:
        return False
    if case.expectation.state is not None and any(report.effects for report in own):
        return None
    return not case.state_differences


# Backtests: recorded turns answered anew, compared, and summed up.

_BETWEEN = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")
GROUPS = 3
"""Groups of differences for which a confirmation is estimated."""
CONCURRENT = 8
"""Turns that are answered at the same time."""


@dataclass(frozen=True)
class Cost:
    """What a backtest will cost, estimated from what its tasks cost when they were recorded.

    `most_turns` has the most that a confirmation may take; `tokens` and `cost` (0 where it is not known) are of those.
    """

    turns: int
    most_turns: int
    tokens: int
    cost: float

    def describe(self, language: str) -> str:
        """It in a sentence or two."""
        name = "estimate" if self.cost else "estimate_tokens"
        about = {"turns": self.turns, "most": self.most_turns, "tokens": self.tokens}
        return backtest_text(name, language, cost=f"{self.cost:.2f}", **about)


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
    confirm: Sequence[Agent]
    """The unchanged agents, who answer up to five differing tasks of each group five times, as the new ones do again:
    only what is then more frequent with the new ones counts."""
    ablate: bool
    """Leave out each sentence of the agents' prompts in turn, to find those that no recorded task rests on."""
    on_cost: Callable[[Cost], None]
    """Hears the estimated cost before the first turn, unless no language model answers; an exception of it ends the
    backtest."""
    concurrency: int
    """Turns that are answered at the same time; 8."""
    on_progress: Progress


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """The outcome of a backtest; `skipped` says why tasks were left out, `baseline` is that of the unchanged agents."""

    tasks: Sequence[TaskReport]
    skipped: Mapping[str, str] = field(default_factory=dict)
    baseline: "Backtest | None" = None
    confirmation: Confirmation | None = None
    models: Mapping[str, bool] = field(default_factory=dict)
    """The models that answered, and whether they read the prompt."""
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What differs in the definition of each agent, where the old one is known: fields of `Agent`, and `tools.NAME`."""

    unused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """With `ablate`, the sentences of each agent's prompt without which no recorded task differs."""

    @property
    def untried(self) -> list[str]:
        """The tools that are changed, and that no recorded task of their agent calls."""
        called = {(task.agent_id, name) for task in self.tasks for name in task.recorded}
        changed = ((agent, name) for agent, names in self.changes.items() for name in names if "tools." in name)
        found = ((agent, name.removeprefix("tools.")) for agent, name in changed)
        return sorted({name for agent, name in found if (agent, name) not in called})

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
    def groups(self) -> list[tuple[str, str, list[TaskReport]]]:
        """The tasks that differ by what their first difference is: its kind, the tool that it is of, and the tasks."""
        found: dict[tuple[str, str], list[TaskReport]] = {}
        for task in self.differing:
            if task.difference and task.verdict in CHANGED:
                found.setdefault((task.difference.change, task.difference.tool), []).append(task)
        return sorted(((*about, tasks) for about, tasks in found.items()), key=lambda group: -len(group[2]))

    @property
    def tools(self) -> dict[str, int]:
        """How many recorded calls each tool has, in the tasks that were tried."""
        found: Counter[str] = Counter()
        for task in self.tasks:
            found.update(task.recorded)
        return dict(found)

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
        return Change(known.count((True, False)), known.count((False, True))) if known else None

    @property
    def beyond_baseline(self) -> Change | None:
        """The tasks that change only now, and only with the unchanged agents; None without a baseline."""
        if self.baseline is None:
            return None
        before = {task.task_id: task.verdict in CHANGED for task in self.baseline.tasks}
        only_now, only_before = 0, 0
        for task in self.tasks:
            changed = task.verdict in CHANGED
            changed_before = before.get(task.task_id, changed)
            if changed and not changed_before:
                only_now += 1
            elif changed_before and not changed:
                only_before += 1
        return Change(only_now, only_before)

    @property
    def is_changed(self) -> bool:
        """Whether a task fails or makes other calls; with a baseline or confirmation, more than by chance."""
        if self.confirmation:
            return self.confirmation.exceeds_noise
        if change := self.beyond_baseline:
            return change.exceeds_noise
        return any(task.verdict in CHANGED for task in self.tasks)

    def conclusion(self, language: str = "en") -> str:
        """What came out, in a sentence or two."""
        return conclusion(self.summary, self.confirmation or self.beyond_baseline, language)

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
            "confirmation": self.confirmation.json() if self.confirmation else None,
            "models": dict(self.models),
            "changes": {agent: [*changes] for agent, changes in self.changes.items()},
            "untried": self.untried,
            "unused": {agent: [*sentences] for agent, sentences in self.unused.items()},
            "ran": self.ran,
            "tools": self.tools,
            "groups": [
                {"change": change, "tool": tool, "tasks": [task.task_id for task in tasks]}
                for change, tool, tasks in self.groups
            ],
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
    """Answer the messages of recorded sessions anew with the agents of a registry, and compare."""
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
    if "on_cost" in options and any(_models(setup, turns).values()):
        options["on_cost"](_cost(turns, setup.registry, options))
    baseline = None
    if "baseline" in options:
        unchanged = current.changed(options["baseline"])
        before = replace(setup, registry=unchanged, model="", judge=None)
        baseline = Backtest(tasks=await _tasks(before, recording, turns, {**options, "on_progress": _ignore}))
        setup = replace(setup, unchanged=unchanged)
    if "confirm" in options:
        setup = replace(setup, unchanged=current.changed(options["confirm"]))
    made = Backtest(
        tasks=await _tasks(setup, recording, turns, options),
        skipped=recording.skipped,
        baseline=baseline,
        models=_models(setup, turns),
        changes=_changes(setup, turns),
    )
    if "confirm" in options and setup.unchanged:
        old = replace(setup, registry=setup.unchanged, model="")
        made = replace(made, confirmation=await _confirmed(made, setup, old, recording, turns, options))
    if options.get("ablate"):
        made = replace(made, unused=await _unused(made, setup, recording, turns, options))
    return made


async def estimate(
    storage: Storage,
    registry: Registry,
    modes: Mapping[str, ModeGraph],
    session_ids: Sequence[str],
    options: BacktestOptions,
) -> Cost:
    """What this backtest would cost; nothing is answered."""
    recording = Recording(storage, chat_graph(modes).copy({"checkpointer": storage.saver()}))
    turns = await _turns(recording, session_ids, options)
    return _cost(turns, registry.changed(options.get("agents", ())), options)


def sentences(prompt: str) -> list[str]:
    """The sentences and lines of a prompt, as they are in it."""
    return [part for part in (piece.strip() for piece in _BETWEEN.split(prompt)) if any(map(str.isalnum, part))]


async def _unused(
    made: Backtest, setup: Setup, recording: Recording, turns: Sequence[RecordedTurn], options: BacktestOptions
) -> dict[str, list[str]]:
    """The sentences without which no task differs that is as recorded with them."""
    same = {task.task_id for task in made.tasks if task.verdict not in CHANGED}
    found: dict[str, list[str]] = {}
    for name in {turn.task.agent_id: turn for turn in turns}:
        agent, own = setup.registry.get(name), [turn for turn in turns if turn.task.agent_id == name]
        if agent is None:
            continue
        for sentence in sentences(agent.prompt):
            without = agent.model_copy(update={"prompt": agent.prompt.replace(sentence, "")})
            shorter = replace(setup, registry=setup.registry.changed([without]))
            tasks = await _tasks(shorter, recording, own, {**options, "on_progress": _ignore})
            if not any(task.verdict in CHANGED and task.task_id in same for task in tasks):
                found.setdefault(name, []).append(sentence)
    return found


def _ablations(turns: Sequence[RecordedTurn], registry: Registry) -> int:
    """How many turns it takes to leave out each sentence."""
    agents = Counter(turn.task.agent_id for turn in turns)
    return sum(
        count * len(sentences(registry.agent(name).prompt)) for name, count in agents.items() if name in registry
    )


def _cost(turns: Sequence[RecordedTurn], registry: Registry, options: BacktestOptions) -> Cost:
    """The estimate for these turns: each is answered once, with a baseline twice, and some are confirmed."""
    tokens = sum(int(turn.usage.get("input", 0)) + int(turn.usage.get("output", 0)) for turn in turns)
    cost = sum(float(turn.usage.get("cost") or 0.0) for turn in turns)
    once = len(turns) * (2 if "baseline" in options else 1)
    once += _ablations(turns, registry) if options.get("ablate") else 0
    most = once + (2 * TIMES * min(len(turns), GROUPS * TASKS) if "confirm" in options else 0)
    share = most / max(len(turns), 1)
    return Cost(once, most, round(tokens * share), cost * share)


async def _confirmed(
    made: Backtest,
    new: Setup,
    old: Setup,
    recording: Recording,
    turns: Sequence[RecordedTurn],
    options: BacktestOptions,
) -> Confirmation:
    """Answer tasks of each group of differences again, by either agents."""
    groups = choose(made.groups)
    ids = {task.task_id for _, _, tasks in groups for task in tasks}
    again = [turn for turn in turns if turn.task.task_id in ids]
    on_progress, done = options.get("on_progress", _ignore), 0
    passes: tuple[list[list[TaskReport]], list[list[TaskReport]]] = ([], [])
    for _ in range(TIMES if again else 0):
        for found, setup in zip(passes, (new, old), strict=True):
            found.append(await _tasks(setup, recording, again, {**options, "on_progress": _ignore}))
            on_progress(done := done + len(again), 2 * TIMES * len(again))
    return confirm(groups, *passes)


def _changes(setup: Setup, turns: Sequence[RecordedTurn]) -> dict[str, list[str]]:
    """What differs in the definitions of these turns' agents, where the old ones are known, or their file still is."""
    found: dict[str, list[str]] = {}
    for task in {turn.task.agent_id: turn.task for turn in turns}.values():
        new, old = setup.registry.get(task.agent_id), setup.unchanged
        if old is None and task.agents_file and Path(task.agents_file).is_file():
            with suppress(SegueError):
                old = Registry(load_agents(task.agents_file)).versions(task.agent_id).get(task.agent_version or "")
        before = old.get(task.agent_id) if old else None
        if old and before and new:
            tools = old.tools_for(before).values(), setup.registry.tools_for(new).values()
            if changes := definition_changes(before, new, *tools):
                found[task.agent_id] = changes
    return found


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
    made = [await decide_again(setup, recorded, step) async for step in steps_of(recording, recorded)]
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
        session_id=recorded.task.session_id,
        task_id=recorded.task.task_id,
        agent_id=recorded.task.agent_id,
        verdict=verdict,
        difference=difference,
        effects=effects,
        message=recorded.turn.message,
        recorded=dict(Counter(call.name for call in then.calls)),
        answers=(then.answer, now.answer if now else ""),
        cost=Sides(then.usage.get("cost"), now.usage.get("cost") if now else None),
        tokens=Sides(_tokens(then), _tokens(now) if now else None),
        seconds=Sides(then.seconds, now.seconds if now else None),
        **more,
    )


def _tokens(behaviour: Behaviour) -> int:
    return int(behaviour.usage.get("input", 0)) + int(behaviour.usage.get("output", 0))


# A backtest's report: JSON, Markdown, and one page of HTML that loads nothing.

TEMPLATES = Path(__file__).parent / "templates"


def write_report(made: Backtest, folder: Path, language: str = "en") -> list[Path]:
    """Write backtest.json, backtest.md and backtest.html into a folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    rendered = partial(_rendered, made=made, language=language)
    texts = {
        "backtest.json": json.dumps(made.json(), ensure_ascii=False, indent=2) + "\n",
        "backtest.md": rendered("backtest.md.j2"),
        "backtest.html": rendered("backtest.html.j2"),
    }
    return [replace_text(folder / name, text) for name, text in texts.items()]


def _rendered(template: str, made: Backtest, language: str) -> str:
    def say(name: str, /, **slots: object) -> str:
        return backtest_text(name, language, **slots)

    def about(verdict: str) -> str:
        return backtest_text(f"about_{verdict}", language)

    shared = {"made": made, "say": say, "about": about, "language": language, "effects": [*_effects(made)]}
    shared |= {"notes": notes(made, language), "shown": _shown, "as_text": as_text}
    return environment(TEMPLATES).get_template(template).render(**shared)


def notes(made: Backtest, language: str) -> list[str]:
    """What is to be known beside the conclusion: what was not tried, how much is known, and what was left out."""

    def say(name: str, **slots: object) -> str:
        return backtest_text(name, language, **slots)

    ran = ", ".join(f"{name} {count}" for name, count in sorted(made.ran.items()))
    found = [say("reads_ran", n=sum(made.ran.values()), tools=ran) if ran else say("nothing_ran")]
    blind = [model for model, reads_prompt in made.models.items() if not reads_prompt]
    found += [say("recorded_replies") if model == RECORDED else say("no_prompt", model=model) for model in blind]
    if made.coverage is not None:
        found.append(say("coverage", share=f"{made.coverage:.0%}"))
    found += [say("static_changes", agent=agent, changes=listed(changes)) for agent, changes in made.changes.items()]
    if made.untried:
        found.append(say("untried", tools=listed(made.untried)))
    found += [say("unused", agent=agent, sentences=" · ".join(unused)) for agent, unused in made.unused.items()]
    if made.tools:
        by_tool = sorted(made.tools.items(), key=lambda tool: (-tool[1], tool[0]))
        found.append(say("calls_per_tool", tools=", ".join(f"{name} {count}" for name, count in by_tool)))
    for kind, tool, tasks in made.groups:
        if len(tasks) > 1:
            example = shortened(tasks[0].message, MESSAGE_CHARS)
            found.append(say(f"group_{kind}", n=len(tasks), tool=tool, example=example))
    if made.confirmation:
        found += [each.describe(language) for each in made.confirmation.all]
    if made.stand_ins:
        found.append(say("stood_in", n=made.stand_ins))
    if change := made.success:
        found.append(say("successes", worse=change.worse, better=change.better, p=f"{change.p_value:.3g}"))
    if share := made.agreement:
        found.append(say("agreement", share=f"{share.value:.0%} ({share.low:.0%} – {share.high:.0%})"))
    if made.skipped:
        counts = Counter(made.skipped.values()).items()
        found.append(say("skipped", counts=", ".join(f"{say(why)} {count}" for why, count in counts)))
    return found


def _effects(made: Backtest) -> Iterator[Json]:
    """Each effect that differs: {"task", "message", "kind", "name", "then", "now"}."""
    for task in made.differing:
        yield from _of_task(task)


def _of_task(task: TaskReport) -> Iterator[Json]:
    about = {"task": task.task_id, "message": shortened(task.message, MESSAGE_CHARS)}
    for call in task.effects.changed:
        now, then = _shown(call["now"]), _shown(call["then"])
        yield {**about, "kind": "changed_effect", "name": call["name"], "then": then, "now": now}
    for call in task.effects.added:
        yield {**about, "kind": "added", "name": call["name"], "then": "–", "now": _shown(call["arguments"])}
    for call in task.effects.dropped:
        yield {**about, "kind": "dropped", "name": call["name"], "then": _shown(call["arguments"]), "now": "–"}


def _shown(arguments: Json) -> str:
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
