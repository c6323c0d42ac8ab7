"""Going back: the timeline, forks into a task, differences, edits, undoing through the ledger, and deletion."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent, App, CallContext
from segue.core.errors import InvalidMessage, TaskError, ThreadBusy, UnknownAgent, UnknownSnapshot, UnknownThread
from segue.core.records import Task
from segue.core.timeline import TimelineEntry
from segue.runtime.run import thread_config
from tests.checkpoints.damage import damage
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

Json = dict[str, Any]


def step(number: int) -> Json:
    return {"step": number, "action": "book", "params": {"number": number}, "description": "book", "phase": "execution"}


SCRIPTS: dict[str, list[Any]] = {
    "react": [call_tool(("look", {})), *(call_tool(("book", {"number": n})) for n in (1, 2)), answer("booked")],
    "plan": [plan_json("book", [step(1), step(2)]), "booked"],
    "plan_react": [
        plan_json("book", [step(1), step(2)]),
        *(call_tool(("book", {"number": n})) for n in (1, 2)),
        answer("booked"),
    ],
}


class Hotel:
    """Books rooms, and cancels them."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.keys: set[str] = set()
        self.fails = False

    def agent(self, mode: str = "react", script: Sequence[Any] | None = None) -> Agent:
        def cancel(number: int, call: CallContext) -> str:
            self.keys.add(call.idempotency_key)
            if self.fails:
                raise ConnectionError("the hotel does not answer")
            self.effects.append(f"cancel {number}, {call.result}")
            return f"cancelled {number}"

        @segue.tool(undo=cancel)
        async def book(number: int) -> str:
            """Book a room."""
            self.effects.append(f"book {number}")
            return f"room {number}"

        @segue.tool(read_only=True)
        async def look() -> str:
            """Look at the rooms."""
            return "two rooms"

        model = ScriptedChatModel([*(script or SCRIPTS[mode])])
        return Agent(agent_id="a", model=model, mode=mode, tools=(book, look))


@asynccontextmanager
async def booked(mode: str, more: Sequence[Any] = ()) -> AsyncIterator[tuple[App, Hotel, list[TimelineEntry]]]:
    """An app whose session `s` has booked two rooms, the hotel and the session's timeline."""
    hotel = Hotel()
    async with segue.open(":memory:", agents=[hotel.agent(mode, [*SCRIPTS[mode], *more])]) as app:
        assert (await app.ask("book two rooms", session_id="s", agent="a"))["answer"] == "booked"
        yield app, hotel, await app.rewind.timeline("s")


async def ended(app: App, task: Task) -> Task:
    async for _ in app.follow(task.task_id):
        pass
    return await app.task(task.task_id)


def after_call(timeline: Sequence[TimelineEntry], number: int) -> TimelineEntry:
    """The entry whose snapshot follows the booking of a room."""
    return next(e for e in timeline for h in e.happened if h.get("arguments") == {"number": number})


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_a_timeline_has_each_turn_recursion_and_step_with_its_effects(mode: str) -> None:
    async with booked(mode) as (_, _, timeline):
        first, second = after_call(timeline, 1), after_call(timeline, 2)
        (began,), ended = timeline[0].happened, timeline[-1].happened[-1]
        assert (began["type"], began["text"]) == ("message", "book two rooms")
        assert (ended["type"], ended["text"]) == ("answer", "booked")
        assert [entry.effects_since for entry in (timeline[0], first, second)] == [2, 1, 0]
        assert [effect.arguments for entry in timeline for effect in entry.effects] == [
            {"number": 1},
            {"number": 2},
        ]
        rounds = [entry.recursion for entry in timeline if entry.recursion]
        assert rounds == {"react": [1, 2, 3], "plan": [], "plan_react": [1, 2]}[mode]
        assert first.steps == ([] if mode == "react" else ["1"])


async def test_a_call_that_was_rejected_did_not_run_though_an_equal_one_did() -> None:
    script = [call_tool(("book", {"number": 1})), call_tool(("book", {"number": 1})), answer("booked")]
    agent = Hotel().agent("react", script).model_copy(update={"approve": {"book": "always"}})
    async with segue.open(":memory:", agents=[agent]) as app:
        task = await app.ask("book a room", session_id="s", agent="a")
        for verdict in ("reject", "approve"):
            task = await app.answer(task["task_id"], verdict)
        lines = [line for entry in await app.rewind.timeline("s") for line in entry.happened]
    assert [line["kind"] for line in lines if line["type"] == "call"] == ["not_run", "effect"]


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_a_fork_into_an_ended_task_makes_only_the_calls_after_it(mode: str) -> None:
    async with booked(mode, SCRIPTS[mode][-2:]) as (app, hotel, timeline):
        place = after_call(timeline, 1)
        task = await app.rewind.fork("s", place.short_id, session_id="f")
        assert (task.status, hotel.effects) == ("paused", ["book 1", "book 2"])
        if mode == "plan":
            await app.resume(task.task_id)
            assert hotel.effects == ["book 1", "book 2", "book 2"]
        difference = await app.rewind.diff("s", place.short_id, timeline[-1].short_id)
        assert [call["arguments"] for call in difference.results["b"]] == [{"number": 2}]
        assert difference.results["a"] == difference.messages["a"] == difference.state == []
        if mode != "react":
            assert {"step_id": "2", "description": "book", "a": "pending", "b": "done"} in difference.plan


