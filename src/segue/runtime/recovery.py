"""Recovery of a damaged session: its records are repaired, and it goes back to the newest readable state."""

from langchain_core.runnables import RunnableConfig

from ..checkpoints.storage import Storage
from ..core.records import Recovery
from ..prompts.language import Language
from .runner import Runner, thread_config
from .thread_state import state_at

_NO_RESULT = frozenset({"__error__", "__interrupt__", "__resume__"})
"""LangGraph's channels of what a step that has not ended may write."""


async def recover_session(storage: Storage, runner: Runner, thread_id: str, language: Language) -> Recovery:
    """Repair the records and go back to the newest state that can be read.

    Raises:
        UnknownThread, ThreadBusy, NothingReadable, DatabaseUnavailable; nothing was changed.
    """

    async def readable(config: RunnableConfig) -> None:
        await state_at(runner.graph, config)

    async with runner.leased(thread_id):
        return await storage.sessions.recover(runner.saver, readable, thread_id, language)


async def make_again(runner: Runner, thread_id: str) -> None:
    """Make the next checkpoint from what the steps before it wrote, where that is all there: no node runs for it."""
    found = await runner.saver.aget_tuple(thread_config(thread_id))
    if found is None:
        return
    # By its id a checkpoint is shown as it was made, with the steps that have ended since.
    state = await runner.graph.aget_state(found.config)
    written = {step for step, channel, _ in found.pending_writes or () if channel not in _NO_RESULT}
    if not state.tasks or any(task.id not in written for task in state.tasks):
        return
    metadata = {name: value for name, value in (state.metadata or {}).items() if name.startswith("segue_")}
    config: RunnableConfig = {**thread_config(thread_id), "metadata": metadata}
    await runner.graph.ainvoke(None, config, durability="sync", interrupt_after="*")
