"""What exists outside: the user's `World` over a staging system, its snapshots, and scenarios."""

import importlib
import inspect
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path, PurePath
from traceback import extract_tb
from typing import Any, Protocol, Self
from uuid import UUID

from ...app import App
from ...core.agents import Agent
from ...core.conversation import Conversation, ConversationConfig, Role, Utterance
from ...core.errors import ConfigurationError, MissingExtra
from ...core.records import Json
from ...prompts.catalogue import chaos_text, language_named
from ..cassette import Cassette
from ..cassette.cassette import FunctionCall, ModelCall, Reply, ToolCall, Turn
from ..rehearsal.participants import load_scenarios, with_workflow
from ..rehearsal.simulate import converse

# Scenarios of rehearsals as sessions: the scripted user and bot talk once; their calls become a model's replies.

MODE = "react"


async def record_scenarios(app: App, named: str, seed: int) -> dict[str, Cassette]:
    """The sessions of a workflow's scenarios by their names, such as travel_change:fee_declined, or of one of them.

    The workflow's backend answers the calls of this conversation; no tool runs.
    """
    workflow, _, scenario = named.partition(":")
    names = [scenario] if scenario else [found.name for found in load_scenarios(workflow)]
    held = {f"{workflow}:{name}": await _held(app, workflow, name, seed) for name in names}
    agent = _agent_for(app, workflow, held.values())
    return {name: cassette_of(conversation, agent) for name, conversation in held.items()}


async def _held(app: App, workflow: str, scenario: str, seed: int) -> Conversation:
    config = with_workflow(ConversationConfig(workflow=workflow, scenario=scenario, seed=seed))
    return await converse(app, config, conversation_id=f"{Path(workflow).stem}.{scenario}")


def _agent_for(app: App, workflow: str, conversations: Iterable[Conversation]) -> Agent:
    """The first agent that has every tool that is called."""
    called = {said.action: None for held in conversations for said in held.utterances if said.is_action}
    missing = [*called]
    for agent in map(app.agents.agent, app.agents):
        try:
            lacks = [name for name in called if name not in app.agents.tools_for(agent)]
        except MissingExtra:
            continue
        if not lacks:
            return agent
        missing = min(missing, lacks, key=len)
    raise ConfigurationError(
        "No agent has the tools that the workflow {workflow} calls; missing: {names}. Name an agents file "
        "that has them with --agents.",
        workflow=workflow,
        names=", ".join(missing),
    )


def cassette_of(conversation: Conversation, agent: Agent) -> Cassette:
    """The conversation as if the agent's model had decided what the bot did."""
    turns: dict[int, list[Utterance]] = {}
    for utterance in conversation.utterances:
        turns.setdefault(utterance.turn, []).append(utterance)
    answered = [said for _, said in sorted(turns.items()) if any(_is_answer(one) for one in said)]
    return Cassette(
        session=conversation.conversation_id,
        turns=tuple(_turn(said, agent, conversation.language) for said in answered),
        messages=(),
    )


def _is_answer(utterance: Utterance) -> bool:
    return utterance.role is Role.BOT and not utterance.is_action


def _turn(said: Sequence[Utterance], agent: Agent, language: str) -> Turn:
    message = next(one.text for one in said if one.role is Role.USER)
    replies = [*_replies(said, _REPLIES[agent.protocol])]
    calls = [one for one in said if one.is_action]
    return Turn(
        message=message,
        task_id="",
        agent=agent.agent_id,
        mode=MODE,
        language=language_named(language) or "en",
        created_at=0.0,
        model_calls=tuple(
            ModelCall(purpose="decide", model="script", at=0.0, digest="", reply=reply) for reply in replies
        ),
        tool_calls=tuple(ToolCall(name=one.action, arguments=one.action_input, at=0.0) for one in calls),
        status="done",
    )


def _replies(said: Sequence[Utterance], reply: Callable[[Utterance], Reply]) -> Iterator[Reply]:
    """The bot's calls, and its answer."""
    yield from (reply(one) for one in said if one.is_action)
    yield reply(next(one for one in reversed(said) if _is_answer(one)))