async def test_a_difference_shows_state_and_prompt() -> None:
    async with booked("react") as (app, _, timeline):
        first, second = after_call(timeline, 1), after_call(timeline, 2)
        difference = await app.rewind.diff("s", first.short_id, second.short_id)
        assert {"name": "iteration", "a": 2, "b": 3} in difference.state
        assert any("room 2" in line for line in difference.prompt if line.startswith("+"))
        same = await app.rewind.diff("s", first.short_id, first.short_id)
        assert (same.state, same.plan, same.prompt) == ([], [], []) and same.results == {"a": [], "b": []}


async def test_the_snapshots_of_a_lifecycle_can_be_compared() -> None:
    script = [json.dumps({"tasks": [{"id": "1", "description": "book"}]}), answer("booked")]
    async with segue.open(":memory:", agents=[Hotel().agent("lifecycle", script)]) as app:
        await app.ask("book a room", session_id="s", agent="a")
        timeline = await app.rewind.timeline("s")
        for entry in timeline:
            difference = await app.rewind.diff("s", timeline[0].short_id, entry.short_id)
        assert difference.plan == [{"step_id": "1", "description": "book", "a": None, "b": "done"}]


async def test_a_step_that_is_tried_again_is_under_way_whatever_its_first_try_came_to() -> None:
    failing = {**step(1), "action": "pay"}
    script = [plan_json("book", [failing]), plan_json("book", [failing]), plan_json("book", [failing]), "not booked"]
    hotel = Hotel()

    @segue.tool
    async def pay(number: int) -> str:
        """Pay a room."""
        raise ConnectionError("the bank does not answer")

    agent = hotel.agent("plan", script)
    async with segue.open(":memory:", agents=[agent.model_copy(update={"tools": (*agent.tools, pay)})]) as app:
        await app.ask("pay a room", session_id="s", agent="a")
        places = [p for p in await app.sessions.snapshots("s") if p.next == ["EXECUTE_STEP"]]
        shown = [(await app.rewind.state("s", place.checkpoint_id)).plan for place in places]
    assert [plan[0]["status"] for plan in shown] == ["running"] * 3


async def test_an_edited_message_starts_its_turn_again() -> None:
    async with booked("react", [answer("hello"), answer("in Xi'an")]) as (app, hotel, _):
        await app.ask("thanks", session_id="s", agent="a")
        timeline = await app.rewind.timeline("s")
        second_turn = next(entry for entry in timeline if entry.turn == 2)
        task = await app.rewind.edit("s", second_turn.short_id, session_id="e", message="and in Xi'an?")
        assert (await ended(app, task)).result["answer"] == "in Xi'an"
        said = [message["content"] for message in await app.history("e") if message["role"] == "user"]
        assert said == ["book two rooms", "and in Xi'an?"]
        assert hotel.effects == ["book 1", "book 2"]
        kept = [message["content"] for message in await app.history("s") if message["role"] == "user"]
        assert kept == ["book two rooms", "thanks"]


async def test_an_edited_plan_is_carried_out() -> None:
    async with booked("plan", ["booked"]) as (app, hotel, timeline):
        plan = [
            {"step_id": "1", "action": "book", "params": {"number": 1}, "status": "running"},
            {"step_id": "2", "action": "book", "params": {"number": 7}},
        ]
        task = await app.rewind.edit("s", after_call(timeline, 1).short_id, session_id="e", state={"plan": plan})
        assert (await ended(app, task)).status == "done"
        assert hotel.effects == ["book 1", "book 2", "book 7"]


