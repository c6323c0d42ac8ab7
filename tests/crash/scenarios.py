"""What is crashed: conversations whose every call has a label, and what the model decides in each round."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

SESSION = "s"
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Round:
    """One decision: calls, a plan, a repair or a question; without any of them it is the answer.

    `step` is a step of the plan.
    """

    calls: tuple[Call, ...] = ()
    plan: tuple[str, ...] = ()
    diagnosis: str = ""
    step: str = ""
    question: str = ""


@dataclass(frozen=True)
class Note:
    """What a person adds: the text, while the value `after` is put."""

    text: str
    after: str
    rounds: tuple[Round, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    """The whole turn as it is with the note."""


@dataclass(frozen=True)
class Turn:
    """A message, and how it is answered.

    `rounds` in react and, with one call each, in controller; `steps` of a plan in plan, plan_react and controller;
    `parts` in lifecycle: each is carried out like a turn in react, and `needs` the parts of these numbers. In desk,
    whose flow has branches, they are what those are asked. `files` are the names and the texts of the message's files.
    """

    message: str
    mode: str
    rounds: tuple[Round, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    parts: tuple["Turn", ...] = ()
    needs: tuple[int, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    note: Note | None = None
    cancelled: bool = False
    """Cancelled as soon as it waits for a person."""
    review: bool = False
    """A person reviews its plan."""

    def added_to(self, message: str) -> "Turn":
        """The turn as the model sees it where its message is this one: with the note, if that stands in it."""
        if self.note is None or message == self.message:
            return self
        return replace(self, message=message, rounds=self.note.rounds, steps=self.note.steps)


@dataclass(frozen=True)
class Scenario:
    """Turns on one thread; with `mcp` the agent has the tools of an MCP server as well, with `desk` the mode.

    With `agents` it has the agent `helper` as a tool, which carries out the parts whose messages are its arguments; in
    the background with `later`.
    """

    name: str
    protocol: str
    turns: tuple[Turn, ...]
    mcp: bool = False
    desk: bool = False
    agents: bool = False
    later: bool = False

    def turn_of(self, message: str) -> Turn | None:
        """The turn, or the part of one, that a message begins; each note stands in a line below it."""
        first = message.partition("\n")[0]
        return next((turn.added_to(message) for turn in self._all() if turn.message == first), None)

    def _all(self) -> Iterator[Turn]:
        for turn in self.turns:
            yield from (turn, *turn.parts)


def deposit(label: str, amount: int = 5) -> Call:
    return ("deposit", {"label": label, "amount": amount})


def send(label: str, text: Any = "hello") -> Call:
    return ("send", {"label": label, "text": text})


def transfer(label: str, amount: int = 5) -> Call:
    return ("transfer", {"label": label, "amount": amount})


def spend(label: str, amount: int = 5) -> Call:
    return ("spend", {"label": label, "amount": amount})


def put(label: str) -> Call:
    return ("put", {"label": label, "value": "on"})


def post(label: str) -> Call:
    return ("post", {"label": label})


def have(label: str) -> Call:
    """A call of the other agent."""
    return ("helper", {"label": label})


def had(label: str, *rounds: Round) -> Turn:
    """What the other agent does in that call."""
    return Turn(json.dumps({"label": label}), "react", rounds)


def ask(branch: str, goal: str) -> Call:
    """A call of a branch of the desk's flow."""
    return (branch, {"goal": goal})


def look(label: str) -> Call:
    return ("look", {"label": label})


def break_down(label: str) -> Call:
    return ("break_down", {"label": label})


def step(number: int, call: Call | None, *needs: int) -> dict[str, Any]:
    """A step of a plan; without a call it is the writing of the answer."""
    action, params = call or ("none", {})
    phase = "execution" if call else "generation"
    about = f"{action} {params.get('label', '')}".strip()
    return {
        "step": number, "action": action, "params": params, "description": about, "phase": phase,
        "depends_on": list(needs),
    }  # fmt: skip


QUESTION: Call = ("ask_user", {"question": "Which bank?"})
ANSWER = Round()


def one(*calls: Call) -> tuple[Round, ...]:
    """A round of calls, then the answer."""
    return (Round(calls), ANSWER)


REACT_JSON = Scenario(
    "react_json",
    "json",
    (
        Turn(
            "pay, write and look",
            "react",
            (
                Round(plan=("pay", "write")),
                Round((deposit("a"),), step="1"),
                Round((deposit("b", 7), send("c")), step="2"),
                Round((look("x"), look("y"))),
                Round((break_down("f"),)),
                Round((put("k"),), diagnosis="put it instead"),
                ANSWER,
            ),
        ),
        Turn("write once more", "react", one(send("d"))),
    ),
)

