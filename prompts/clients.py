"""Progress of tasks for clients of other protocols, and the errors that they cause, in both languages."""

import json
from collections.abc import Mapping
from typing import Any

from .language import Language

_PROGRESS: Mapping[str, Mapping[Language, str]] = {
    "round": {"zh": "第 {n} 轮", "en": "round {n}"},
    "call": {"zh": "正在调用 {name}", "en": "calling {name}"},
    "running": {"zh": "步骤 {step}：开始", "en": "step {step} begins"},
    "done": {"zh": "步骤 {step}：完成", "en": "step {step} is done"},
    "error": {"zh": "步骤 {step}：失败", "en": "step {step} failed"},
    "PLAN": {"zh": "正在制定计划", "en": "planning"},
    "ANSWER": {"zh": "正在写出回答", "en": "writing the answer"},
}
_STOPPED: Mapping[Language, str] = {
    "zh": "任务没有答案：请再发送一条消息继续。",
    "en": "The task has no answer yet: send another message to go on.",
}

_CLIENT_CALL: Mapping[Language, str] = {
    "zh": "任务等待客户端执行 {name}({arguments})。回答即为其结果。",
    "en": "The task waits for its client to carry out {name}({arguments}). The answer is the result.",
}
_NOT_CARRIED_OUT: Mapping[Language, str] = {
    "zh": "客户端没有执行此调用。",
    "en": "The client did not carry out this call.",
}
_NO_RESULT: Mapping[Language, str] = {"zh": "客户端没有给出结果。", "en": "The client gave no result."}
_WROTE: Mapping[Language, str] = {"zh": "用户写道：{message}", "en": "The user wrote: {message}"}
_CARRIED_OUT: Mapping[Language, str] = {
    "zh": "客户端已执行此调用，没有返回内容。",
    "en": "The client carried out this call; it returned nothing.",
}
_FAILED: Mapping[Language, str] = {"zh": "客户端报告错误：{error}", "en": "The client reports an error: {error}"}

CLIENTS: Mapping[str, str] = {
    "The client offers {count} tools; the limit is {most}.": "客户端提供了 {count} 个工具；上限为 {most} 个。",
    "The client's tool {name} cannot be stored: {error}.": "客户端工具 {name} 无法存储：{error}。",
    "The client's tools have {size} bytes; the limit is {most}: shorten them.": (
        "客户端的工具有 {size} 字节；上限为 {most}：请缩短它们。"
    ),
    "The schemas of the client's tools have more than {most} values: simplify them.": (
        "客户端工具的 JSON Schema 超过 {most} 个值：请简化它们。"
    ),
    "A tool of the client cannot be called '{name}': use up to 64 letters, digits, - or _.": (
        "客户端的工具不能叫“{name}”：请使用最多 64 个字母、数字、- 或 _。"
    ),
    "There are two tools called {name}: rename that of the client.": "有两个工具都叫 {name}：请重命名客户端的工具。",
    "The parameters of the client's tool {name} are not a JSON schema of an object.": (
        "客户端工具 {name} 的参数不是对象的 JSON schema。"
    ),
    "The last message is neither the user's nor a tool's: send one of those last.": (
        "最后一条消息既不是用户的，也不是工具的：请把其中之一放在最后。"
    ),
    "tool_choice 'none' cannot be honoured with a tool's result: its task was begun with tools.": (
        "带有工具结果的请求无法遵守 tool_choice“none”：其任务开始时已带有工具。"
    ),
    "This thread waits for a person, not for a tool's result: answer it, or resume.": (
        "此线程等待的是人的答复，而不是工具的结果：请答复，或使用 resume。"
    ),
    "The last message is not the user's: send the user's message last, or resume.": (
        "最后一条消息不是用户的：请把用户的消息放在最后，或使用 resume。"
    ),
    "Nothing can be resumed: this thread has no run.": "没有可以继续的内容：此线程还没有运行。",
    "A run ends with one interrupt: resume exactly that one.": "一次运行以一个中断结束：请只继续这一个。",
    "Approvals come alone, with the response that requested them.": "批准须单独发送，并指明请求批准的响应。",
    "The decisions are not on the calls of one response: send those of one.": (
        "这些决定不属于同一个响应的调用：请只发送一个响应的决定。"
    ),
    "The question was not answered: call the tool again with an answer.": (
        "问题没有得到回答：请带上回答再次调用此工具。"
    ),
}
"""The Chinese sentences of errors, by their English ones."""


def progress(kind: str, language: Language, **slots: object) -> str:
    """The sentence on how far a task is; empty for what is not worth one."""
    return _PROGRESS[kind][language].format(**slots) if kind in _PROGRESS else ""


def client_call_notice(name: str, arguments: Mapping[str, Any], language: Language) -> str:
    """The question of a call that the client carries out."""
    shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return _CLIENT_CALL[language].format(name=name, arguments=shown)


def client_result(content: str | None, error: str, language: Language) -> str:
    """The result of a client's call: its content, None where it sent none, or error."""
    if error:
        return _FAILED[language].format(error=error)
    if content is None:
        return _NO_RESULT[language]
    return content.strip() or _CARRIED_OUT[language]


def with_message(result: str, message: str, language: Language) -> str:
    """The result of a client's call, and what the user wrote since."""
    return f"{result}\n\n{_WROTE[language].format(message=message)}"


def not_carried_out(language: Language) -> str:
    """The error of a call that a person ended."""
    return _NOT_CARRIED_OUT[language]


def no_answer(language: Language) -> str:
    """The sentence on a task that stopped without an answer."""
    return _STOPPED[language]
