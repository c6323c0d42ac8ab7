"""The power of a backtest, its false alarms and its speed, over the shipped workflows; writes backtest.md here.

A scripted model follows a workflow as far as its prompt tells it to, and words and repeats some of it at random. Forty
regressions are planted one by one; the unchanged agent runs again and again.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool

import segue
from segue.core.agents import Agent
from segue.core.conversation import Role, Utterance
from segue.testing.backtest import Backtest
from segue.testing.backtest.comparison import CHANGED
from segue.testing.rehearsal.backends import find_backend
from segue.testing.rehearsal.participants import instructions, load_scenarios, load_workflow
from segue.testing.rehearsal.workflow import Call, Workflow, next_move
from segue.tools.bound_tool import BoundTool, Marks, current_call

HERE = Path(__file__).parent
WORKFLOWS = ("travel_change", "clinic_appointment", "device_return")
READS = ("find", "search", "quote", "verify", "get", "list", "check", "look")
SIZES = (2, 4, 6)
"""Sessions of a backtest: the smallest workflow has six."""
DRAWS = 20
"""Samples of each size, of which a regression is found in some share."""
PAIRS = 200
"""Of unchanged runs."""
SPEED_RUNS = 4
WORDINGS = ("{}", "{} Is there anything else?", "Sure. {}", "Of course! {}")
Noise = float


class WorkflowModel(BaseChatModel):
    """Follows those steps of a workflow that its prompt names; `noise` is the share of other wordings and calls."""

    workflow: Any
    noise: float = 0.0
    fault: str = ""
    names: Mapping[str, str] = {}
    """The tools under other names."""
    rng: Any = None

    @property
    def _llm_type(self) -> str:
        return "workflow"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        prompt = messages[0].text
        steps = tuple(step for step in self.workflow.procedure if step.description in prompt)
        said = [*utterances(messages, {new: old for old, new in self.names.items()})]
        move = next_move(self.workflow.model_copy(update={"procedure": steps}), said)
        if self.rng.random() < self.noise and isinstance(move, Call) and said[-1].role is Role.API:
            move = Call(said[-1].action, said[-1].action_input)
        if not isinstance(move, Call):
            text = move.text
            return AIMessage(self.rng.choice(WORDINGS).format(text) if self.rng.random() < 0.5 * self.noise else text)
        arguments = self._faulty(move)
        call = {"id": f"c{len(messages)}", "name": self.names.get(move.name, move.name), "args": arguments}
        return AIMessage("", tool_calls=[call])

    def _faulty(self, move: Call) -> dict[str, Any]:
        """The arguments, wrong where the model is a weaker one."""
        arguments = dict(move.arguments)
        for name, value in arguments.items():
            if self.fault == name and isinstance(value, str) and self.rng.random() < 0.5:
                return {**arguments, name: value[::-1]}
        return arguments


def utterances(messages: Sequence[BaseMessage], names: Mapping[str, str]) -> Iterator[Utterance]:
    """The conversation that a native prompt holds."""
    calls: dict[str, Any] = {}
    turn = 0
    for index, message in enumerate(messages):
        about: dict[str, Any] = {"index": index, "turn": turn}
        if message.type == "human":
            turn += 1
            yield Utterance(index=index, turn=turn, role=Role.USER, text=message.text)
        elif isinstance(message, AIMessage):
            calls |= {str(call["id"]): call for call in message.tool_calls}
            for call in message.tool_calls:
                name = names.get(call["name"], call["name"])
                yield Utterance(**about, role=Role.BOT, action=name, action_input=call["args"])
            if not message.tool_calls:
                yield Utterance(**about, role=Role.BOT, text=message.text)
        elif message.type == "tool":
            call = calls[str(getattr(message, "tool_call_id", ""))]
            form = json.loads(message.text)
            name = names.get(call["name"], call["name"])
            result = {"status_code": form["status"], "data": form["data"]}
            yield Utterance(**about, role=Role.API, action=name, action_input=call["args"], **result)


def tools_of(workflow: Workflow, names: Mapping[str, str], defaults: Mapping[str, str]) -> list[BoundTool]:
    """The workflow's backend as tools, each session with a state of its own; `defaults` are those of a parameter."""
    backend, states = find_backend(workflow.backend), dict[str, Any]()

    def tool(name: str) -> BoundTool:
        async def run(**arguments: Any) -> str:
            session = current_call.get().session_id
            given = {key: value for key, value in arguments.items() if key != "channel"}
            response = backend.call(states.setdefault(session, backend.initial(0)), name, given)
            states[session] = response.state
            return json.dumps({"status": response.status_code, "data": response.data})

        api, called = workflow.apis[name], names.get(name, name)
        channel = {"type": "string", "default": defaults.get(name, "phone")}
        own = dict(api.parameters)
        parameters = {**own, "type": "object", "properties": {**own.get("properties", {}), "channel": channel}}
        function = {"name": called, "description": api.description, "parameters": parameters}
        inner = StructuredTool(name=called, description=api.description, args_schema=parameters, coroutine=run)
        marks = Marks(read_only=name.startswith(READS), idempotent=True)
        spec = {"type": "function", "function": function}
        return BoundTool(inner=inner, marks=marks, spec=spec, check=dict, synchronous=False, origin=called)

    return [tool(name) for name in workflow.apis]