async def test_every_edit_is_a_branch_of_one_conversation() -> None:
    async with booked("react", [answer("brief"), answer("again"), answer("forked")]) as (app, _, timeline):
        place = after_call(timeline, 2).short_id
        for changes in ({"state": {"objective": "be brief"}}, {"message": "book none"}):
            task = await ended(app, await app.rewind.edit("s", place, **changes))
            assert task.status == "done"
        branches = await app.sessions.branches("s")
        assert [(each.parent, each.turn) for each in branches] == [("", 1), ("s", 1), ("s", 1)]
        again = (await app.rewind.timeline(branches[1].session_id))[0]
        nested = await ended(
            app, await app.rewind.edit(branches[1].session_id, again.short_id, message="a branch of a branch")
        )
        assert (await app.sessions.branches(nested.session_id))[-1].root == "s"
        assert [row.session_id for row in await app.sessions.list()] == [nested.session_id]
        await app.rewind.fork("s", place, session_id="f")
        assert len(await app.sessions.list()) == 2 and not await app.sessions.branches("f")


async def test_an_edited_step_that_was_dispatched_runs_with_its_new_parameters() -> None:
    async with booked("plan", ["booked"]) as (app, hotel, _):
        first = [place for place in await app.sessions.snapshots("s") if place.next == ["EXECUTE_STEP"]][-1]
        plan = [{"step_id": "1", "action": "book", "params": {"number": 7}, "status": "running"}]
        task = await app.rewind.edit("s", first.checkpoint_id, session_id="e", state={"plan": plan})
        assert (await ended(app, task)).status == "done"
        assert hotel.effects == ["book 1", "book 2", "book 7"]


async def test_an_edit_that_is_killed_before_its_changes_are_stored_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with booked("plan", ["booked"]) as (app, hotel, timeline):
        graph, left = app.rewind._runner.graph, tmp_path / "left.db"
        update = graph.aupdate_state

        async def copying(*arguments: Any, **options: Any) -> Any:
            with (
                closing(sqlite3.connect(app.rewind._storage.database.path)) as file,
                closing(sqlite3.connect(left)) as to,
            ):
                file.backup(to)  # what a kill leaves at this moment
                to.execute("DELETE FROM leases")  # a dead owner's are taken over
                to.commit()
            return await update(*arguments, **options)

        monkeypatch.setattr(graph, "aupdate_state", copying)
        plan = [
            {"step_id": "1", "action": "book", "params": {"number": 1}, "status": "running"},
            {"step_id": "2", "action": "book", "params": {"number": 7}},
        ]
        task = await app.rewind.edit("s", after_call(timeline, 1).short_id, session_id="e", state={"plan": plan})
        assert (await ended(app, task)).status == "done"
    async with segue.open(left, agents=[hotel.agent("react", [answer("hello")])]) as app:
        assert await app.resumable() == []
        with pytest.raises(TaskError, match="is marked for cancellation"):
            await app.resume(task.task_id)
        assert (await app.ask("hello", session_id="e", agent="a"))["answer"] == "hello"
        assert [each.status for each in await app.tasks.list(session_id="e")] == ["done", "cancelled"]
    assert hotel.effects == ["book 1", "book 2", "book 7"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trace_id": "x"}, "The state has no field 'trace_id' that can be changed"),
        ({"iteration": "three"}, "The field 'iteration' has the type number"),
        ({"plan": [{"description": "no id"}]}, "The plan is not valid"),
    ],
)
async def test_a_wrong_edit_is_refused_and_leaves_nothing(changes: Json, said: str) -> None:
    async with booked("react") as (app, _, timeline):
        with pytest.raises(TaskError, match=said):
            await app.rewind.edit("s", after_call(timeline, 1).short_id, session_id="e", state=changes)
        with pytest.raises(TaskError, match="Nothing runs after snapshot"):
            await app.rewind.edit("s", timeline[-1].short_id, session_id="e", state={"mode": "plan"})
        with pytest.raises(InvalidMessage):
            await app.rewind.edit("s", timeline[-1].short_id, session_id="e")
        with pytest.raises(UnknownSnapshot):
            await app.rewind.edit("s", "ffffff", session_id="e", message="x")
        assert await app.tasks.list(session_id="e") == []


async def test_without_its_agent_a_session_has_no_prompt_and_an_edit_leaves_nothing(tmp_path: Path) -> None:
    hotel, path = Hotel(), tmp_path / "segue.db"
    async with segue.open(path, agents=[hotel.agent(script=[*SCRIPTS["react"], answer("hello")])]) as app:
        await app.ask("book two rooms", session_id="s", agent="a")
        await app.ask("thanks", session_id="s", agent="a")
        timeline = await app.rewind.timeline("s")
    first, second = after_call(timeline, 1).short_id, after_call(timeline, 2).short_id
    async with segue.open(path, agents=[Agent(agent_id="b", model=ScriptedChatModel([]))]) as app:
        assert (await app.rewind.diff("s", first, second)).prompt == []
        with pytest.raises(UnknownAgent):
            await app.rewind.edit("s", timeline[-1].short_id, session_id="e", message="and in Xi'an?")
        with pytest.raises(UnknownAgent):
            await app.rewind.edit("s", first, session_id="e", state={"iteration": 3})
    async with segue.open(path, agents=[hotel.agent(script=[answer("in Xi'an")])]) as app:
        task = await app.rewind.edit("s", timeline[-1].short_id, session_id="e", message="and in Xi'an?")
        assert (await ended(app, task)).result["answer"] == "in Xi'an"


