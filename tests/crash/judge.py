"""Say what went wrong in a run, from the file of effects and the database alone: Segue itself is not imported here."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .evidence import Evidence, Plain, Row, counted, is_unknown, label_of, unknown_labels

HELPER = "helper"
"""The tool that is an agent: its calls have their effects in its own session."""
KINDS: Mapping[str, str] = {
    "lost": "an effect or a call is missing, and nobody says so",
    "twice": "an effect happened, or its tool was started, once too often",
    "unflagged": "what the ledger, the events or the result say of a call is not what happened",
    "end": "a task, its result or the thread's history is not what it would have been",
    "events": "the durable events have a gap, a repeat or another order",
}


@dataclass(frozen=True)
class Finding:
    """One broken promise; `kind` is one of KINDS."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judge(run: Evidence, same: Evidence, undisturbed: Evidence, interruptions: int) -> list[Finding]:
    """Everything that is wrong with a run.

    `same` is an undisturbed run in which the same calls counted as interrupted, `undisturbed` one in which none did.
    """
    return [
        *_effects(run, undisturbed, interruptions),
        *_ledger(run, undisturbed, interruptions),
        *_flags(run),
        *_events(run, same),
        *_end(run, same),
    ]


# Effects and the ledger


def _effects(run: Evidence, undisturbed: Evidence, interruptions: int) -> Iterator[Finding]:
    kinds = {line["label"]: line["kind"] for line in undisturbed.effects}
    kinds |= {line["label"]: line["kind"] for line in run.effects}
    happened, started, flagged = counted(run, "effect"), counted(run, "start"), unknown_labels(run)
    if not interruptions:  # then there is no reason to start anything again
        kinds = dict.fromkeys(kinds, "once")
    for label in counted(undisturbed, "effect"):
        if not happened[label] and label not in flagged:
            yield Finding("lost", f"the effect of '{label}' never happened")
    for label, times in happened.items():
        if kinds[label] in ("once", "checked") and times > 1:
            yield Finding("twice", f"the effect of '{label}' happened {times} times")
        if label not in counted(undisturbed, "effect"):
            yield Finding("twice", f"the effect of '{label}' was not wanted")
    yield from _checked(run)
    for label, times in started.items():
        if kinds[label] == "once" and times > max(1, happened[label]):
            yield Finding("twice", f"the tool of '{label}' was started {times} times")


def _checked(run: Evidence) -> Iterator[Finding]:
    """A call whose tool has a check is never unknown, and is not started again once it took effect."""
    happened: set[str] = set()
    for line in run.effects:
        if line["kind"] == "checked" and line["moment"] == "start" and line["label"] in happened:
            yield Finding("twice", f"the tool of «{line['label']}» was started though its check could tell")
        if line["moment"] == "effect":
            happened.add(line["label"])
    for label in unknown_labels(run) & {line["label"] for line in run.effects if line["kind"] == "checked"}:
        yield Finding("unflagged", f"«{label}» counts as unknown though it has a check")


def _ledger(run: Evidence, undisturbed: Evidence, interruptions: int) -> Iterator[Finding]:
    happened, flagged = counted(run, "effect"), unknown_labels(run)
    rows = Counter(label_of(call) for call in run.calls)
    wanted = Counter(label_of(call) for call in undisturbed.calls)  # the results of the background have no label
    for label, times in wanted.items():
        if rows[label] < times:
            yield Finding("lost", f"the ledger has nothing of '{label}'")
    for label, times in rows.items():
        if times > (1 if label else wanted[label]):
            yield Finding("twice", f"the ledger has '{label}' {times} times")
    for call in run.calls:
        label = label_of(call)
        if call["state"] != "done" or call["outcome"] is None:
            yield Finding("unflagged", f"the ledger's call '{label}' is {call['state']} for ever")
        elif "success" in call["outcome"] and not happened[label] and call["name"] != HELPER:
            yield Finding("unflagged", f"the ledger says that '{label}' succeeded, and it never happened")
        elif "error" in call["outcome"] and label not in flagged and happened[label]:
            yield Finding("unflagged", f"the ledger says that '{label}' failed, and it happened")
    if len(flagged) > interruptions:
        many = f"{len(flagged)} calls count as unknown after {interruptions} interruptions"
        yield Finding("unflagged", f"{many}: {', '.join(sorted(flagged))}")


def _flags(run: Evidence) -> Iterator[Finding]:
    """What the ledger says of a call, the events and the task's result must say too."""
    for task in run.tasks:
        events = [e for e in run.events[task["task_id"]] if e["type"] == "tool_result"]
        said = {(_scope(e), e["data"]["index"]): e["data"]["result"] for e in events}
        calls = [call for call in run.calls if call["task_id"] == task["task_id"]]
        for call in calls:
            event = said.get((call["scope"].partition("#")[0], call["idx"]))
            if event is None or not _alike(event, call["outcome"]):
                yield Finding("unflagged", f"the event of '{label_of(call)}' says {event}, not {call['outcome']}")
        wanted = [_call(call) for call in calls if is_unknown(call["outcome"])]
        told = [_call(call) for call in (task["result"] or {}).get("unknown_outcomes") or []]
        if sorted(wanted) != sorted(told):
            yield Finding("unflagged", f"the result names {told} as unknown, and these are: {wanted}")


def _scope(event: Row) -> str:
    return str(event["trace_id"] or event["step_id"])


def _call(call: Row) -> str:
    return json.dumps([call["name"], call["arguments"]], sort_keys=True)