def agents_of(seed: int, noise: Noise, change: "Change | None" = None) -> list[Agent]:
    """An agent for each workflow; that of the change has a regression."""
    made = []
    for name in WORKFLOWS:
        workflow = load_workflow(name)
        mine = change if change and change.workflow == name else Change(name, "none")
        prompt = instructions(workflow).replace(mine.sentence, "") if mine.sentence else instructions(workflow)
        model = WorkflowModel(
            workflow=workflow, noise=noise, fault=mine.fault, names=mine.names, rng=random.Random(f"{seed}/{name}")
        )
        tools = tuple(tools_of(workflow, mine.names, mine.defaults))
        made.append(Agent(agent_id=name, prompt=prompt, model=model, tools=tools, protocol="native", mode="react"))
    return made


@dataclass(frozen=True)
class Change:
    """A regression of one workflow's agent."""

    workflow: str
    kind: str
    sentence: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def what(self) -> str:
        return self.sentence or self.fault or ", ".join([*self.names, *self.defaults])


def regressions() -> list[Change]:
    """Forty of four kinds: 16 sentences removed, 8 tools renamed, 8 defaults changed, 8 weaker models."""
    found: dict[str, list[Change]] = {"sentence": [], "renamed": [], "default": [], "weaker": []}
    for name in WORKFLOWS:
        workflow = load_workflow(name)
        found["sentence"] += [Change(name, "sentence", sentence=step.description) for step in workflow.procedure]
        found["renamed"] += [Change(name, "renamed", names={api: f"{api}_v2"}) for api in workflow.apis]
        found["default"] += [Change(name, "default", defaults={api: "web"}) for api in workflow.apis]
        parameters = {p for api in workflow.apis.values() for p in api.parameters.get("properties", {})}
        found["weaker"] += [Change(name, "weaker", fault=parameter) for parameter in sorted(parameters)]
    others = [each for name in ("renamed", "default", "weaker") for each in random.Random(1).sample(found[name], 8)]
    return [*random.Random(1).sample(found["sentence"], 16), *others]


Row = tuple[Change, list[float]]
"""A regression, and the shares in which it is found."""


async def record(database: Path, noise: Noise) -> None:
    """Hold every scenario of the workflows with the unchanged agents."""
    async with segue.open(database, agents=agents_of(0, noise)) as app:
        for name in WORKFLOWS:
            for scenario in load_scenarios(name):
                for line in scenario.persona.script:
                    if line != "[END]":
                        await app.ask(line, session_id=f"{name}.{scenario.name}", agent=name)


async def run(
    database: Path, sessions: Sequence[str], seed: int, noise: Noise, change: Change | None = None, **options: Any
) -> Backtest:
    """A backtest of the agents with a change, in all sessions or these."""
    async with segue.open(f"file:{database}?mode=ro", agents=agents_of(seed, noise, change)) as app:
        return await app.backtest(*sessions, **options)