def _native(said: Utterance) -> Reply:
    if not said.is_action:
        return Reply(text=said.text, finish_reason="stop")
    arguments = json.dumps(said.action_input, ensure_ascii=False)
    call = FunctionCall(id=f"call_{said.index}", name=said.action, arguments=arguments)
    return Reply(tool_calls=(call,), finish_reason="tool_calls")


def _json_reply(said: Utterance) -> Reply:
    call = {"name": said.action, "arguments": said.action_input}
    output: Json = {"tool_calls": [call]} if said.is_action else {"answer": said.text}
    result = {"action_type": "CALL_TOOL" if said.is_action else "ANSWER", "output": output}
    form = {"observe": "", "thought": "", "action": {"result": result}}
    return Reply(text=json.dumps(form, ensure_ascii=False), finish_reason="stop")


_REPLIES: dict[str, Callable[[Utterance], Reply]] = {"native": _native, "json": _json_reply}


# What exists outside: the user's `World` over a staging system, and its snapshots as they are compared.

Items = Counter[tuple[str, str]]
"""What a snapshot holds: each value, or row of a list, by its path, as JSON; how often it is there.

An object or list is an item itself, as `{}` or `[]`: one that is empty is there, too.
"""

Row = tuple[str, str, int]
Snapshot = tuple[Any, str]
"""A snapshot, and the namespace of its run."""

_VARIES = "<varies>"
_OBJECT, _LIST = "{}", "[]"
_SCRUBBED = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16,}\b"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
_DAY = 86_400
_POLL = 0.05
LANDING = 3.0
"""Seconds that an effect may take to arrive after its call, unless the world says otherwise."""
LONGEST = 30.0
"""Seconds that a world may go on changing after a call."""


class World(Protocol):
    """A staging system as it is outside of Segue. Only `snapshot` is needed, with `reset` or a `namespace`.

    `reset()` makes it as it was at first. A class whose constructor takes `namespace` has a world of its own for each
    run; `environment()`, where there is one, gives the environment variables of the processes whose tools use it, and
    SEGUE_CHAOS_NAMESPACE is set there. `check(before, after, effects)` gives a sentence where an invariant is broken.
    `landing` is how many seconds an effect may take to arrive after its call, by default LANDING.
    """

    def snapshot(self) -> object:
        """What exists, as JSON: rows, files, mails."""
        ...


@dataclass(frozen=True)
class Worlds:
    """The world of each run, of the user's class."""

    build: Callable[..., Any]
    takes_namespace: bool

    def of(self, namespace: str) -> "Outside":
        """The world of a run, as it is before it."""
        taken = {"namespace": namespace} if self.takes_namespace else {}
        world = Outside(_asked("__init__", lambda: self.build(**taken)))
        world.reset()
        return world

    def environment(self, world: "Outside", namespace: str) -> dict[str, str]:
        """The environment variables of the run's processes."""
        given = world.environment()
        return {**given, "SEGUE_CHAOS_NAMESPACE": namespace} if self.takes_namespace else given


class Outside:
    """A user's world. What is missing there does nothing, and an error says where it was raised."""

    def __init__(self, world: Any) -> None:
        self._world = world

    @property
    def landing(self) -> float:
        """Seconds that an effect may take to arrive after its call."""
        return float(_asked("landing", lambda: getattr(self._world, "landing", LANDING)))

    def reset(self) -> None:
        if hasattr(self._world, "reset"):
            _asked("reset", self._world.reset)

    def environment(self) -> dict[str, str]:
        given = _asked("environment", self._world.environment) if hasattr(self._world, "environment") else {}
        return {str(name): str(value) for name, value in given.items()}

    def snapshot(self) -> Any:
        """What exists now, as JSON: a copy, since a world may return a list that it changes later."""
        return _asked("snapshot", lambda: json.loads(json.dumps(self._world.snapshot(), default=_plain_value)))

    def check(self, before: Any, after: Any, effects: Sequence[Any]) -> str:
        """How an invariant is broken; empty if none is."""
        if not hasattr(self._world, "check"):
            return ""
        return str(_asked("check", lambda: self._world.check(before, after, effects)) or "")