def _alike(event: Row, outcome: Row | None) -> bool:
    return outcome is not None and set(event) & {"success", "error"} == set(outcome) & {"success", "error"}


# Events


def _events(run: Evidence, same: Evidence) -> Iterator[Finding]:
    for task in run.tasks:
        events = run.events[task["task_id"]]
        if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
            yield Finding("events", f"the numbers are {[event['seq'] for event in events]}")
        yield from _statuses(task, events)
    pairs = zip(_tasks_events(run), _tasks_events(same), strict=False)
    for number, (told, expected) in enumerate(pairs, start=1):
        for key, times in (_uniques(told) - _uniques(expected)).items():
            yield Finding("events", f"task {number} has {key} {times} times too often")
        missing, extra = Counter(expected) - Counter(told), Counter(told) - Counter(expected)
        yield from (Finding("events", f"task {number} lacks {event}") for event in missing)
        yield from (Finding("events", f"task {number} has in excess {event}") for event in extra)
        if not missing and not extra and told != expected:
            yield Finding("events", f"task {number} has its events in another order")


def _statuses(task: Row, events: Sequence[Row]) -> Iterator[Finding]:
    """The changes of status must follow on each other and end with the one that the task has."""
    status = "pending"
    for event in events:
        if event["type"] == "state_changed":
            if event["data"]["old"] != status:
                yield Finding("events", f"it went from {event['data']['old']}, and was {status}")
            status = event["data"]["new"]
    if status != task["status"]:
        yield Finding("events", f"the task is {task['status']}, and its events end with {status}")


def _tasks_events(run: Evidence) -> Iterator[list[str]]:
    """Each task's events but the runner's own, without ids and times; what has no certain place has a fixed one."""
    plain = Plain(run)
    for task in run.tasks:
        kept = [e for e in run.events[task["task_id"]] if not e["own"]]
        texts = [plain.text(_comparable(event)) for event in kept]
        yield _in_order(texts, [e["type"] for e in kept])


def _comparable(event: Row) -> Row:
    """An event without what differs from run to run: digests of requests hold ids, a new process knows no prefix."""
    data = {name: value for name, value in event["data"].items() if name not in ("request", "prefix_chars")}
    return {**{name: value for name, value in event.items() if name not in ("seq", "own")}, "data": data}


def _in_order(texts: Sequence[str], types: Sequence[str]) -> list[str]:
    """The results of a wave sorted, and what a person added at the end: it may come before a result or after it."""
    ordered: list[str] = []
    wave: list[str] = []
    added: list[str] = []
    for text, kind in zip(texts, types, strict=True):
        if kind in ("tool_result", "agent_called"):
            wave.append(text)
        elif kind == "steered":
            added.append(text)
        else:
            ordered += [*sorted(wave), text]
            wave = []
    return [*ordered, *sorted(wave), *added]


def _uniques(texts: Iterable[str]) -> Counter[str]:
    """How often each thing happened that happens once: a type with its recursion or step and its place."""
    times: Counter[str] = Counter()
    for text in texts:
        event = json.loads(text)
        where = event["trace_id"] or event["step_id"]
        times[f"{event['type']} of {where or 'the task'} {event['data'].get('index', '')}".strip()] += 1
    return times


# The end


def _end(run: Evidence, same: Evidence) -> Iterator[Finding]:
    plain, expected = Plain(run), Plain(same)
    if len(run.tasks) != len(same.tasks):
        yield Finding("end", f"there are {len(run.tasks)} tasks, and it would have been {len(same.tasks)}")
    for mine, other in zip(run.tasks, same.tasks, strict=False):
        for name in ("status", "message", "mode", "error", "result"):
            if plain.text(mine[name]) != expected.text(other[name]):
                yield Finding("end", f"the {name} is {plain.text(mine[name])}, not {expected.text(other[name])}")
        if _most_calls(mine) != _most_calls(other):
            yield Finding("end", f"it may make {_most_calls(mine)} calls, not {_most_calls(other)}")
    for session, messages in same.history.items():
        said, wanted = plain.text(run.history.get(session)), expected.text(messages)
        if said != wanted:
            yield Finding("end", f"the history is {said}, not {wanted}")


def _most_calls(task: Row) -> int | None:
    """The part of its caller's budget that the task of a called agent has."""
    most: int | None = json.loads(task.get("reply_options") or "{}").get("most_calls")
    return most


# Races


def lost_updates(run: Evidence, ended: Mapping[str, str]) -> list[str]:
    """The messages of which something is missing or too much: `ended` tells how each one ended for its sender."""
    messages = [message for history in run.history.values() for message in history]
    there = {
        "task": Counter(label_in(task["message"]) for task in run.tasks if task["status"] == "done"),
        "effect": counted(run, "effect"),
        "message": Counter(label_in(m["content"]) for m in messages if m["role"] == "user"),
        "answer": Counter(label_in(m["content"]) for m in messages if _is_answer(m)),
    }
    lost = []
    for label, end in ended.items():
        wrong = {what: found[label] for what, found in there.items() if found[label] != int(end == "done")}
        if wrong:
            lost.append(f"'{label}' ended as {end}, and this is there of it: {wrong}")
    return lost


def label_in(text: str) -> str:
    """The label of a message of a race, or of its answer."""
    return text.removeprefix("pay ").partition(" ")[0]


def _is_answer(message: Row) -> bool:
    return message["role"] == "assistant" and bool(message.get("content")) and not message.get("tool_calls")
