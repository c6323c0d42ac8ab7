"""SELECT_MODE: the mode that was asked for, or the one that suits the message."""

import re
from collections.abc import Collection
from typing import Any, Literal

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.errors import ModelError, UnknownMode
from segue.core.events import ModeReason, ModeSelected
from segue.core.models import ModelRequest
from segue.prompts.catalogue import phrase
from segue.prompts.language import without_quotations
from segue.prompts.load import render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.live_reply import Listener
from ..shared.model_call import ask_model, refused_call
from .state import ChatNode, ChatState, ChatUpdate

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
    named = _NAMED.search(asked.reply.text.lower())
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
