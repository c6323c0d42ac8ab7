"""The chat graph: state, routes and nodes."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.graph.state import CompiledStateGraph

from segue.core.context import AppContext
from segue.core.conversation import MODE
from segue.core.errors import ConfigurationError, ModelError, UnknownMode
from segue.core.events import Answer, Fallback, ModelCalled, ModeReason, ModeSelected, Phase, TaskStarted
from segue.core.message import AnswerFormat
from segue.core.models import ModelReply, ModelRequest
from segue.prompts.catalogue import render, task_text, without_quotations

from .context import Node, NodeContext, NodeRuntime, announce, as_json, calls_in, node_context
from .digest import Digest
from .history import Window, compact
from .model_call import Listener, ask_model, extract, refused_call
from .own_mode import run_graph
from .prose import prose_request, read_prose, said_by_turn, with_prose
from .task import Assignment, TaskState, before_objective, begin, compose_result, end_task

# State of the chat graph.


class ChatState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    mode: str
    """INIT or SELECT_MODE, and a mode that falls back to another."""
    gave_up: str
    """Why the last mode gave up; empty if it did not. The modes."""
    condenses: bool
    """Whether more messages leave the prompt, of which the model writes. INIT."""
    digest: dict[str, Any]
    """Of the messages that no prompt of the session shows any more, as `Digest.json`. CONDENSE and the modes; no INIT
    resets it."""


ChatUpdate = ChatState
"""What a node returns: the channels that it changes."""
ChatNode = Node[ChatState, ChatUpdate]


# Routers of the chat graph.


def after_init(state: ChatState) -> str:
    """The mode's node, unless a model has to write of what leaves the prompt, or to pick the mode."""
    if state["condenses"]:
        return "CONDENSE"
    return state["mode"] or "SELECT_MODE"


def after_select_mode(state: ChatState) -> str:
    """The chosen mode's node."""
    return state["mode"]


def after_mode(state: ChatState) -> Literal["react", "FINISH"]:
    """A mode that gave up is followed by react."""
    return "react" if state["gave_up"] else "FINISH"


# INIT: a new task on the thread.