async def test_a_message_is_edited_only_where_its_turn_is_known(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    async with segue.open(path, agents=[Hotel().agent()]) as app:
        await app.ask("book two rooms", session_id="s", agent="a")
        newest = (await app.rewind.timeline("s"))[-1].checkpoint_id
        damage(path, f"UPDATE checkpoints SET metadata = '{{' WHERE checkpoint_id = '{newest}'")
        with pytest.raises(TaskError, match="belongs to no message of session 's'"):
            await app.rewind.edit("s", newest, session_id="e", message="hello")


async def test_calls_after_a_snapshot_are_undone_once_newest_first_and_the_trace_shows_it() -> None:
    async with booked("react") as (app, hotel, timeline):
        task_id, place = timeline[0].task_id, timeline[0].short_id
        assert [effect.undo for effect in await app.rewind.effects("s", place)] == ["available", "available"]
        undone = await app.rewind.undo("s", place)
        assert [effect.result for effect in undone] == [{"success": "cancelled 2"}, {"success": "cancelled 1"}]
        assert hotel.effects[2:] == ["cancel 2, room 2", "cancel 1, room 1"]
        assert await app.rewind.undo("s", place) == []
        assert [effect.undo for effect in await app.rewind.effects("s", place)] == ["done", "done"]
        made = [(call.name, call.outcome) for call in (await app.trace(task_id)).calls]
        assert made[-1] == ("book_undo", {"success": "cancelled 1"})


async def test_a_fork_does_not_undo_what_its_original_undid() -> None:
    async with booked("react") as (app, hotel, timeline):
        await app.rewind.fork("s", timeline[-1].short_id, session_id="f")
        await app.rewind.undo("f", after_call(timeline, 1).short_id)
        await app.rewind.undo("s", timeline[0].short_id)
        assert hotel.effects[2:] == ["cancel 2, room 2", "cancel 1, room 1"]


async def test_a_failed_undo_may_be_repeated_with_the_same_key() -> None:
    async with booked("react") as (app, hotel, timeline):
        place, hotel.fails = after_call(timeline, 1).short_id, True
        (failed,) = await app.rewind.undo("s", place)
        assert "the hotel does not answer" in failed.result["error"]
        assert [effect.undo for effect in await app.rewind.effects("s", place)] == ["failed"]
        hotel.fails = False
        (undone,) = await app.rewind.undo("s", place)
        assert undone.result == {"success": "cancelled 2"}
        assert len(hotel.keys) == 1


async def test_an_error_between_two_undos_keeps_the_first() -> None:
    """The second call was made in the session that was forked, which is busy."""
    async with booked("plan", SCRIPTS["plan"][-1:]) as (app, hotel, timeline):
        task = await app.rewind.fork("s", after_call(timeline, 1).short_id, session_id="f")
        await app.resume(task.task_id)
        async with app._runner.leased("s"):
            undone = await app.rewind.undo("f", timeline[0].short_id)
        assert [(each.arguments["number"], each.undo) for each in undone] == [(2, "done"), (1, "failed")]
        assert undone[1].result["error"] == str(ThreadBusy("s"))
        assert [effect.undo for effect in await app.rewind.effects("f", timeline[0].short_id)] == ["available", "done"]
        assert hotel.effects[3:] == ["cancel 2, room 2"]


async def test_nothing_is_undone_while_a_task_runs() -> None:
    async with booked("react") as (app, hotel, timeline):
        async with app._runner.leased("s"):
            with pytest.raises(ThreadBusy):
                await app.rewind.undo("s", timeline[0].short_id)
        assert hotel.effects == ["book 1", "book 2"]


async def test_an_undo_that_was_interrupted_is_not_made_again(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def cancel(number: int) -> str:
        begun.set()
        await asyncio.Event().wait()
        return str(number)

    @segue.tool(undo=cancel)
    async def book(number: int) -> str:
        """Book a room."""
        return f"room {number}"

    script = [call_tool(("book", {"number": 1})), answer("booked")]
    agent = Agent(agent_id="a", model=ScriptedChatModel(script), mode="react", tools=(book,))
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        await app.ask("book", session_id="s", agent="a")
        place = (await app.rewind.timeline("s"))[0].short_id
        undoing = asyncio.create_task(app.rewind.undo("s", place))
        await begun.wait()
        undoing.cancel()
        await asyncio.gather(undoing, return_exceptions=True)
        (undone,) = await app.rewind.undo("s", place)
        assert undone.result["unknown_outcome"] is True
        assert [effect.undo for effect in await app.rewind.effects("s", place)] == ["unknown"]
        assert await app.rewind.undo("s", place) == []


async def test_snapshots_are_langgraphs_checkpoints() -> None:
    """What Studio does with them: read the history of a nested graph, change its state and go on from there."""
    async with booked("react", [answer("enough")]) as (app, _, timeline):
        graph, saver = app._runner.graph, app._runner.saver
        listed = [found async for found in saver.alist(thread_config("s"))]
        ids = {found.config["configurable"]["checkpoint_id"]: found.config for found in listed}
        inner = ids[after_call(timeline, 1).checkpoint_id]
        place = {name: inner["configurable"][name] for name in ("thread_id", "checkpoint_ns")}
        states = [state async for state in graph.aget_state_history({"configurable": place})]
        known = {state.config["configurable"]["checkpoint_id"] for state in states}
        assert {entry.checkpoint_id for entry in timeline if entry.inside} <= known
        changed = await graph.aupdate_state(inner, {"iteration": 9}, as_node="CALL_TOOL")
        state = await graph.aget_state(changed)
        assert (state.next, state.values["iteration"]) == (("INPUT",), 9)


# Deletion of a session: nothing of it is left in the database, and nothing else is touched.

SECRET = "4929-1234-5678"


def agent(*script: str) -> Agent:
    async def note(text: str) -> str:
        """Note a text."""
        return f"noted {text}"

    return Agent(agent_id="a", model=ScriptedChatModel(list(script)), mode="react", tools=(note,))


def left_over(database: Path, *words: str) -> list[str]:
    """The words that any of the database's files holds."""
    held = b"".join(path.read_bytes() for path in database.parent.rglob("*") if path.is_file())
    return [word for word in words if word.encode() in held]


async def test_nothing_of_a_deleted_session_is_left_in_the_file(tmp_path: Path) -> None:
    database = tmp_path / "segue.db"
    script = [call_tool(("note", {"text": SECRET})), answer(f"It is {SECRET}.")]
    async with segue.open(database, agents=[agent(*script, answer("kept"), answer("new"))]) as app:
        first = await app.ask(f"note {SECRET}", session_id="secret-session", agent="a")
        await app.ask("keep me", session_id="other", agent="a")
        others = (await app.history("other"), await app.trace((await app.tasks.list(session_id="other"))[0].task_id))
        assert left_over(database, SECRET, "secret-session", first["task_id"])
        await app.sessions.delete("secret-session")
        assert not left_over(database, SECRET, "secret-session", first["task_id"])
        with pytest.raises(UnknownThread):
            await app.history("secret-session")
        with pytest.raises(UnknownThread):
            await app.sessions.delete("secret-session")
        assert others == (await app.history("other"), await app.trace(others[1].task.task_id))
        assert (await app.ask("again", session_id="secret-session", agent="a"))["answer"] == "new"
        assert [message["content"] for message in await app.history("secret-session")] == ["again", "new"]


async def test_a_busy_session_is_not_deleted() -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        """Wait."""
        entered.set()
        await gate.wait()
        return "held"

    model = ScriptedChatModel([call_tool(("hold", {})), answer("done")])
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=model, mode="react", tools=(hold,))]) as app:
        asking = asyncio.create_task(app.ask("go", session_id="s", agent="a"))
        await entered.wait()
        with pytest.raises(ThreadBusy):
            await app.sessions.delete("s")
        gate.set()
        assert (await asking)["answer"] == "done"
        await app.sessions.delete("s")
        assert await app.threads() == []


async def test_a_former_owner_cannot_write_to_a_session_that_was_deleted_and_began_anew(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[agent(answer("old"), answer("new"))]) as app:
        await app.ask("go", session_id="s", agent="a")
        before = await fence_of(app)
        await app.sessions.delete("s")
        await app.ask("go", session_id="s", agent="a")
        assert await fence_of(app) > before


async def fence_of(app: App) -> int:
    query = "SELECT fence FROM leases WHERE thread_id = 's'"
    return int(await app._storage.database.read(lambda connection: connection.execute(query).fetchone()[0]))
