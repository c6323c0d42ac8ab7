"""The chat graph: state, routes and nodes."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.graph.state import CompiledStateGraph

from segue.core.conversation import MODE
from segue.core.errors import ModelError, UnknownMode
from segue.core.events import Answer, Fallback, ModelCalled, ModeReason, ModeSelected, TaskStarted
from segue.core.message import AnswerFormat
from segue.core.models import ModelReply, ModelRequest
from segue.prompts.catalogue import phrase, render, without_quotations

from .context import Node, NodeContext, NodeRuntime, announce, as_json, calls_in, node_context, window
from .model_call import Listener, ask_model, extract, refused_call
from .own_mode import run_graph
from .task import Assignment, TaskState, before_objective, begin, compose_result, end_task

# State of the chat graph.


class ChatState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    mode: str
    """SELECT_MODE, and a mode that falls back to another."""
    gave_up: str
    """Why the last mode gave up; empty if it did not. The modes."""


ChatUpdate = ChatState
"""What a node returns: the channels that it changes."""
ChatNode = Node[ChatState, ChatUpdate]


# Routers of the chat graph.


def after_select_mode(state: ChatState) -> str:
    """The chosen mode's node."""
    return state["mode"]


def after_mode(state: ChatState) -> Literal["react", "FINISH"]:
    """A mode that gave up is followed by react."""
    return "react" if state["gave_up"] else "FINISH"


# INIT: a new task on the thread.