def of_sessions(made: Backtest, sessions: Collection[str]) -> Backtest:
    """What the backtest of these sessions alone had found."""
    tasks = [task for task in made.tasks if task.session_id in sessions]
    baseline = of_sessions(made.baseline, sessions) if made.baseline else None
    return replace(made, tasks=tasks, baseline=baseline)


def found_in(made: Backtest, sessions: Sequence[str], size: int) -> float:
    """The share of samples of so many sessions that find a change."""
    rng = random.Random(size)
    draws = DRAWS if size < len(sessions) else 1
    return sum(of_sessions(made, {*rng.sample(sessions, size)}).is_changed for _ in range(draws)) / draws


@dataclass(frozen=True)
class Alarms:
    """Changes that are found although nothing changed: of pairs of runs, and of runs without a baseline."""

    of_pairs: int
    pairs: int
    alone: int
    runs: int

    def __str__(self) -> str:
        return (
            f"{self.of_pairs} of {self.pairs} pairs of {self.runs} runs, one the baseline of the other; without a "
            f"baseline {self.alone} of {self.runs} runs"
        )


async def false_alarms(database: Path, noise: Noise, repeats: int, steps: bool) -> Alarms:
    """What unchanged agents are found to have changed."""
    unchanged = [await run(database, (), seed, noise, steps=steps) for seed in range(1, repeats + 1)]
    every = [*combinations(unchanged, 2)]
    pairs = random.Random(0).sample(every, min(PAIRS, len(every)))
    of_pairs = sum(replace(new, baseline=old).is_changed for new, old in pairs)
    return Alarms(of_pairs, len(pairs), sum(each.is_changed for each in unchanged), repeats)


async def power(database: Path, noise: Noise, sessions: Sequence[str]) -> list[Row]:
    """Each regression, with how often it is found in samples of sessions, in all, and in all by their steps."""
    rows = []
    for place, change in enumerate(regressions()):
        own = [name for name in sessions if name.startswith(change.workflow)]
        turns, steps = [
            await run(
                database, own, 2000 + place, noise, change, baseline=agents_of(1000 + place, noise), steps=by_steps
            )
            for by_steps in (False, True)
        ]
        found = [found_in(turns, own, size) for size in SIZES]
        rows.append((change, [*found, float(turns.is_changed), float(steps.is_changed)]))
        print(change.workflow, change.kind, change.what[:60], rows[-1][1], flush=True)
    return rows


async def measure(folder: Path, noise: Noise, repeats: int) -> str:
    """The report's text."""
    database = folder / "segue.db"
    await record(database, noise)
    same = await run(database, (), 0, 0.0, model="recorded")
    assert {task.verdict for task in same.tasks} == {"same"}, same.summary
    sessions = sorted({task.session_id for task in same.tasks})
    rate, load = await speed(database), os.getloadavg()[0]
    by_turns, by_steps = [await false_alarms(database, noise, repeats, steps) for steps in (False, True)]
    rows = await power(database, noise, sessions)
    calls = sum(sum(task.answered.values()) for task in same.tasks)
    head = (
        f"{len(sessions)} sessions with {len(same.tasks)} turns and {calls} calls, recorded at a noise of {noise:.0%}."
    )
    return "\n".join(
        [
            "# What a backtest finds",
            "",
            f"Written by `python benchmarks/backtest.py`. {head}",
            "",
            f"- Unchanged, with the recording as the model: {len(same.tasks)} of {len(same.tasks)} turns the same.",
            f"- False alarms of unchanged agents: {by_turns}.",
            f"- The same with `--steps`: {by_steps}.",
            f"- {rate:.0f} turns a second with a scripted model, in one process, at a load of {load:.1f} on "
            f"{os.cpu_count()} processors.",
            "",
            f"| regressions of a kind | {' | '.join(f'{size} sessions' for size in SIZES)} | all, 6 to 8 | "
            "all, with `--steps` |",
            f"| --- |{' --: |' * (len(SIZES) + 2)}",
            *_table(rows),
            "",
            "| workflow | kind | what | found in all sessions | with `--steps` |",
            "| --- | --- | --- | --: | --: |",
            *(
                f"| {c.workflow} | {c.kind} | {c.what} | {_said(shares[-2])} | {_said(shares[-1])} |"
                for c, shares in rows
            ),
            "",
        ]
    )