REACT_NATIVE = Scenario(
    "react_native",
    "native",
    (
        Turn(
            "pay, write and look",
            "react",
            (
                Round((deposit("a"),)),
                Round((look("x"), look("y"))),
                Round((deposit("b", 7), send("c"))),
                Round((put("k"),)),
                ANSWER,
            ),
        ),
        Turn("write once more", "react", one(send("d"))),
    ),
)

PLAN = Scenario(
    "plan",
    "json",
    (
        Turn(
            "plan a payment and letters",
            "plan",
            steps=(
                step(1, look("x")),
                step(2, look("y")),
                step(3, look("z")),
                step(4, deposit("a"), 1, 2),
                step(5, send("b", {"$ref": "steps.1.result.found"}), 3),
                step(6, put("k"), 3),
                step(7, None, 6),
            ),
        ),
        Turn("and one more letter", "plan", steps=(step(1, send("c")), step(2, None, 1))),
    ),
)

PLAN_REACT = Scenario(
    "plan_react",
    "json",
    (
        Turn(
            "plan, then judge",
            "plan_react",
            (
                Round((look("x"), look("y")), step="1"),
                Round((deposit("a"),), step="2"),
                Round((send("b"), put("k")), step="3"),
                ANSWER,
            ),
            (step(1, look("x")), step(2, deposit("a"), 1), step(3, send("b"), 2), step(4, None, 3)),
        ),
    ),
)

TURNS = Scenario(
    "turns",
    "json",
    (
        Turn("first pay", "react", one(deposit("a"))),
        Turn("just talk", "direct"),
        Turn("再写一封信", "plan", steps=(step(1, look("x")), step(2, send("b"), 1), step(3, None, 2))),
        Turn("pay and look", "react", one(deposit("c"), look("y"))),
        Turn("and set it", "plan_react", one(put("k")), (step(1, put("k")), step(2, None, 1))),
    ),
)

APPROVAL = Scenario(
    "approval",
    "json",
    (
        Turn(
            "spend and pay",
            "react",
            (Round((deposit("a"), spend("b"), spend("edit c"), spend("reject d"))), Round((send("e"),)), ANSWER),
        ),
        Turn("spend by a plan", "plan", steps=(step(1, look("x")), step(2, spend("f"), 1), step(3, None, 2))),
        Turn(
            "spend no more", "react", (Round((deposit("g"),)), Round((send("h"), spend("i"))), ANSWER), cancelled=True
        ),
        Turn("pay at last", "react", one(deposit("j"))),
    ),
)

LIFECYCLE = Scenario(
    "lifecycle",
    "json",
    (
        Turn(
            "settle the bills",
            "lifecycle",
            parts=(
                Turn("look at the bills", "react", (Round((look("x"), look("y"))), Round((deposit("a"),)), ANSWER)),
                Turn("write to the bank", "react", one(send("b"), put("k"))),
                Turn("pay what is left", "react", one(deposit("c", 7), break_down("f")), needs=(1,)),
                Turn("tell how it went", "react", one(look("z"), send("d")), needs=(2, 3)),
            ),
        ),
        Turn("write once more", "react", one(send("e"))),
    ),
)

STEERED = Scenario(
    "steered",
    "json",
    (
        Turn(
            "pay and write",
            "react",
            (Round((deposit("a"),)), Round((put("k"), send("b"))), ANSWER),
            note=Note(
                "write to the bank too",
                "k",
                (Round((deposit("a"),)), Round((put("k"), send("b"))), Round((send("c"),)), ANSWER),
            ),
        ),
        Turn(
            "plan a payment",
            "plan",
            steps=(step(1, put("l")), step(2, deposit("d"), 1), step(3, None, 2)),
            note=Note(
                "and one more letter",
                "l",
                steps=(step(1, put("l")), step(2, deposit("d"), 1), step(3, None, 2), step(4, send("e"), 2)),
            ),
        ),
        Turn("write once more", "react", one(send("g"))),
    ),
)


CHECKED = Scenario(
    "checked",
    "json",
    (
        Turn("transfer and look", "react", (Round((transfer("a"), transfer("b", 7))), Round((transfer("c"),)), ANSWER)),
        Turn("transfer by a plan", "plan", steps=(step(1, transfer("d")), step(2, transfer("e"), 1), step(3, None, 2))),
    ),
)