def _asked(method: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except ConfigurationError:
        raise
    except Exception as error:
        frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename != __file__]
        own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
        raise ConfigurationError(
            "The world's `{method}` fails at {place}: {error}.",
            method=method,
            place=f"{own[-1].filename}:{own[-1].lineno}" if own else "its call",
            error=f"{type(error).__name__}: {error}".rstrip("."),
        ) from error


def _plain_value(value: Any) -> Any:
    """What JSON has not, in a form that is the same each time."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, date | time_of_day | timedelta | Decimal | UUID | PurePath | bytes):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON: return dicts, lists, texts and numbers")


def load(text: str) -> Worlds:
    """The worlds of the class that `module:Class` names; the module may be in the working directory."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise ConfigurationError("--world is '{text}': name a class, such as staging:World.", text=text)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError("The world {text} cannot be loaded: {error}.", text=text, error=error) from error
    return worlds_of(found)


def worlds_of(found: Any) -> Worlds:
    """The worlds of a class."""
    takes = "namespace" in inspect.signature(found).parameters
    if not hasattr(found, "snapshot"):
        raise ConfigurationError(
            "The world {name} has no snapshot: add `def snapshot(self)`, which returns what exists as JSON.",
            name=getattr(found, "__name__", found),
        )
    if not takes and not hasattr(found, "reset"):
        raise ConfigurationError(
            "The world {name} cannot be reset: add `def reset(self)`, or `def __init__(self, namespace)` "
            "for a separate world per run.",
            name=getattr(found, "__name__", found),
        )
    return Worlds(found, takes)


def settled(world: Any, seconds: float = 0.0) -> Any:
    """The snapshot once it has not changed for a moment, after `seconds` at least."""
    earliest, last = time.monotonic() + seconds, world.snapshot()
    while True:
        time.sleep(_POLL)
        is_settled = is_same(now := world.snapshot(), last)
        if is_settled and time.monotonic() >= earliest:
            return now
        if not is_settled and time.monotonic() > earliest + LONGEST:
            items = Comparison().items
            raise ConfigurationError(
                "The world still changes after {seconds} seconds: leave values that change by themselves "
                "out of its snapshot. The last change: {change}.",
                seconds=int(LONGEST),
                change=Change.between(items(last), items(now)).described(),
            )
        last = now


def is_same(one: Any, other: Any) -> bool:
    """Whether two snapshots differ by times and ids at most."""
    return bool(one == other or Comparison().items(one) == Comparison().items(other))


@dataclass
class Landed:
    """A snapshot, and how many seconds it took until it was so; 0 where it changed at once, or never."""

    snapshot: Any
    seconds: float


def landed(world: Any, before: Any, seconds: float) -> Landed:
    """Wait up to `seconds` until the world differs from `before`, then until it is settled."""
    began = time.monotonic()
    now = world.snapshot()
    if not is_same(now, before):
        return Landed(settled(world), 0.0)
    while time.monotonic() - began < seconds:
        time.sleep(_POLL)
        if not is_same(world.snapshot(), before):
            took = time.monotonic() - began
            return Landed(settled(world), took)
    return Landed(world.snapshot(), 0.0)


@dataclass(frozen=True)
class Change:
    """How a world differs: the rows that it lacks, and those that it has besides, as (path, text, times)."""

    missing: tuple[Row, ...] = ()
    extra: tuple[Row, ...] = ()

    @classmethod
    def between(cls, expected: Items, found: Items) -> Self:
        """What is missing, and what is there besides."""
        return cls.of(expected - found, found - expected)

    @classmethod
    def of(cls, missing: Items, extra: Items) -> Self:
        return cls(_rows(missing), _rows(extra))

    @classmethod
    def read(cls, form: Mapping[str, Any]) -> Self:
        """A change as JSON has it."""
        return cls(*(tuple((path, text, times) for path, text, times in form[side]) for side in ("missing", "extra")))

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    @property
    def is_hollow(self) -> bool:
        """Whether nothing but empty objects and lists is there besides, and nothing is missing."""
        return not self.missing and all(text in (_OBJECT, _LIST) for _, text, _ in self.extra)

    def described(self, language: str = "en") -> str:
        """The difference in words: at most three of each."""
        parts = [_sentence("has_more", row, language) for row in self.extra[:3]]
        parts += [_sentence("lacks", row, language) for row in self.missing[:3]]
        return "; ".join(parts)