async def init(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Mint the task's id, unless the app has, and reset everything that belongs to a task."""
    work = node_context(runtime)
    fresh = begin(state["messages"], state.get("assignment"), runtime)
    tools = work.services.agents.tools_in(work.agent, work.context.mode or work.agent.mode)
    started = TaskStarted(
        task_id=fresh["task_id"],
        message=fresh["objective"],
        agent_id=work.agent.agent_id,
        model=work.model.name,
        effects=sorted(name for name, tool in {**work.tools, **tools}.items() if not tool.read_only),
    )
    fresh["nested"] = False  # the app hands down the id of a task that this graph ends
    return {**cast(ChatUpdate, fresh), "mode": "", "gave_up": "", "events": announce(started)}


# SELECT_MODE: the mode that was asked for, or the one that suits the message.

AUTO = "auto"
Picked = Literal["direct", "react", "plan"]
DEFAULT: Picked = "react"
_NAMED = re.compile(r"\b(?:direct|react|plan)\b")

_GREETING = re.compile(
    r"(?:(?:你好|您好|你们好|大家好|嗨|哈喽|哈啰|在吗|在么|在不在|早上好|早安|上午好|中午好|下午好|晚上好|晚安|"
    r"(?:非常|十分|太|多)?(?:感谢|谢谢|谢)|辛苦了|不客气|再见|拜拜|回头见|最近好|最近怎么样|你怎么样)"
    r"(?:[呀啊哦吗呢啦了]|[你您]们?|大家|世界|朋友|再见)*|"
    r"(?:hello|hi|hey|hiya|howdy|good (?:morning|afternoon|evening|night)|how are you|how do you do|how's it going|"
    r"what's up|(?:nice|pleased|good) to meet you|(?:many )?thanks|thank you|cheers|bye|goodbye|see you|take care)"
    r"(?: (?:there|all|everyone|world|again|friend|my friend|you|doing|today|a lot|very much|so much|later|soon|"
    r"tomorrow))*"
    r"(?![\w'])) ?",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[^\w']+")
_PLAN = re.compile(
    r"(?:规划|计划)(?!经济|生育|专业|局|师|学)|行程|攻略|\b(?:plan|plans|planning|itinerary|itineraries)\b",
    re.IGNORECASE,
)
_DEFINITION = re.compile(
    r"什么是.{0,6}(?:规划|计划|行程|攻略)\W*$|(?:规划|计划|行程|攻略)(?:是什么|是啥|什么意思|的意思|的定义)|"
    r"^(?:what(?:'s| is| are)|define|explain)(?: \w+)? (?:plans?|planning|itinerar(?:y|ies))\W*$",
    re.IGNORECASE,
)
"""A question what a plan is."""
_TARIFF = re.compile(
    r"\b(?:phone|mobile|data|price|pricing|subscription|insurance|pension|floor|free|basic|pro|premium) plans?\b",
    re.IGNORECASE,
)
"""A plan that is bought, or drawn."""


def select_mode(modes: Collection[str]) -> ChatNode:
    """The node over these modes."""

    async def select(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Choose who carries the task.

        Raises:
            UnknownMode: listing the modes there are.
        """
        work = node_context(runtime)
        asked = work.context.mode or work.agent.mode
        if asked == AUTO:
            return await _pick(state, work)
        if asked not in modes:
            raise UnknownMode(asked, [*modes, AUTO])
        selected = ModeSelected(task_id=state["task_id"], mode=asked, reason=ModeReason.ASKED_FOR.value)
        return {"mode": asked, "events": announce(selected)}

    return select


async def _pick(state: ChatState, work: NodeContext) -> ChatUpdate:
    """Pick by the rules; where they do not tell, ask the model if the agent is set so."""
    known = DEFAULT if work.services.reply_options.required_tool else rule_for(state["objective"])
    if known is None and work.agent.auto == "model" and work.model.is_language_model:
        return await _ask(state, work)
    selected = ModeSelected(task_id=state["task_id"], mode=known or DEFAULT, reason=ModeReason.PICKED.value)
    return {"mode": known or DEFAULT, "events": announce(selected)}


async def _ask(state: ChatState, work: NodeContext) -> ChatUpdate:
    """Have the model pick; where it does not, or names no mode, the default carries the task."""
    system = render(
        "select_mode", state["language"], tools=", ".join(work.tools) or phrase("no_tools", state["language"])
    )
    messages = [SystemMessage(system), HumanMessage(state["objective"])]
    request = ModelRequest(purpose="decide", messages=messages)
    ids: dict[str, Any] = {"task_id": state["task_id"]}
    try:
        asked = await ask_model(work, request, Listener, state["usage"], ids, state["language"])
    except ModelError as error:
        picked = ModeSelected(mode=DEFAULT, reason=ModeReason.PICKED.value, **ids)
        return {"mode": DEFAULT, "events": announce(await refused_call(work, request, error, ids), picked)}
    named = None if asked.reply.unreadable else _NAMED.search(asked.reply.text.lower())
    mode = named[0] if named else DEFAULT
    reason = ModeReason.PICKED_BY_MODEL if named else ModeReason.PICKED
    selected = ModeSelected(task_id=state["task_id"], mode=mode, reason=reason.value)
    return {"mode": mode, "usage": asked.usage, "events": announce(asked.event, selected)}


def rule_for(message: str) -> Picked | None:
    """The mode that the words of a message call for: direct for a mere greeting, plan for a wish for one, else none."""
    text = message.replace("’", "'")
    if _is_greeting(text):
        return "direct"
    own = without_quotations(text).strip() or text
    return "plan" if _PLAN.search(_TARIFF.sub("", own)) and not _DEFINITION.search(own) else None


def _is_greeting(text: str) -> bool:
    words = _MARKS.sub(" ", text).strip()
    return bool(words) and not _GREETING.sub("", words)


# One node a mode: hand its graph a window of the history, take back what is new.

ModeGraph = CompiledStateGraph[Any, Any, Any, Any]

FALLBACKS: Mapping[str, str] = {"direct": "react", "plan": "react", "plan_react": "react"}
"""The fallback of each mode that fails."""


def run_mode(name: str, graph: ModeGraph, *, own: bool = False) -> ChatNode:
    """The node of one mode; `own`: its graph is none of Segue's.

    The graph is given `messages` (the window, ending with the user's message) and `assignment`; it returns `messages`
    with its own appended, and one of Segue's returns `result` or `gave_up` (why another mode should take over).
    """

    async def run(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Carry the task in this mode."""
        work = node_context(runtime)
        budget = work.agent.budget
        past = before_objective(state["messages"])
        since = state["messages"][len(past) :]
        window_of_past = window(past, budget.prompt_tokens, budget.result_chars)
        inherited: Assignment = {
            "task_id": state["task_id"],
            "language": state["language"],
            "usage": state["usage"],
            "started_at": state["started_at"],
            "done": calls_in(since),
        }
        given = {"messages": [*window_of_past, *since], "assignment": inherited}
        if own:
            update = await run_graph(name, graph, given, state, runtime, work, state["messages"])
            return {**cast(ChatUpdate, update), "gave_up": ""}
        out = await graph.ainvoke(given, context=runtime.context)
        fresh = out["messages"][len(window_of_past) + len(since) :]
        if out.get("gave_up") and name in FALLBACKS:
            return _fall_back(state, name, out, fresh)
        if out.get("gave_up"):
            failed = compose_result(name, "", usage=out.get("usage"), error=out["gave_up"])
            return {"messages": fresh, "result": failed, "gave_up": ""}
        return {"messages": fresh, "result": out["result"], "gave_up": ""}

    return run


def _fall_back(state: ChatState, name: str, out: Mapping[str, Any], fresh: list[AnyMessage]) -> ChatUpdate:
    """What was done and used so far goes along, so that nothing is done twice."""
    why, other = out["gave_up"], FALLBACKS[name]
    fallback = Fallback(task_id=state["task_id"], from_mode=name, to_mode=other, reason=why)
    usage = out.get("usage") or state["usage"]
    return {"messages": fresh, "usage": usage, "gave_up": why, "mode": other, "events": announce(fallback)}


# FINISH: the task ends with its mode's result, its answer in the form that the message asks for.


async def finish(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Say that the task is complete, which model answered, and which calls may or may not have taken effect."""
    work = node_context(runtime)
    ledger, result = work.services.ledger, state["result"] or {}
    unknown = await ledger.unknown(state["task_id"]) if ledger else ()
    result = {**result, "unknown_outcomes": [*unknown], "model": _model_of(result, work)}
    form, update = work.services.reply_options.answer_format, ChatUpdate()
    if form and result.get("success") and not (result.get("refused") or result.get("truncated")):
        update = await _formatted(state, work, result, form)
        result = update["result"] or {}
    events = [*update.get("events", ()), *announce(*end_task(state, result, answered=False))]
    return {**update, "result": result, "events": events}


async def _formatted(state: ChatState, work: NodeContext, result: Mapping[str, Any], form: AnswerFormat) -> ChatUpdate:
    """The result with its answer as JSON of the form; an answer that is so already stays.

    Raises:
        UnreadableReply: the model did not write it.
    """
    task_id, usage = state["task_id"], dict(result.get("usage") or {})
    calls: list[ModelCalled] = []

    async def ask(request: ModelRequest) -> ModelReply:
        asked = await ask_model(work, request, Listener, usage, {"task_id": task_id}, state["language"])
        calls.append(asked.event)
        usage.update(asked.usage)
        return asked.reply

    found = await extract(ask, result["answer"], form.name, form.json_schema, form.read, form.strict)
    answer = as_json(found)
    last = next(message for message in reversed(state["messages"]) if message.type == "ai")
    return {
        "messages": [AIMessage(answer, id=last.id)],
        "result": {**result, "answer": answer, "usage": usage},
        "events": announce(*calls, Answer(answer=answer, task_id=task_id)),
    }


def _model_of(result: Mapping[str, Any], work: NodeContext) -> str:
    """The name of the agent's model; empty where it was not called, or each participant has its own."""
    called = (result.get("usage") or {}).get("calls")
    return work.model.name if called and result.get("mode") != MODE else ""