CONTROLLER = Scenario(
    "controller",
    "json",
    (
        Turn(
            "settle it with a controller",
            "controller",
            tuple(Round((call,)) for call in (look("x"), deposit("a"), put("k"), send("b"), break_down("f"))),
            (step(1, look("x")), step(2, deposit("a"), 1), step(3, send("b"), 2)),
        ),
        Turn("write once more", "react", one(send("c"))),
    ),
)


DESK = Scenario(
    "desk",
    "json",
    (
        Turn(
            "settle it at the desk",
            "desk",
            (Round((ask("clerk", "spend by a clerk"),)), Round((spend("c"),)), Round((ask("office", "spend inside"),))),
            (step(1, spend("c")), step(2, None, 1)),
            parts=(
                Turn("spend by a clerk", "react", one(deposit("a"), spend("edit b"))),
                Turn("spend inside", "desk", (Round((spend("reject d"),)), Round((spend("e"),)))),
            ),
        ),
        Turn("write once more", "react", one(send("f"))),
    ),
    desk=True,
)

MCP = Scenario(
    "mcp",
    "native",
    (
        Turn("post and pay", "react", (Round((post("a"),)), Round((deposit("b"), post("c"))), ANSWER)),
        Turn("post by a plan", "plan", steps=(step(1, post("d")), step(2, None, 1))),
    ),
    mcp=True,
)

ATTACHED = Scenario(
    "attached",
    "json",
    (
        Turn("read it and pay", "react", one(deposit("a")), files=(("order.txt", "order 17"), ("note.md", "quick"))),
        Turn("and look", "direct", files=(("more.txt", "order 18"),)),
        Turn("write once more", "react", one(send("b"))),
    ),
)


ASKED = Scenario(
    "asked",
    "json",
    (
        Turn(
            "ask and pay", "react", (Round((deposit("a"),)), Round(question="Which bank?"), Round((send("b"),)), ANSWER)
        ),
        Turn(
            "ask by a plan",
            "plan",
            steps=(step(1, look("x")), step(2, QUESTION, 1), step(3, deposit("c"), 2), step(4, None, 3)),
            review=True,
        ),
        Turn("write once more", "react", one(send("d"))),
    ),
)

REPLY = "the one in the square"
"""What a person answers to a question."""


def reply_to(question: Mapping[str, Any]) -> dict[str, Any]:
    """What a person answers a task that waits for them."""
    if question["kind"] == "question":
        return {"answer": REPLY}
    return {"verdicts": [verdict(call) for call in question["calls"]]}


AGENTS = Scenario(
    "agents",
    "json",
    (
        Turn(
            "have it settled",
            "react",
            (Round((have("h"),)), Round((deposit("a"),)), ANSWER),
            parts=(had("h", Round((deposit("b"),)), Round((send("c"), spend("d"))), ANSWER),),
        ),
        Turn(
            "have both settled",
            "react",
            one(have("i"), have("j")),
            parts=(had("i", *one(deposit("e"))), had("j", *one(transfer("f")))),
        ),
        Turn("write once more", "react", one(send("g"))),
    ),
    agents=True,
)


OUTLAST = "outlast"
"""The value that is set only once every called agent has ended."""

BACKGROUND = Scenario(
    "background",
    "json",
    (
        Turn(
            "have it settled meanwhile",
            "react",
            (Round((have("h"),)), Round((transfer("a"),)), ANSWER),
            parts=(had("h", Round((deposit("b"),)), Round((send("c"), spend("d"))), ANSWER),),
        ),
        Turn(
            "have both settled meanwhile",
            "react",
            (Round((have("i"), have("j"))), Round((put(OUTLAST),)), ANSWER),
            parts=(had("i", *one(deposit("e"))), had("j", *one(transfer("f")))),
        ),
        Turn("write once more", "react", one(send("g"))),
    ),
    agents=True,
    later=True,
)


def verdict(call: Mapping[str, Any]) -> dict[str, Any]:
    """What a person decides about a call that needs approval: its label says so."""
    arguments = call["arguments"]
    match arguments.get("label", call["name"]).split()[0]:
        case "edit":
            return {"index": call["index"], "verdict": "edit", "arguments": {**arguments, "amount": 9}}
        case "reject":
            return {"index": call["index"], "verdict": "reject", "reason": "too much"}
        case _:
            return {"index": call["index"], "verdict": "approve"}


SCENARIOS: Mapping[str, Scenario] = {
    s.name: s
    for s in (
        REACT_JSON,
        REACT_NATIVE,
        PLAN,
        PLAN_REACT,
        TURNS,
        APPROVAL,
        LIFECYCLE,
        STEERED,
        CHECKED,
        CONTROLLER,
        DESK,
        MCP,
        ATTACHED,
        ASKED,
        AGENTS,
        BACKGROUND,
    )
}
