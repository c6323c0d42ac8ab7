"""The hooks of a flow: the defaults, and calls of those that its configuration names."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from inspect import isawaitable
from typing import Any, cast

from segue.core.errors import ConfigurationError
from segue.core.flows import (
    BUILT_INS,
    BranchInput,
    ControllerDecision,
    EarlyExit,
    FlowConfig,
    OnReachMaxRound,
    early_exit,
)
from segue.prompts.catalogue import phrase

from .state import FlowState


async def finish_or_continue(
    config: FlowConfig, decision: ControllerDecision, state: FlowState
) -> EarlyExit | BranchInput:
    """What the flow's `detect_finish_or_continue` says; the default one ignores built-in branches that are left out.

    Raises:
        ConfigurationError: it returned something else than the two.
    """
    left_out = {*BUILT_INS} - {*config.subflows_config.executor.built_ins}
    if config.finish_detector is None and decision.command in left_out:
        return BranchInput(decision.command, decision.command_args)
    hook = config.finish_detector or detect_finish_or_continue
    given = hook(decision, cast(Mapping[str, Any], state))
    found = await given if isawaitable(given) else given
    if isinstance(found, BranchInput):
        return found
    if isinstance(found, Mapping) and not found.get("EARLY_EXIT"):
        raise ConfigurationError(
            "The hook detect_finish_or_continue of the flow {flow} returned {found}: return a BranchInput, an "
            "EarlyExit, or a mapping with EARLY_EXIT.",
            flow=config.name,
            found=repr(found),
        )
    return early_exit(cast(EarlyExit, found))


async def at_max_round(config: FlowConfig, state: FlowState) -> EarlyExit:
    """What the flow's `on_reach_max_round` says, which is always unfinished."""
    hook: OnReachMaxRound = config.on_reach_max_round or on_reach_max_round
    given = hook(cast(Mapping[str, Any], state))
    end = early_exit(await given if isawaitable(given) else given)
    return replace(end, status="unfinished")  # the goal was not met, whatever the hook says


def detect_finish_or_continue(decision: ControllerDecision, state: Mapping[str, Any]) -> EarlyExit | BranchInput:
    """End the flow on the three commands that end it; any other is a branch."""
    args = decision.command_args
    match decision.command:
        case "final_answer":
            answer = str(args.get("answer", ""))
            return EarlyExit(answer, phrase("flow_answered", state["language"], answer=answer))
        case "finish":
            summary = str(args.get("summary", ""))
            return EarlyExit(args.get("result") or summary, summary)
        case "manual_finish":
            return manual_finish(state)
        case _:
            return BranchInput(decision.command, args)


def manual_finish(state: Mapping[str, Any]) -> EarlyExit:
    """The flow was ended by the person."""
    return replace(unfinished(state, phrase("flow_terminated", state["language"])), by_user=True)


def on_reach_max_round(state: Mapping[str, Any]) -> EarlyExit:
    """The flow was ended by its limit."""
    return unfinished(state, phrase("flow_max_round", state["language"], n=state["round"]))


def unfinished(state: Mapping[str, Any], why: str) -> EarlyExit:
    """An end before the goal was met, with what was done."""
    done = [f"- {record['summary']}" for record in state["records"][-_SHOWN:]]
    left_out = len(state["records"]) - len(done)
    shown = [*([f"- … ({left_out})"] if left_out > 0 else []), *done]
    nothing = phrase("nothing_found", state["language"])
    text = phrase("flow_unfinished", state["language"], why=why, done="\n".join(shown) or nothing)
    return EarlyExit(text, text, "unfinished")


_SHOWN = 20
"""Rounds that the summary of an unfinished flow lists."""


def exit_of(end: EarlyExit) -> dict[str, Any]:
    """The form in the state."""
    return {"EARLY_EXIT": True, **asdict(end)}