def edited(agents: Sequence[Agent], seed: int) -> list[Agent]:
    """The agents after a harmless edit: of their tools' order, an unused tool, a prompt's spaces or words, a name."""

    def unused() -> str:
        """Say hello."""
        return "hello"

    def changed(agent: Agent) -> dict[str, Any]:
        match seed % 5:
            case 0:
                return {"tools": tuple(reversed(agent.tools))}
            case 1:
                return {"tools": (*agent.tools, StructuredTool.from_function(unused))}
            case 2:
                return {"prompt": agent.prompt.replace("\n", " \n\n")}
            case 3:
                return {"prompt": f"{agent.prompt}\nThank you for your care."}
            case _:
                return {"description": "Another description."}

    return [agent.model_copy(update=changed(agent)) for agent in agents]


def differing(made: Backtest) -> set[str]:
    """The tasks that make other calls than recorded."""
    return {task.task_id for task in made.tasks if task.verdict in CHANGED}


async def confirm(folder: Path, noise: Noise, edits: int) -> str:
    """How many regressions that change a recorded call a confirmed backtest finds, and how many harmless edits."""
    database = folder / "segue.db"
    await record(database, noise)
    every = await run(database, (), 0, 0.0, model="recorded")
    sessions = sorted({task.session_id for task in every.tasks})
    found, touching, turns = [], 0, 0
    for place, change in enumerate(regressions()):
        own = [name for name in sessions if name.startswith(change.workflow)]
        changed, unchanged = [await run(database, own, 0, 0.0, each) for each in (change, None)]
        touches = bool(differing(changed) - differing(unchanged))
        made = await run(database, own, 2000 + place, noise, change, confirm=agents_of(1000 + place, noise))
        assert made.confirmation
        turns += len(made.tasks) + made.confirmation.turns
        touching += touches
        found.append((touches, made.is_changed))
        print(change.workflow, change.kind, change.what[:50], touches, made.is_changed, flush=True)
    alarms = 0
    for seed in range(edits):
        async with segue.open(f"file:{database}?mode=ro", agents=edited(agents_of(5000 + seed, noise), seed)) as app:
            alarms += (await app.backtest(confirm=agents_of(7000 + seed, noise))).is_changed
    hits, others = sum(both == (True, True) for both in found), sum(both == (False, True) for both in found)
    return (
        f"Confirmed, at a noise of {noise:.0%}: {hits} of {touching} regressions that change a recorded call, and "
        f"{others} of the other {len(found) - touching}, with {turns / len(found):.0f} turns on average. "
        f"False alarms: {alarms} of {edits} harmless edits."
    )


async def speed(database: Path) -> float:
    """Turns a second, the best of several runs."""
    rates = []
    for _ in range(SPEED_RUNS):
        began = time.perf_counter()
        made = await run(database, (), 0, 0.0)
        rates.append(len(made.tasks) / (time.perf_counter() - began))
    return max(rates)


def _said(share: float) -> str:
    return "yes" if share else "no"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    for kind in dict.fromkeys(change.kind for change, _ in rows):
        of_kind = [shares for change, shares in rows if change.kind == kind]
        means = [sum(shares[place] for shares in of_kind) / len(of_kind) for place in range(len(SIZES) + 2)]
        yield f"| {kind} ({len(of_kind)}) | {' | '.join(f'{mean:.0%}' for mean in means)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument(
        "--repeats", type=int, default=21, help=f"runs of the unchanged agent; {PAIRS} pairs of them are compared"
    )
    parser.add_argument("--confirm", type=int, metavar="EDITS", help="measure --confirm instead, with so many edits")
    given = parser.parse_args()
    if given.confirm is not None:
        with tempfile.TemporaryDirectory(prefix="segue-backtest-") as folder:
            print(asyncio.run(confirm(Path(folder), given.noise, given.confirm)))
        return
    with tempfile.TemporaryDirectory(prefix="segue-backtest-") as folder:
        text = asyncio.run(measure(Path(folder), given.noise, given.repeats))
    (HERE / "backtest.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
