"""The sentences with which the HTTP service refuses a request, in both languages."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import SegueError
from .errors import render
from .language import Language

PROBLEMS: Mapping[str, tuple[str, str]] = {
    "task": ("没有任务“{missing}”。", "There is no task '{missing}'."),
    "session": ("没有会话“{missing}”。", "There is no session '{missing}'."),
    "user": ("没有用户“{missing}”。", "There is no user '{missing}'."),
    "agent": ("没有智能体“{missing}”。", "There is no agent '{missing}'."),
    "graph": ("没有图“{missing}”。", "There is no graph '{missing}'."),
    "memory": ("没有记忆文件“{missing}”。", "There is no memory file '{missing}'."),
    "Unauthorized": (
        "需要 API 密钥：请发送 Authorization: Bearer <密钥>。",
        "An API key is required: send Authorization: Bearer <key>.",
    ),
    "TooManyRequests": ("请求过多：请等待 {seconds} 秒。", "Too many requests: wait {seconds} seconds."),
    "TooManyTasks": (
        "同时运行的任务最多 {most} 个：请等其中一个结束。",
        "The limit of running tasks is {most}: wait until one of them ends.",
    ),
    "TooManyStreams": ("同时打开的流最多 {most} 个：请关闭一个。", "The limit of open streams is {most}: close one."),
    "Stopping": ("服务正在停止：请稍后再试。", "The service is shutting down: try again in a moment."),
    "RequestTimeout": ("请求体没有在 {seconds} 秒内到达。", "The body did not arrive within {seconds} seconds."),
    "BodyTooLong": ("请求体超过 {most} 字节。", "The body is longer than {most} bytes."),
    "BodyTooDeep": (
        "请求体的嵌套超过 {most} 层：请减少层次。",
        "The body is nested more than {most} levels deep: flatten it.",
    ),
    "WrongHost": (
        "此服务只接受发往 localhost 的请求：请用这个名称访问，或设置 SEGUE_API_KEY。",
        "This service accepts requests to localhost only: call it by that name, or set SEGUE_API_KEY.",
    ),
    "WrongOrigin": (
        "不允许来自此来源的请求：请把它加入 SEGUE_CORS_ORIGINS。",
        "Requests from this origin are not allowed: add it to SEGUE_CORS_ORIGINS.",
    ),
    "InvalidRequest": ("请求无效：{reasons}。", "{reasons}."),
    "NotFound": ("没有这个路径。", "Not Found."),
    "MethodNotAllowed": ("此路径不支持这个方法。", "Method Not Allowed."),
    "Http": ("请求无法处理：{detail}。", "{detail}."),
    "StreamFailed": (
        "流已中断：请在日志中查找 error_id。",
        "The stream failed: look for the error_id in the log.",
    ),
    "Internal": ("内部错误：请在日志中查找 error_id。", "Internal error: look for the error_id in the log."),
}

_INVALID: Mapping[str, str] = {
    "missing": "缺少此项",
    "extra_forbidden": "没有此项",
    "json_invalid": "不是有效的 JSON",
    "model_attributes_type": "应为 JSON 对象",
    "dict_type": "应为 JSON 对象",
    "list_type": "应为列表",
    "string_type": "应为文本",
    "string_too_short": "至少 {min_length} 个字符",
    "string_too_long": "最多 {max_length} 个字符",
    "string_pattern_mismatch": "应符合 {pattern}",
    "literal_error": "应为 {expected}",
    "bool_type": "应为 true 或 false",
    "bool_parsing": "应为 true 或 false",
    "int_type": "应为整数",
    "int_parsing": "应为整数",
    "int_from_float": "应为整数",
    "float_type": "应为数字",
    "float_parsing": "应为数字",
    "greater_than_equal": "应不小于 {ge}",
    "less_than_equal": "应不大于 {le}",
}
"""What is wrong with a value, by pydantic's type of the error."""


def problem_sentence(name: str, language: Language, **params: object) -> str:
    """A refusal's sentence."""
    chinese, english = PROBLEMS[name]
    return (chinese if language == "zh" else english).format(**params)


def invalid_request(errors: Sequence[Mapping[str, Any]], language: Language) -> str:
    """Where a request is invalid and why, but not what it held; `errors` are pydantic's."""
    reasons = [f"{'.'.join(str(part) for part in error['loc'])}: {_reason(error, language)}" for error in errors]
    return problem_sentence("InvalidRequest", language, reasons="; ".join(reasons)[:1000])


def _reason(error: Mapping[str, Any], language: Language) -> str:
    template = _INVALID.get(error["type"]) if language == "zh" else None
    return template.format(**error.get("ctx", {})) if template else str(error["msg"])


OVER_HTTP: Mapping[str, tuple[str, str]] = {
    "UnknownTask": (
        "没有任务“{task_id}”；GET /api/sessions 可列出所有会话。",
        "There is no task '{task_id}'; GET /api/sessions lists the sessions.",
    ),
    "UnknownThread": (
        "没有会话“{thread_id}”；GET /api/sessions 可列出所有会话。",
        "There is no session '{thread_id}'; GET /api/sessions lists the sessions.",
    ),
    "UnknownSnapshot": (
        "会话“{thread_id}”没有快照“{checkpoint_id}”；GET /api/sessions/{thread_id}/snapshots 可列出它们。",
        "Session '{thread_id}' has no snapshot '{checkpoint_id}'; GET /api/sessions/{thread_id}/snapshots lists them.",
    ),
    "MissingKey": (
        '模型“{model}”需要密钥：请为服务设置 OPENAI_API_KEY，或为智能体设置 api_key，或发送 "model": "offline"。',
        "The model '{model}' needs a key: set OPENAI_API_KEY for the service, or api_key on the agent, or send "
        '"model": "offline".',
    ),
}
"""The sentences of errors that recommend commands, as a client of the service reads them."""


def render_over_http(error: SegueError, language: Language) -> str:
    """The error's sentence for a client of the service."""
    templates = OVER_HTTP.get(type(error).__name__)
    if templates is None:
        return render(error, language)
    slots = {name: str(value) for name, value in error.params.items()}
    return templates[language == "en"].format(**slots)
