"""MEMORY_READING: a round begins with what the memory files say, if a round is left."""

from segue.core.errors import MemoryUnavailable
from segue.core.events import ErrorRaised, Phase, RoundStart
from segue.core.flows import FlowConfig
from segue.prompts.catalogue import phrase
from segue.prompts.errors import render

from ..shared.context import NodeContext, NodeRuntime, announce
from ..shared.repeated_calls import repeated_failure
from .branches import branches_of, flow_context, ids_of
from .hooks import at_max_round, exit_of, unfinished
from .outcome import rounds_of
from .state import FlowNode, FlowState, FlowUpdate


def memory_reading(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Number the round and read what is recent and relevant; at the last round the flow's hook ends it."""
        work = flow_context(runtime, config)
        if config.max_round is not None and state["round"] >= config.max_round:
            return {"early_exit": exit_of(await at_max_round(config, state))}
        if work.seconds_since(state["started_at"]) > work.agent.budget.seconds:
            why = phrase("spent_seconds", state["language"], n=f"{work.agent.budget.seconds:g}")
            return {"early_exit": exit_of(unfinished(state, why))}
        if why := repeated_failure(rounds_of(state), branches_of(config, work), state["language"]):
            return {"early_exit": exit_of(unfinished(state, why))}
        begun: FlowUpdate = {
            "round": state["round"] + 1,
            "trace_id": work.services.ids.trace(),
            "asked": 0,
            "complaint": "",
            "branch_node": "",
            "call": None,
            "outcome": None,
        }
        ids = ids_of({**state, **begun})
        about = {"flow": config.name, "i": begun["round"], "n": config.max_round or "∞"}
        work.emit(Phase(task_id=state["task_id"], content=phrase("flow_round", state["language"], **about)))
        memory, error = await _read(config, state, work)
        start = RoundStart(flow=config.name, max_round=config.max_round or 0, **ids)
        failed = [ErrorRaised(message=error, **ids)] if error else []
        begun["memory"] = memory
        begun["memory_error"] = error or state["memory_error"]
        return {**begun, "events": announce(start, *failed)}

    return node


async def _read(config: FlowConfig, state: FlowState, work: NodeContext) -> tuple[str, str]:
    """What the files say within the budget, or why they cannot be read."""
    if not config.reads_memory:
        return "", ""
    reading = config.subflows_config.memory_reading
    names = state["files"] if reading.files is None else reading.files
    most = reading.tokens or work.agent.budget.prompt_tokens // 4
    try:
        return await work.services.memory.read([state["files"][name] for name in names], state["objective"], most), ""
    except MemoryUnavailable as error:
        return "", render(error, state["language"])
