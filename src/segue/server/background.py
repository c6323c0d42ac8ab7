"""Requests that a chat client makes for itself, such as for the title of a chat: recognised by form, and answered."""

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from ..core.errors import StorageError, TaskError
from ..core.records import Json, RequestKey, Task
from ..runtime.start import Request
from .requests import ChatMessage, ReplyFields
from .run import logger
from .service import Service
from .tenants import Tenant

_MAKING = (
    r"generat\w*|writ(?:e|es|ing)|creat\w*|suggest\w*|provid\w*|return\w*|output\w*|produc\w*|giv(?:e|es|ing)|propos\w*"
    r"|summari[sz]\w*|determin\w*|categori[sz]\w*|assign\w*|name|continu\w*|complet\w*|choos\w*|select\w*|reflect\w*"
    r"|synthesi[sz]\w*|merge|combine|rewrit\w*|rephras\w*|extract\w*"
)
_MADE = (
    r"titles?|tags?|follow[- ]?ups?|quer(?:y|ies)|search terms?|keywords?|emojis?|summar(?:y|ies)|topics?"
    r"|catch-?ups?|recaps?|image generation|auto-?complet\w*|completion(?: type)?|commit messages?|tools?|tool\(s\)"
)
_MAKING_ZH = "生成|写|创建|拟|起|取|建议|提供|给出|返回|输出|总结|概括|归纳|提取|改写|续写|补全|选择"
_MADE_ZH = "标题|题目|名称|标签|追问|后续问题|搜索词|查询|关键词|关键字|摘要|总结|表情|提交信息|工具|续写|补全"
_ASKS = re.compile(
    rf"\b(?:{_MAKING})\b[^.!?\n]{{0,100}}\b(?:{_MADE})\b|\b(?:titles?|tags?) generator\b"
    r"|\bsummari[sz]\w* (?:this|the)\b[^.!?\n]{0,40}\b(?:conversation|chat)\b"
    rf"|(?:{_MAKING_ZH})[^。！？\n]{{0,40}}(?:{_MADE_ZH})",
    re.IGNORECASE,
)
"""Asks for something about a conversation, not for an answer."""
_KEYS = re.compile(r'"(?:titles?|tags?|follow_?ups?|suggestions?|quer(?:y|ies)|keywords?|emojis?)"', re.IGNORECASE)
"""Names of fields in the output of a request about a conversation, whatever it asks for."""
_MERGES = re.compile(r"\b(?:synthesi[sz]\w*|merge|combine)\b[^.!?\n]{0,60}\bresponses\b", re.IGNORECASE)
"""Asks to make one answer of several."""
_ONLY = re.compile(
    r"\b(?:json|only|solely|exclusively|nothing else|concise(?:ly)?|brief(?:ly)?|single[- ]line|one[- ]line|at most"
    r"|no more than|your (?:only )?task is|no (?:extra|additional|other|surrounding|explanation|quotes|punctuation)"
    r"|without (?:quotes|explanation|punctuation|any))\b|### ?output|\d{1,3}-? ?words?\b"
    r"|只|仅|不要(?:解释|其他|引号|标点)|一行|简短|简洁|不超过|字以内",
    re.IGNORECASE,
)
"""Says what form the output must have."""
_TALK = re.compile(
    r"\b(?:conversation|chat|thread|session|dialogue?|discussion|commit)s?\b|对话|聊天|会话|提交", re.IGNORECASE
)
_TAG = re.compile(
    r"<(chat_history|conversation_history|chat|conversation|history|messages|transcript|dialogue)>", re.IGNORECASE
)
_USER_SAYS = re.compile(r"^[#*\s]{0,8}(?:user|human|用户)(?:\*\*)?\s{0,2}(?::|：|$)", re.IGNORECASE | re.MULTILINE)
_OTHER_SAYS = re.compile(r"^[#*\s]{0,8}(?:assistant|ai|助手)(?:\*\*)?\s{0,2}(?::|：|$)", re.IGNORECASE | re.MULTILINE)
_QUOTED_ALONE = re.compile(
    r'"""|^[#*\s]{0,8}(?:(?:user(?:\'s)? )?(?:prompt|message|request|query|input)|用户(?:消息|问题|输入))'
    r"(?:\*\*)?\s{0,2}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_HEADING = re.compile(
    r"^[#*\s]{0,8}(?:chat |conversation )?(?:history|conversation|transcript|dialogue)(?:\*\*)?\s{0,2}[:：]"
    r"|^[#*\s]{0,8}(?:对话|聊天|会话)(?:记录|历史|内容)?(?:\*\*)?\s{0,2}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
"""Stands above the lines of a conversation in a template."""
_TOOL = re.compile(r"(?<![\w\"'`<>{/\[(.-])[a-z][a-z0-9]{0,39}_[a-z0-9_]{1,60}(?![\w\"'`<>}])", re.IGNORECASE)
"""A name such as `open_ticket`, which is no field of an output: what names a tool wants it to run."""
_JSON_TEXT = re.compile(r'"[^"\n]{0,1000}"')
_SHORT = re.compile(r"title|emoji|tag|tool|commit message|标题|题目|表情|标签|工具|提交信息", re.IGNORECASE)
"""What is made of one message alone, or of lines without a heading; other requests about those may be a person's."""
_SENTENCE_END = re.compile(r"[.!?\n。！？]")
_BESIDE = re.compile(r"\b(?:with|for|and|or|to)\b", re.IGNORECASE)
"""Between two words: the second one is not what is made."""
_INSTRUCTIONS = 20_000
"""Characters of instructions that are looked at."""


def is_in_background(messages: Sequence[ChatMessage], *, has_tools: bool = False, fields: Collection[str] = ()) -> bool:
    """Whether a chat client asks for itself: for a title, tags, follow-ups, queries, a summary, and the like.

    Such a request has no conversation before it, and names no tool. It quotes a conversation or a message below
    instructions that say what form the output must have; or its system message begins with that, and it has no tools.
    `fields` are those of the JSON that it asks for, which are no tools.
    """
    said = [each.text for each in messages if each.role == "user"]
    is_new = all(each.role in ("system", "developer", "user") and not each.has_files for each in messages)
    if not (said and is_new):
        return False
    system = "\n".join(each.text for each in messages if each.role != "user")[:_INSTRUCTIONS]
    own, quoted = _split(said[-1])
    if quoted == "conversation":
        own = f"{system}\n{own}"
        asks = _ASKS.search(own) or _KEYS.search(own)
        return bool(asks and _ONLY.search(own) and not _names_tool(own, fields))
    asked = None if _names_tool(own, fields) else _ASKS.search(own)
    if quoted == "message" and (_MERGES.search(own) or (asked and _SHORT.search(asked[0]) and _ONLY.search(own))):
        return True
    purpose = _SENTENCE_END.split(system.strip(), 1)[0]
    asked = None if has_tools or _names_tool(system, fields) else _ASKS.search(purpose)
    is_made = asked and _SHORT.search(asked[0]) and not _BESIDE.search(asked[0])
    return bool(is_made and _TALK.search(system) and _ONLY.search(system))


def _names_tool(text: str, fields: Collection[str]) -> bool:
    """Whether instructions name a tool outside of JSON, such as the descriptions of tools to choose from."""
    known = {name.casefold() for name in fields}
    return any(name.casefold() not in known for name in _TOOL.findall(_JSON_TEXT.sub("", text)))


def _split(text: str) -> tuple[str, Literal["conversation", "message", ""]]:
    """The instructions of a text, and what they are about: what it quotes."""
    if opened := _TAG.search(text):
        closing = text.rfind(f"</{opened[1]}>")
        if closing > opened.start():
            return f"{text[: opened.start()]}\n{text[closing:]}"[:_INSTRUCTIONS], "conversation"
    user, other = _USER_SAYS.search(text), _OTHER_SAYS.search(text)
    if user and other:
        above = text[: min(user.start(), other.start())][:_INSTRUCTIONS]
        return above, "conversation" if _HEADING.search(above) else "message"
    alone = _QUOTED_ALONE.search(text)
    return (text[: alone.start()][:_INSTRUCTIONS], "message") if alone else (text[:_INSTRUCTIONS], "")


_WAIT = 5.0
"""Seconds that the end of a task may take until its session can be deleted."""


async def begin(
    service: Service,
    tenant: Tenant,
    messages: Sequence[ChatMessage],
    asked: ReplyFields,
    options: Json,
    key: RequestKey | None,
) -> Task:
    """The task of such a request, which has no tools and a session of its own; `end` when it is answered.

    A session that is left, as by a service that was killed, is deleted with the responses that are not stored. So is
    that of a request with a `key` of its client's, which has the same task when it is sent again: it needs no `end`.
    """
    if known := await service.known(key):
        return known[0]
    session_id = tenant.stored(service.app.sessions.new_id())
    key = key or RequestKey(tenant.stored(f"background:{uuid.uuid4()}"), "")
    key = replace(key, about={"store": False, "is_own": True})
    instructions = [each.text for each in messages if each.role != "user"]
    reply_options = asked.model_copy(update={"tool_choice": None}).reply_options(instructions)
    given = {**options, "session_id": session_id, "idempotency_key": key, "mode": "", "reply_options": reply_options}
    room = service.app.agents.agent(options["agent"]).budget.message_bytes - len(
        "".join(instructions).encode(errors="replace")
    )
    message = _cut_middle("\n\n".join(each.text for each in messages if each.role == "user"), room)
    with service.starting_task(tenant, session_id):
        row, _ = await service.app.tasks.start(Request.of(message, given), unlisted="direct_only")
    return row


_OMISSION = "\n…\n"


def _cut_middle(text: str, most: int) -> str:
    """Keep at most so many bytes: the beginning, where the instructions are, and the end of what is quoted."""
    whole = text.encode(errors="replace")
    half = (most - len(_OMISSION.encode())) // 2
    if len(whole) <= most or half <= 0:
        return text
    return whole[:half].decode(errors="ignore") + _OMISSION + whole[-half:].decode(errors="ignore")


async def ending(service: Service, task: Task, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The frames of such a request's stream, and its end, also where its client leaves before."""
    try:
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    finally:
        ended = asyncio.create_task(end(service, task), name="end a request in the background")
        service.streams.add(ended)
        ended.add_done_callback(service.streams.discard)
        await asyncio.shield(ended)


async def end(service: Service, task: Task) -> None:
    """Delete the session of such a request; what its client does not wait for any more is cancelled."""
    try:
        if not (await service.app.task(task.task_id)).is_over:
            await service.app.cancel(task.task_id)
        await service.app.sessions.drop(task.session_id, _WAIT)
    except (TaskError, StorageError) as error:
        logger.info("a request in the background is deleted later: %s", error)
