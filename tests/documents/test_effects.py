"""Effects: the context that a tool gets, its idempotency key, and the check of an interrupted call."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.tools import InjectedToolArg, StructuredTool

import segue
from segue import NOT_DONE, Agent, App, CallContext
from segue.core.errors import ConfigurationError
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

STEP = {"step": 1, "action": "pay", "params": {"order": "A1"}, "description": "pay", "phase": "execution"}
SCRIPTS = {
    "react": [call_tool(("pay", {"order": "A1"})), *[answer("paid")] * 3],
    "plan": [plan_json("pay", [STEP]), *["paid"] * 3],
}


class Shop:
    """A tool that takes effect and then hangs until its process stops, the first time."""

    def __init__(self) -> None:
        self.calls: list[CallContext] = []
        self.took_effect = asyncio.Event()
        self.hang = True

    def tool(self, check: Callable[..., Any] | None = None) -> Any:
        async def pay(order: str, call: CallContext) -> str:
            """Pay an order."""
            self.calls.append(call)
            self.took_effect.set()
            if self.hang:
                await asyncio.Event().wait()
            return f"{order} paid"

        return segue.tool(check=check)(pay)

    @property
    def keys(self) -> set[str]:
        return {call.idempotency_key for call in self.calls}


def agent_of(tool: Any, mode: str = "react", script: list[Any] | None = None) -> Agent:
    return Agent(agent_id="a", model=ScriptedChatModel(script or SCRIPTS[mode]), mode=mode, tools=(tool,))


async def interrupt(app: App, shop: Shop, mode: str = "react") -> str:
    """Begin a task and stop it once its payment took effect."""
    asking = asyncio.create_task(app.ask("pay A1", session_id="s", agent="a", mode=mode, user_id="ann"))
    await asyncio.wait_for(shop.took_effect.wait(), 60)
    (row,) = await app.tasks()
    app.stop_now(row["task_id"])
    await asyncio.gather(asking, return_exceptions=True)
    shop.hang = False
    return str(row["task_id"])


async def outcome_after(database: Path, check: Callable[..., Any] | None, mode: str = "react") -> tuple[Shop, Any]:
    """The shop, and the stored outcome of a payment that was interrupted and resumed by another worker."""
    shop = Shop()
    agent = agent_of(shop.tool(check), mode)
    async with segue.open(database, agents=[agent]) as app:
        task_id = await interrupt(app, shop, mode)
    async with segue.open(database, agents=[agent]) as other:
        await other.resume(task_id)
        (call,) = (await other.trace(task_id))["calls"]
    return shop, call["outcome"]


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_what_a_check_finds_settles_an_interrupted_call(database: Path, mode: str) -> None:
    asked: list[tuple[str, CallContext]] = []

    async def was_paid(order: str, call: CallContext) -> str:
        asked.append((order, call))
        return f"{order} was paid"

    shop, outcome = await outcome_after(database, was_paid, mode)
    assert outcome == {"success": "A1 was paid"}
    assert len(shop.calls) == 1
    ((order, context),) = asked
    assert (order, context.attempt, context.idempotency_key) == ("A1", 2, shop.calls[0].idempotency_key)


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_a_call_that_was_not_done_is_run_again_with_the_same_key(database: Path, mode: str) -> None:
    shop, outcome = await outcome_after(database, lambda: NOT_DONE, mode)
    assert outcome == {"success": "A1 paid"}
    first, second = shop.calls
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key != ""
    assert (first.session_id, first.user_id, first.tool) == ("s", "ann", "pay")
    assert bool(first.trace_id) == (mode == "react")
    assert bool(first.step_id) == (mode == "plan")


def fails() -> str:
    raise ConnectionError("the bank does not answer")


@pytest.mark.parametrize("check", [None, fails, lambda: None])
async def test_only_where_no_check_can_tell_is_the_outcome_unknown(
    database: Path, check: Callable[..., Any] | None
) -> None:
    shop, outcome = await outcome_after(database, check)
    assert outcome["unknown_outcome"] is True
    assert len(shop.calls) == 1


@pytest.mark.parametrize("mode", SCRIPTS)
async def test_a_fork_and_an_import_keep_the_key(database: Path, mode: str) -> None:
    shop = Shop()
    async with segue.open(database, agents=[agent_of(shop.tool(lambda: NOT_DONE), mode)]) as app:
        await interrupt(app, shop, mode)
        (latest, *_) = [s for s in await app.snapshots("s") if not s["inside"]]
        copy = await app.fork("s", latest["checkpoint_id"], session_id="copy")
        imported = await app.import_(await app.export("s"), session_id="imported")
        await app.resume(copy["task_id"])
        await app.resume(imported["task_id"])
    assert [call.session_id for call in shop.calls] == ["s", "copy", "imported"]
    assert len(shop.keys) == 1


async def test_two_calls_alike_have_two_keys(database: Path) -> None:
    shop = Shop()
    shop.hang = False
    script = [*SCRIPTS["react"][:1] * 2, answer("paid twice")]
    async with segue.open(database, agents=[agent_of(shop.tool(), script=script)]) as app:
        await app.ask("pay A1 twice", agent="a")
    assert len(shop.calls) == len(shop.keys) == 2


def of_langchain(seen: list[CallContext], synchronous: bool) -> StructuredTool:
    def pay(order: str, call: Annotated[CallContext, InjectedToolArg]) -> str:
        """Pay an order."""
        seen.append(call)
        return f"{order} paid"

    async def pay_async(order: str, call: CallContext) -> str:
        """Pay an order."""
        return pay(order, call)

    if synchronous:
        return StructuredTool.from_function(pay)
    return StructuredTool.from_function(coroutine=pay_async, name="pay")


@pytest.mark.parametrize("kind", ["langchain", "langchain async", "function"])
async def test_the_context_reaches_every_kind_of_tool_and_no_model_sees_it(kind: str) -> None:
    seen: list[CallContext] = []

    def pay(order: str, call: CallContext | None = None) -> str:
        """Pay an order."""
        assert call
        seen.append(call)
        return f"{order} paid"

    tool = pay if kind == "function" else of_langchain(seen, synchronous=kind == "langchain")
    model = ScriptedChatModel(SCRIPTS["react"])
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=model, mode="react", tools=(tool,))]) as app:
        result = await app.ask("pay A1", agent="a")
    assert result["history"][0]["result"] == {"success": "A1 paid"}
    assert seen[0].idempotency_key
    sent = str(model.calls[0])
    assert '"order"' in sent
    assert '"call"' not in sent


async def test_a_check_may_only_ask_for_arguments_of_its_tool() -> None:
    def was_paid(invoice: str) -> str:
        return invoice

    with pytest.raises(ConfigurationError, match="The check of the tool pay asks for invoice"):
        async with segue.open(":memory:", agents=[agent_of(Shop().tool(was_paid))]):
            pass