def init(modes: Collection[str], own: Collection[str] = ()) -> ChatNode:
    """The node over these modes; those of `own` are none of Segue's."""

    async def begin_task(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Mint the task's id, unless the app has, reset what belongs to a task, and choose its mode where it can."""
        work = node_context(runtime)
        fresh = begin(state["messages"], state.get("assignment"), runtime)
        tools = work.services.agents.tools_in(work.agent, work.context.mode or work.agent.mode)
        started = TaskStarted(
            task_id=fresh["task_id"],
            message=fresh["objective"],
            agent_id=work.agent.agent_id,
            model=work.model.name,
            effects=sorted(name for name, tool in {**work.tools, **tools}.items() if not tool.read_only),
            agent_mode=work.agent.mode,
        )
        fresh["nested"] = bool(work.services.part_of)  # the app hands down the id of a task that this graph ends
        condenses = _condenses(state, work)
        selected = None if condenses else _known_mode(fresh, work, modes, own)
        return {
            **cast(ChatUpdate, fresh),
            "mode": selected.mode if selected else "",
            "gave_up": "",
            "condenses": condenses,
            "events": announce(started, *([selected] if selected else ())),
        }

    return begin_task


def _condenses(state: ChatState, work: NodeContext) -> bool:
    """Whether the agent's model is asked about messages that leave the prompt now."""
    if work.agent.digest != "model" or not work.model.is_language_model:
        return False
    return bool(_past_window(before_objective(state["messages"]), state, work).left_out)


def _past_window(past: Sequence[AnyMessage], state: ChatState, work: NodeContext) -> Window:
    """What of the earlier turns is shown, and the digest of the others."""
    budget, stored = work.agent.budget, state.get("digest")
    return compact(past, budget.prompt_tokens, budget.result_chars, digest=Digest.of(stored) if stored else Digest())


# CONDENSE: a model writes what the digest says beside its entries of the messages that leave the prompt.


async def condense(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Ask for prose, once for all messages that leave the prompt; where there is none, the entries stand alone."""
    work = node_context(runtime)
    leaving = _past_window(before_objective(state["messages"]), state, work)
    said = said_by_turn(leaving.left_out, leaving.turns)
    if not said:
        return _digested(leaving.digest, state, work)
    request = prose_request(said, state["language"], work.agent.budget.prompt_tokens // 2)
    ids: dict[str, Any] = {"task_id": state["task_id"]}
    try:
        asked = await ask_model(work, request, Listener, state["usage"], ids, state["language"])
    except ModelError as error:
        refused = announce(await refused_call(work, request, error, ids))
        return {**_digested(leaving.digest, state, work), "events": refused}
    reply = asked.reply
    found = [] if reply.unreadable else read_prose(reply.text, said, is_cut=reply.finish_reason == "length")
    digest = with_prose(leaving.digest, found, work.agent.budget.prompt_tokens)
    return {**_digested(digest, state, work), "usage": asked.usage, "events": announce(asked.event)}


# SELECT_MODE: the mode that was asked for, or the one that suits the message, where INIT could not tell.

AUTO = "auto"
Picked = Literal["direct", "react", "plan"]
DEFAULT: Picked = "react"
_NAMED = re.compile(r"\b(?:direct|react|plan)\b")

_SMALL_TALK = re.compile(
    r"(?:(?:你们?好|您好|大家好|嗨|哈喽|哈啰|在吗|在么|在不在|早上好|早安|上午好|中午好|下午好|晚上好|晚安|好久不见|"
    r"(?:非常|十分|太|多)?(?:感谢|谢谢|谢)|辛苦了|不客气|再见|(?:明天|回头|下次)见|拜拜|最近(?:好|怎么样)|你怎么样|"
    r"帮了(?:我)?大忙|[你您]?[真太](?:厉害|棒|好|贴心)|哈哈|明白了|知道了|(?:祝[你您])?(?:周末|旅途)愉快|"
    r"[你您]是谁|[你您]叫什么(?:名字)?|[你您](?:能|会|可以)(?:做|干)?(?:什么|啥)|我叫\w{1,4}$)"
    r"(?:[呀啊哦吗呢啦了]|[你您]们?|大家|世界|朋友|再见)*|"
    r"(?:hello|hi|hey|hiya|howdy|good (?:morning|afternoon|evening|night)|how are you|how do you do|how's it going|"
    r"what's up|(?:nice|pleased|good) to (?:meet|see) you|(?:many )?thanks|thank you|cheers|bye|goodbye|see you|"
    r"take care|(?:that|this|it) (?:was|is) (?:really |very |so )?(?:helpful|great|kind|nice)|well done|great job|"
    r"got it|you(?:'re| are) (?:the best|great|amazing|awesome|welcome|wonderful)|"
    r"have a (?:nice|good|great|lovely) (?:day|evening|night|weekend|trip|one)|who are you|what can you do|"
    r"what(?:'s| is) your name|(?:i'm|i am|my name is)(?: (?-i:[A-Z])\w+)?$)"
    r"(?: (?:there|all|everyone|world|again|friend|my friend|buddy|you|doing|today|a lot|very much|so much|later|soon|"
    r"tomorrow|too))*"
    r"(?![\w'])) ?",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[^\w']+")
_SURNAME = "[王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗]"
_NAME = re.compile(
    r"(?<=[a-z,，好])[ ,，] ?(?:(?:Mr|Mrs|Ms|Dr)\.? )?[A-Z][a-z]+(?=\s*(?:[,.!?，。！？]|$))|"
    rf"(?:(?<!\w)|(?<=[好谢嗨早]))(?:[小老]{_SURNAME}|{_SURNAME}(?:先生|女士|小姐|老师|医生|师傅|经理|总))(?=[您你]好|早|\W|$)"
)
"""Who is greeted: "Hi, Anna", 王老师您好."""

# A wish for a plan is looked for clause by clause, since "No plan, please: cancel the trip" has none.

_CLAUSE = re.compile(r"[,，.。;；:：!！?？\n]+\s*")
_LEAD = re.compile(
    r"(?:(?:please|hello|hi|hey|there|then|after that|finally|(?:can|could|would|will) you|"
    r"i(?:'d| would)? (?:like|love|want|need)(?: you)?|let's|we|i|have|got|to|help|me|us|just|and|with|a|for|spend|"
    r"prepare|get|give)\b,? |"
    r"你好|您好|请|麻烦|你|您|帮忙?|给|替|我们?|能不能|能|可以|可否|想要?|要|需要|再|来|重新|好好|从头到尾|希望){0,8}+",
    re.IGNORECASE,
)
"""What comes before the verb of a request."""
_UNWANTED = re.compile(
    r"\b(?:no|not|never|without|skip|forget|instead of|rather than)\b|n't\b|"
    r"不用|不要|不需要|不必|不想|不是|无需|没必要|跳过|(?<![特区分个级类性告])别(?![的墅人名称])",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"(?:cancel|delete|remove|show|send|open|update|change|move|rename|find|search|check|look|tell|email|mail|share|"
    r"print|export|download|upgrade|downgrade|read|translate|define|explain|compare|book|buy|order|refund|"
    r"summari[sz]e)\b|"
    r"取消|修改|删|退|查|看|发|改|换|找|搜|打印|下载|导出|分享|打开|翻译|解释|告诉|订|买|对比|选|通知|把(?!.{0,30}[拆分])",
    re.IGNORECASE,
)
"""The verb of a request whose object may be a plan that there is."""
_QUESTION = re.compile(
    r"^(?:and )?(?:who|whose|what|which|when|where|why|is|are|was|were|do|does|did|has|"
    r"how (?:much|many|long|far|is|are))\b|"
    r"多少|几[点天号]|哪[里儿个天家]|在哪|什么时候|什么是|有什么|是什么|是啥|什么意思|的意思|的定义|[吗么]$",
    re.IGNORECASE,
)
_TARIFF = re.compile(
    r"\b(?:phone|mobile|data|price|pricing|subscription|insurance|pension|floor|free|basic|pro|premium) plans?\b",
    re.IGNORECASE,
)
"""A plan that is bought, or drawn."""

_DAYS = (
    r"(?:(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|this|next|the)[ -])?(?:\w+[ -])?"
    r"(?:day|night|week|weekend|month)s?"
)
_PLAN = (
    r"(?:plans?|itinerary|itineraries|schedule|roadmap|timetable|strategy|curriculum|"
    r"(?:training|workout|fitness) program(?:me)?)"
)
_DAYS_ZH = r"[一二两三四五六七八九十几\d]+(?:天|日|晚|夜|周|个?星期|个?月)"
_PLAN_ZH = r"(?:规划|计划|行程|攻略|日程|方案|路线|时间表|课程表|步骤|食谱|菜谱)(?![单卡码的])"
_ASKS_HOW = re.compile(
    r"\bhow (?:should|do|can|would|could) (?:i|we) (?:plan|schedule|organi[sz]e|structure|spend)\b|"
    rf"\b(?:best|good|an?) (?:\w+ )?{_PLAN} for {_DAYS}|\b(?:day[- ]by[- ]day|week[- ]by[- ]week)\b|"
    r"怎么(?:安排|规划|玩)|如何(?:安排|规划)",
    re.IGNORECASE,
)
_BEGINS_WITH_WISH = re.compile(
    r"(?:plan|planning|organi[sz]e)\b(?! (?:is|was|costs|details|prices?|expired|number|id|name|b)\b)|"
    rf"arrange everything|{_DAYS} in (?-i:[A-Z])|{_DAYS}[ -](?:\w+ )?(?:trip|tour|holiday|vacation|getaway|{_PLAN})\b|"
    r"规划|策划|筹划|筹备|计划(?:一下|一趟|一次)|安排(?!.{0,8}(?:会议|面试|电话|退|换|送|取))|拆解|分解|"
    rf"(?:\w{{0,8}}的?)?{_DAYS_ZH}(?:{_DAYS_ZH})?(?![前后内没未])"
    rf"(?:的?\w{{0,4}}(?:之旅|游(?![泳戏客])|自由行|自驾|旅行)|的?\w{{0,6}}{_PLAN_ZH})|"
    rf"\w{{0,8}}(?:旅游|旅行|自由行|自驾)\w{{0,2}}{_PLAN_ZH}|(?![的这那])\w{{0,8}}(?:规划|计划|攻略|行程安排)$",
    re.IGNORECASE,
)
_MAKES_PLAN = re.compile(
    r"\b(?:make|create|draw up|write|draft|prepare|build|design|develop|generate|set out|put together|come up with|"
    r"work out|outline|propose|suggest|need|want|like|give)"
    rf"(?: (?!(?:my|your|his|her|our|their|the|this|that|to|for|of|on|from|about)\b)[\w'-]+){{1,6}}? {_PLAN}\b|"
    r"\b(?:break|split|divide)\b.{0,80}\binto (?:\w+ ){0,2}(?:steps|tasks|phases|stages|milestones)\b|"
    rf"(?:[做写列排拟定订求]|制定|制订|设计|生成|准备|[给想需]要?|份|(?<![这那])个)[^查退消删改发看印享]{{0,12}}{_PLAN_ZH}|"
    r"[拆分]成.{0,6}(?:步|任务|阶段)",
    re.IGNORECASE,
)
_NEXT_STEP = re.compile(
    r"(?:^|[,.;:!?\n] ?|\band )(?:first|then|after(?:wards| that)|next,|finally|lastly)\b,? "
    r"(?!(?:i|we|you|it|he|she|they|the|my)\b)|"
    r"(?:^|[,，.。;；\n] ?)请?(?:先(?!生)|首先|再(?![见次说])|然后|接着|之后|随后|最后)"
    r"(?![^,，.。;；\n]*了(?:$|[,，.。;；\n]))",
    re.IGNORECASE,
)
"""A word that begins one of several steps: not of a report ("then it broke", 先付了)."""
_NUMBERED = re.compile(r"(?:^|\s)[1-9][.)、] ?(?=\D)")


def select_mode(modes: Collection[str], own: Collection[str] = ()) -> ChatNode:
    """The node over these modes; those of `own` are none of Segue's."""

    async def select(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Choose who carries the task."""
        work = node_context(runtime)
        if selected := _known_mode(state, work, modes, own):
            return {"mode": selected.mode, "events": announce(selected)}
        asked = work.context.mode or work.agent.mode
        if asked == AUTO:
            return await _ask(state, work)
        if asked not in modes:
            raise UnknownMode(asked, [*modes, AUTO])
        raise ConfigurationError(
            "The mode {mode} would enter itself: choose another one for the graph in it, such as "
            'context=segue.RunContext(mode="react").',
            mode=asked,
        )

    return select


def _known_mode(
    task: TaskState, work: NodeContext, modes: Collection[str], own: Collection[str]
) -> ModeSelected | None:
    """The mode that was asked for or that the rules pick; None where the model is asked, or it is no possible one."""
    asked = work.context.mode or work.agent.mode
    if asked != AUTO:
        possible = asked in modes and not (asked in own and asked in work.services.within)
        reason = ModeReason.ASKED_FOR.value
        return ModeSelected(task_id=task["task_id"], mode=asked, reason=reason) if possible else None
    known = _by_rules(task, work)
    if known in (None, "plan") and work.agent.auto == "model" and work.model.is_language_model:
        return None
    mode = _within_reach(known or DEFAULT, work)
    return ModeSelected(task_id=task["task_id"], mode=mode, reason=ModeReason.PICKED.value)


def _by_rules(task: TaskState, work: NodeContext) -> Picked | None:
    """The mode that the rules pick; a tool that the message requires is called in the default one."""
    return DEFAULT if work.services.reply_options.required_tool else rule_for(task["objective"])


def _within_reach(mode: str, work: NodeContext) -> str:
    """The mode, or the one beside it in which the results of agents in the background can arrive."""
    return "plan_react" if mode == "plan" and work.agent.background_tools else mode


async def _ask(state: ChatState, work: NodeContext) -> ChatUpdate:
    """Have the model pick; where it does not, or names no mode, the one by the rules carries the task."""
    by_rules = _by_rules(state, work) or DEFAULT
    system = render(
        "select_mode", state["language"], tools=", ".join(work.tools) or task_text("no_tools", state["language"])
    )
    messages = [SystemMessage(system), HumanMessage(state["objective"])]
    request = ModelRequest(purpose="decide", messages=messages)
    ids: dict[str, Any] = {"task_id": state["task_id"]}
    try:
        asked = await ask_model(work, request, Listener, state["usage"], ids, state["language"])
    except ModelError as error:
        mode = _within_reach(by_rules, work)
        picked = ModeSelected(mode=mode, reason=ModeReason.PICKED.value, **ids)
        return {"mode": mode, "events": announce(await refused_call(work, request, error, ids), picked)}
    named = None if asked.reply.unreadable else _NAMED.search(asked.reply.text.lower())
    mode = _within_reach(named[0] if named else by_rules, work)
    reason = ModeReason.PICKED_BY_MODEL if named else ModeReason.PICKED
    selected = ModeSelected(task_id=state["task_id"], mode=mode, reason=reason.value)
    return {"mode": mode, "usage": asked.usage, "events": announce(asked.event, selected)}


_READ = 4_000
"""The characters at the beginning and at the end of a message that the rules read."""


def rule_for(message: str) -> Picked | None:
    """The mode that the words of a message call for: direct for mere small talk, plan for a wish for one, else none."""
    text = message if len(message) <= 2 * _READ else f"{message[:_READ]}\n{message[-_READ:]}"
    text = text.replace("’", "'")
    words = _MARKS.sub(" ", _NAME.sub(" ", text)).strip()
    if words and not _SMALL_TALK.sub("", words):
        return "direct"
    return "plan" if _wishes_plan(without_quotations(text).strip() or text) else None


def _wishes_plan(text: str) -> bool:
    """Whether a person asks for a plan, or names several steps."""
    if len(_NEXT_STEP.findall(text)) > 1 or (len(_NUMBERED.findall(text)) > 1 and not re.search("[?？]", text)):
        return True
    operations = 0
    for clause in _CLAUSE.split(_TARIFF.sub("", text)):
        if _UNWANTED.search(clause):
            continue
        if _ASKS_HOW.search(clause):
            return True
        lead = _LEAD.match(clause)
        verb = lead.end() if lead else 0
        if _OPERATION.match(clause, verb):
            operations += 1
        elif not _QUESTION.search(clause) and (_BEGINS_WITH_WISH.match(clause, verb) or _MAKES_PLAN.search(clause)):
            return True
    return operations > 2


# One node a mode: hand its graph a window of the history, take back what is new.

ModeGraph = CompiledStateGraph[Any, Any, Any, Any]

FALLBACKS: Mapping[str, str] = {"direct": "react", "plan": "react", "plan_react": "react"}
"""The fallback of each mode that fails."""


def run_mode(name: str, graph: ModeGraph, *, own: bool = False, at_once: Node[Any, Any] | None = None) -> ChatNode:
    """The node of one mode; `own`: its graph is none of Segue's. `at_once` does in one step what the graph does.

    The graph is given `messages` (the window, ending with the user's message) and `assignment`; it returns `messages`
    with its own appended, and one of Segue's returns `result` or `gave_up` (why another mode should take over).
    """

    async def run(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Carry the task in this mode."""
        work = node_context(runtime)
        past = before_objective(state["messages"])
        since = state["messages"][len(past) :]
        kept = _past_window(past, state, work)
        window_of_past = kept.shown
        digested = _digested(kept.digest, state, work)
        inherited: Assignment = {
            "task_id": state["task_id"],
            "language": state["language"],
            "usage": state["usage"],
            "started_at": state["started_at"],
            "done": calls_in(since),
        }
        given = {"messages": [*window_of_past, *since], "assignment": inherited}
        inside = replace(work.services, within=(*work.services.within, name), earlier=past)
        context = AppContext.carrying(inside, **work.context.model_dump())
        if own:
            update = await run_graph(name, graph, given, state, runtime, replace(work, services=inside))
            return {**digested, **cast(ChatUpdate, update), "gave_up": ""}
        if at_once:
            out = await at_once(given, runtime.override(context=context))
            taken = _taken(state, name, out, out.get("messages", []))
            return {**digested, **taken, "events": [*out["events"], *taken.get("events", ())]}
        out = await graph.ainvoke(given, context=context)
        return {**digested, **_taken(state, name, out, out["messages"][len(window_of_past) + len(since) :])}

    return run


def _taken(state: ChatState, name: str, out: Mapping[str, Any], fresh: list[AnyMessage]) -> ChatUpdate:
    """What a mode returned, with its new messages: another one may follow, or the task ends with its result."""
    if not out.get("gave_up"):
        return {"messages": fresh, "result": out["result"], "gave_up": ""}
    if name in FALLBACKS:
        return _fall_back(state, name, out, fresh)
    failed = compose_result(name, "", usage=out.get("usage"), error=out["gave_up"])
    return {"messages": fresh, "result": failed, "gave_up": ""}


def _digested(digest: Digest, state: ChatState, work: NodeContext) -> ChatUpdate:
    """The digest's update where more messages were left out; it says so where rules and limits outgrow their share."""
    if digest.messages == (state.get("digest") or {}).get("messages", 0):
        return {}
    if digest.over:
        content = task_text("rules_over", state["language"], n=digest.over)
        work.emit(Phase(task_id=state["task_id"], content=f"{content}\n"))
    return {"digest": digest.json()}


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
    """The result with its answer as JSON of the form; an answer that is so already stays."""
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
