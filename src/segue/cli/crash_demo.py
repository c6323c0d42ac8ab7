"""The agents of `segue demo --crash`: each pays an invoice, and its first process is killed during the payment."""

import asyncio
import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

INVOICE, AMOUNT = 2041, 1250
_MESSAGE = f"Pay invoice {INVOICE}"
CALLS = ("find_invoice", "find_vendor", "check_budget", "pay_invoice", "send_receipt", "close_invoice")
PAYMENT = "pay_invoice"
BANK = "bank.txt"
"""A line for each payment that the bank has made: the world outside, which no restart takes back."""
_STEP_SECONDS = 0.2
"""What each call takes, so that a person can watch."""
NEEDED = (
    __name__,
    "segue.entry",
    "segue.graphs.react",
    "segue.models.chat_object",
    "langgraph.checkpoint.sqlite.aio",
    "langchain.agents",
)
"""The modules that the agents import."""

_Happening = Literal["kept", "began", "done", "checked"]
"""`kept`: its result was stored when the process began; `checked`: its tool asked the bank whether it took effect."""
_Report = Callable[[str, _Happening], None]


class _Office:
    """The tools of both agents, over a bank in a folder. The first payment kills its process."""

    def __init__(self, folder: Path, report: _Report) -> None:
        self.bank = folder / BANK
        self.report = report

    def tools(self) -> list[Callable[[int], str]]:
        return [self._pay_tool() if name == PAYMENT else self._other_tool(name) for name in CALLS]

    def was_paid(self, invoice: int) -> object:
        """Ask the bank for a payment."""
        from segue import NOT_DONE

        self.report(PAYMENT, "checked")
        return f"Invoice {invoice} is paid." if self.payments() else NOT_DONE

    def payments(self) -> list[str]:
        return self.bank.read_text(encoding="utf-8").splitlines() if self.bank.exists() else []

    def _pay_tool(self) -> Callable[[int], str]:
        def pay_invoice(invoice: int) -> str:
            """Pay an invoice."""
            is_first = not self.payments()
            self.report(PAYMENT, "began")
            time.sleep(_STEP_SECONDS)
            with self.bank.open("a", encoding="utf-8") as bank:
                bank.write(f"{invoice} {AMOUNT}\n")
            if is_first:
                os.kill(os.getpid(), signal.SIGKILL)
            self.report(PAYMENT, "done")
            return f"Invoice {invoice} is paid."

        return pay_invoice

    def _other_tool(self, name: str) -> Callable[[int], str]:
        def call(invoice: int) -> str:
            self.report(name, "began")
            time.sleep(_STEP_SECONDS)
            self.report(name, "done")
            return "OK"

        call.__name__, call.__doc__ = name, f"{name.replace('_', ' ').capitalize()}."
        return call


def play(agent: str, folder: Path, report: _Report) -> None:
    """Begin an agent's task in an empty folder; in one with its database, continue it."""
    warnings.simplefilter("ignore")
    asyncio.run((_run_segue if agent == "segue" else _run_create_agent)(folder, report))


async def _run_segue(folder: Path, report: _Report) -> None:
    import segue

    office, database = _Office(folder, report), folder / "segue.db"
    is_first = not database.exists()
    tools = [segue.tool(check=office.was_paid if each.__name__ == PAYMENT else None)(each) for each in office.tools()]
    clerk = segue.Agent(agent_id="clerk", model=_script(), protocol="native", mode="react", tools=tools)
    async with segue.open(database, agents=[clerk], dispatch="never") as app:
        if is_first:
            await app.ask(_MESSAGE, agent="clerk")
            return
        (task,) = await app.resumable()
        for call in (await app.trace(task.task_id)).calls:
            if call.state == "done":
                report(call.name, "kept")
        await app.resume(task.task_id)


async def _run_create_agent(folder: Path, report: _Report) -> None:
    """The same with LangChain's agent and LangGraph's saver, which stores each step before the next one begins."""
    from langchain.agents import create_agent
    from langchain_core.messages import ToolMessage
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    database = folder / "checkpoints.db"
    given: Any = None if database.exists() else {"messages": [("user", _MESSAGE)]}
    config: Any = {"configurable": {"thread_id": "clerk"}}
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        agent = create_agent(_script(), _Office(folder, report).tools(), checkpointer=saver)
        for message in (await agent.aget_state(config)).values.get("messages", ()):
            if isinstance(message, ToolMessage):
                report(str(message.name), "kept")
        await agent.ainvoke(given, config, durability="sync")


def _script() -> "BaseChatModel":
    """A chat model that makes the six calls, one in each reply, and then answers."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
    from langchain_core.messages.tool import tool_call
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Script(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "script"

        def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
            return self

        def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
            made = sum(isinstance(message, ToolMessage) for message in messages)
            reply = AIMessage(f"Invoice {INVOICE} is paid.")
            if made < len(CALLS):
                next_call = tool_call(name=CALLS[made], args={"invoice": INVOICE}, id=f"call_{made}")
                reply = AIMessage("", tool_calls=[next_call])
            return ChatResult(generations=[ChatGeneration(message=reply)])

    return Script()
