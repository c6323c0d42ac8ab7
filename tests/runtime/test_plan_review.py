"""The review of a plan before it runs: it waits in the inbox, and what was approved is what runs."""

import json
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent, tool
from segue.core.errors import InvalidAnswer, InvalidReplyOption, QuestionClosed
from segue.testing.cassette import record, replay
from tests.fakes import ScriptedChatModel, answer, call_tool, plan, plan_json

ran: list[str] = []


@tool
def book(city: str) -> str:
    """Book a city."""
    ran.append(city)
    if city == "Nowhere":
        raise ValueError("there is no such city")
    return f"booked {city}"


def steps(*cities: str) -> list[dict[str, Any]]:
    return [
        {"step": n, "action": "book", "params": {"city": city}, "description": f"book {city}", "depends_on": []}
        for n, city in enumerate(cities, start=1)
    ]


def trip(*cities: str) -> str:
    return plan_json("a trip", steps(*cities))


def agent(*script: Any, **fields: Any) -> Agent:
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "tools": (book,), "mode": "plan", **fields})


def edit(drafted: Any) -> dict[str, Any]:
    return {"verdicts": [{"index": 0, "verdict": "edit", "arguments": {"goal": "a trip", "steps": drafted}}]}


def plan_of(question: dict[str, Any]) -> list[str]:
    (call,) = question["calls"]
    assert (question["kind"], call["name"]) == ("approval", "review_plan")
    return [step["params"]["city"] for step in call["arguments"]["steps"]]


@pytest.mark.parametrize("fields", [{"review_plan": True}, {"review_plan": ["plan"]}, {}])
async def test_an_approved_plan_runs_in_another_process_as_it_was_shown(tmp_path: Path, fields: dict[str, Any]) -> None:
    ran.clear()
    options = {} if fields else {"review_plan": True}
    async with segue.open(tmp_path / "segue.db", agents=[agent(trip("Bern", "Rome"), **fields)]) as app:
        waits = await app.ask("Book a trip.", agent="a", **options)
        assert (waits["status"], plan_of(waits["question"]), ran) == ("waiting", ["Bern", "Rome"], [])
    async with segue.open(tmp_path / "segue.db", agents=[agent("Booked.", **fields)]) as app:
        (row,) = await app.waiting()
        assert row.kind == "approval" and row.calls[0]["name"] == "review_plan"
        done = await app.answer(waits["task_id"], "approve")
        with pytest.raises(QuestionClosed):
            await app.answer(waits["task_id"], "reject", interrupt_id=waits["question"]["interrupt_id"])
        types = [event.type for event in await app.events(waits["task_id"])]
    assert (done["answer"], ran) == ("Booked.", ["Bern", "Rome"])
    assert types.index("approval_given") < types.index("plan_update") < types.index("tool_call")


async def test_an_edited_plan_is_what_runs() -> None:
    ran.clear()
    async with segue.open(":memory:", agents=[agent(trip("Bern", "Rome"), "Booked.", review_plan=True)]) as app:
        waits = await app.ask("Book a trip.", agent="a")
        done = await app.answer(waits["task_id"], edit(steps("Rome", "Oslo", "Bern")))
        cassette = await record(
            app, waits["session_id"] if "session_id" in waits else (await app.task(waits["task_id"])).session_id
        )
        replayed = await replay(cassette, agents=[agent(review_plan=True)])
    assert (done["answer"], ran[:3]) == ("Booked.", ["Rome", "Oslo", "Bern"])
    assert [step["params"]["city"] for step in done["plan"]] == ["Rome", "Oslo", "Bern"]
    assert replayed.difference is None


@pytest.mark.parametrize("mode", ["plan", "plan_react"])
async def test_an_edited_step_without_a_tool_is_done_without_a_call(mode: str) -> None:
    ran.clear()
    calls = [call_tool(("book", {"city": "Rome"})), answer("Booked.")] if mode == "plan_react" else ["Booked."]
    made = agent(trip("Bern", "Rome"), *calls, mode=mode, review_plan=True)
    async with segue.open(":memory:", agents=[made]) as app:
        waits = await app.ask("Book a trip.", agent="a")
        first, second = steps("Bern", "Rome")
        thought = {"step": 3, "action": "none", "description": "compare them", "depends_on": [1]}
        done = await app.answer(waits["task_id"], edit([{**first, "action": "none"}, second, thought]))
    assert ran == ["Rome"]
    assert [step["status"] for step in done["plan"]] == ["done", "done", "done"]