def _rows(items: Items) -> tuple[Row, ...]:
    """The items, each object and list only where nothing that it holds is among them."""
    rows = []
    for (path, text), times in sorted(items.items()):
        is_container = text in (_OBJECT, _LIST)
        if not (is_container and any(_is_inside(other, path) for other, _ in items)):
            rows.append((path, text, times))
    return tuple(rows)


def _is_inside(path: str, outer: str) -> bool:
    return path != outer and (not outer or path.startswith((f"{outer}.", f"{outer}[]")))


def _sentence(name: str, row: Row, language: str) -> str:
    path, text, times = row
    place = path.removesuffix("[]") or chaos_text("the_world", language)
    return chaos_text(name, language, place=place, times=times, text=text)


class Comparison:
    """Snapshots without what differs from run to run: ids, times, and what undisturbed runs have differently."""

    def __init__(self) -> None:
        self._varying: set[str] = set()

    def learn(self, one: "Snapshot", other: "Snapshot") -> None:
        """Leave out what differs between two undisturbed runs."""
        for _ in range(20):
            first, second = self.items(*one), self.items(*other)
            missing, extra = first - second, second - first
            if not missing and not extra:
                return
            self._varying |= _varying(list(missing), list(extra))

    def items(self, snapshot: Any, namespace: str = "") -> Items:
        """What the snapshot holds."""
        found: Items = Counter()
        self._collect(snapshot, "", namespace, found)
        return found

    def _collect(self, value: Any, path: str, namespace: str, found: Items) -> None:
        if path in self._varying:
            found[path, self._text(value, path, namespace)] += 1
        elif isinstance(value, dict):
            found[path, _OBJECT] += 1
            for name, inner in value.items():
                known = _SCRUBBED.sub("<id or time>", name)
                self._collect(inner, f"{path}.{known}" if path else known, namespace, found)
        elif isinstance(value, list):
            found[path, _LIST] += 1
            for inner in value:
                found[f"{path}[]", self._text(inner, f"{path}[]", namespace)] += 1
        else:
            found[path, self._text(value, path, namespace)] += 1

    def _text(self, value: Any, path: str, namespace: str) -> str:
        text = json.dumps(self.plain(value, path), sort_keys=True, ensure_ascii=False)
        return text.replace(namespace, "<namespace>") if namespace else text

    def plain(self, value: Any, path: str = "") -> Any:
        """A value without ids and times."""
        if path in self._varying:
            return _VARIES
        if isinstance(value, dict):
            return {name: self.plain(inner, f"{path}.{name}") for name, inner in value.items()}
        if isinstance(value, list):
            return [self.plain(inner, f"{path}[]") for inner in value]
        if isinstance(value, str):
            return _SCRUBBED.sub("<id or time>", value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            name = path.rpartition(".")[2]
            return _VARIES if name == "id" or any(abs(value - t) < _DAY for t in _now()) else value
        return value


def _now() -> tuple[float, float]:
    now = time.time()
    return now, now * 1000


def _varying(missing: Sequence[tuple[str, str]], extra: Sequence[tuple[str, str]]) -> set[str]:
    """The paths of fields, else of whole values, that differ between rows of the same path."""
    for path, text in missing:
        beside = [other for at, other in extra if at == path]
        one, others = json.loads(text), [json.loads(other) for other in beside]
        for other in others:
            if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
                return {f"{path}.{name}" for name in one if one[name] != other[name]}
        if others:
            return {path}
    return {(missing or extra)[0][0]}