@pytest.mark.parametrize(
    ("drafted", "why"),
    [
        ([{**steps("Bern")[0], "action": "fly"}], "step 1 names the unknown tool 'fly'; use one of: book, ask_user"),
        ([{**steps("Bern")[0], "depends_on": [7]}], "step 1 depends on '7', which is not a step"),
        (
            [{**step, "depends_on": [3 - step["step"]]} for step in steps("Bern", "Rome")],
            "steps 1, 2 wait for each other",
        ),
        ([], "The plan has no steps"),
        ("soon", "steps"),
        ([["Bern"]], "1"),
        ([{**steps("Bern")[0], "params": "Bern"}], "params"),
        ([{**steps("Bern")[0], "status": "skipped"}], "The status of step 1 stays 'pending'"),
        ([*steps("Bern"), {**steps("Oslo")[0], "step": 2, "status": "done"}], "The status of step 2 stays 'pending'"),
        ([{**steps("Bern")[0], "parms": {}}], "Step 1 has the unknown field 'parms'"),
        ([{**steps("Bern")[0], "depends_on": [1]}], "Step 1 depends on itself"),
        ([{**steps("Bern")[0], "params": {"city": {"$ref": "steps.1.result"}}}], "Step 1 depends on itself"),
        ([{**steps("Bern")[0], "params": {}}], "Step 1: params: $: 'city' is a required property"),
        ([{**steps("Bern")[0], "params": {"city": 7}}], "Step 1: params: $.city: 7 is not of type 'string'"),
        ([{**steps("Bern")[0], "params": {"town": "Bern"}}], "Step 1: params: unknown: town"),
        ([{**steps("Bern")[0], "action": ""}], "Step 1 has no action"),
        ([*steps("Bern"), {"step": 2, "description": "rest"}], "Step 2 has no action"),
    ],
)
async def test_an_edit_that_cannot_run_is_refused_with_a_sentence_and_the_plan_still_waits(
    drafted: Any, why: str
) -> None:
    ran.clear()
    async with segue.open(":memory:", agents=[agent(trip("Bern"), "Booked.", review_plan=True)]) as app:
        waits = await app.ask("Book a trip.", agent="a")
        with pytest.raises(InvalidAnswer) as refused:
            await app.answer(waits["task_id"], edit(drafted))
        assert why in str(refused.value)
        question = await app.question(waits["task_id"])
        assert (plan_of(question), question["interrupt_id"]) == (["Bern"], waits["question"]["interrupt_id"])
        done = await app.answer(waits["task_id"], "approve")
    assert (done["answer"], ran) == ("Booked.", ["Bern"])


@pytest.mark.parametrize(
    ("fields", "options"), [({"ask_user": False}, {}), ({"ask_user": True}, {"ask_user": False}), ({}, {})]
)
@pytest.mark.parametrize("mode", ["plan", "react"])
async def test_an_edit_may_have_a_question_where_the_task_may_ask_the_user(
    mode: str, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    question = {"step": 1, "action": "ask_user", "params": {"question": "Which city?"}, "description": "ask"}
    script = [trip("Bern"), "Booked."] if mode == "plan" else [plan(["book Bern"]), answer("Booked.")]
    wanted = agent(*script, mode=mode, review_plan=[mode], **fields)
    async with segue.open(":memory:", agents=[wanted]) as app:
        waits = await app.ask("Book a trip.", agent="a", **options)
        if fields or options:
            with pytest.raises(InvalidAnswer, match="unknown tool 'ask_user'"):
                await app.answer(waits["task_id"], edit([question]))
        else:
            after = await app.answer(waits["task_id"], edit([question]))
            assert mode == "react" or after["question"]["question"] == "Which city?"


async def test_words_lead_to_another_plan_which_is_reviewed_again() -> None:
    ran.clear()
    model = ScriptedChatModel([trip("Rome"), trip("Bern"), "Booked."])
    async with segue.open(":memory:", agents=[agent(model=model, review_plan=True)]) as app:
        waits = await app.ask("Book a trip.", agent="a")
        words = {"verdicts": [{"index": 0, "verdict": "reject", "reason": "Too hot there."}]}
        again = await app.answer(waits["task_id"], words)
        assert (again["status"], plan_of(again["question"]), ran) == ("waiting", ["Bern"], [])
        done = await app.answer(waits["task_id"], "approve")
    assert (done["answer"], ran) == ("Booked.", ["Bern"])
    assert "Too hot there" in str(model.calls[1]) and "Rome" in str(model.calls[1])


async def test_a_plan_that_is_made_again_after_a_failure_is_reviewed_again() -> None:
    ran.clear()
    repaired = json.dumps({"goal": "a trip", "steps": [steps("Bern")[0], {**steps("Oslo")[0], "step": 3}]})
    async with segue.open(
        ":memory:", agents=[agent(trip("Bern", "Nowhere"), repaired, "Booked.", review_plan=True)]
    ) as app:
        waits = await app.ask("Book a trip.", agent="a")
        again = await app.answer(waits["task_id"], "approve")
        assert (again["status"], ran) == ("waiting", ["Bern", "Nowhere"])
        shown = [(step["step"], step.get("status")) for step in again["question"]["calls"][0]["arguments"]["steps"]]
        assert shown == [("1", "done"), ("2", "error"), ("3", None)]
        done = await app.answer(waits["task_id"], "approve")
    assert (done["answer"], ran) == ("Booked.", ["Bern", "Nowhere", "Oslo"])


async def test_plan_react_and_a_plan_of_react_are_reviewed_too() -> None:
    ran.clear()
    script = [
        trip("Rome"),
        plan(["book Bern"]),
        plan(["book Oslo"]),
        call_tool(("book", {"city": "Oslo"})),
        answer("Done."),
    ]
    async with segue.open(":memory:", agents=[agent(*script, mode="plan_react", review_plan=["plan_react"])]) as app:
        waits = await app.ask("Book a trip.", agent="a")
        assert plan_of(waits["question"]) == ["Rome"]
        again = await app.answer(waits["task_id"], "approve")
        assert [step["description"] for step in again["question"]["calls"][0]["arguments"]["steps"]] == ["book Bern"]
        words = {"verdicts": [{"index": 0, "verdict": "reject", "reason": "Further north."}]}
        third = await app.answer(waits["task_id"], words)
        written = [{"step": "1", "description": "book Oslo now"}]
        done = await app.answer(third["task_id"] if "task_id" in third else waits["task_id"], edit(written))
        events = await app.events(waits["task_id"])
    assert (done["answer"], ran) == ("Done.", ["Oslo"])
    plans = [[step["description"] for step in e.data["steps"]] for e in events if e.type == "plan_update"]
    assert plans == [["book Rome"], ["book Oslo now"]]


async def test_a_plan_is_not_reviewed_where_nobody_asked_for_it_and_never_always_allowed() -> None:
    ran.clear()
    for fields, options in (
        ({}, {}),
        ({"review_plan": ["react"]}, {}),
        ({"review_plan": True}, {"review_plan": False}),
    ):
        async with segue.open(":memory:", agents=[agent(trip("Bern"), "Booked.", **fields)]) as app:
            assert (await app.ask("Book a trip.", agent="a", **options))["answer"] == "Booked."
    async with segue.open(":memory:", agents=[agent(trip("Bern"), "Booked.", review_plan=True)]) as app:
        waits = await app.ask("Book a trip.", agent="a")
        with pytest.raises(InvalidAnswer, match="cannot be always allowed"):
            await app.answer(waits["task_id"], {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]})
        with pytest.raises(InvalidReplyOption, match="makes no plan to review"):
            await app.start("Hello.", agent="a", mode="direct", review_plan=True)
