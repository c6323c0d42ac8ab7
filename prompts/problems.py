"""Error messages of the HTTP service, in both languages."""

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
    "model": (
        "没有模型“{missing}”；GET /v1/models 可列出它们。",
        "There is no model '{missing}'; GET /v1/models lists them.",
    ),
    "graph": ("没有图“{missing}”。", "There is no graph '{missing}'."),
    "memory": ("没有记忆文件“{missing}”。", "There is no memory file '{missing}'."),
    "file": ("没有文件“{missing}”。", "There is no file '{missing}'."),
    "rehearsal": ("没有演练“{missing}”。", "There is no rehearsal '{missing}'."),
    "conversation": ("没有对话“{missing}”。", "There is no conversation '{missing}'."),
    "response": ("没有响应“{missing}”。", "There is no response '{missing}'."),
    "call": (
        "没有等待结果的调用“{missing}”：请发送此服务给出的 id。",
        "There is no call '{missing}' that waits for a result: send the id that this service gave.",
    ),
    "ResultGiven": (
        "此调用已有结果，任务已据此继续：其他结果不会有任何作用。",
        "The call has a result already, and the task went on with that: another result changes nothing.",
    ),
    "item": ("没有条目“{missing}”。", "There is no item '{missing}'."),
    "ResponseContinued": (
        "响应“{named}”已经有了后续：请从它之后的响应继续。",
        "The response '{named}' was continued already: continue from a later one.",
    ),
    "PartOfConversation": (
        "此响应是对话“{named}”的一部分：请用 DELETE /v1/conversations/{named} 删除整个对话。",
        "The response is part of conversation '{named}': delete that with DELETE /v1/conversations/{named}.",
    ),
    "ConversationAndResponse": (
        "conversation 和 previous_response_id 只能给出其中一个。",
        "Give only one of conversation and previous_response_id.",
    ),
    "TooManyFiles": (
        "数据文件夹最多保存 {most} 个文件：请先删除一个。",
        "The data folder holds {most} files, which is the limit: delete one first.",
    ),
    "SharedFolder": (
        "多个密钥的智能体读取同一个数据文件夹，因此不能上传或删除文件：请为每个密钥单独运行服务，"
        "并各自设置 SEGUE_DATA。",
        "Agents of several keys read the same data folder, so files cannot be uploaded or deleted: run a service for "
        "each key, with a SEGUE_DATA of its own.",
    ),
    "Unauthorized": (
        "需要 API 密钥：请发送 Authorization: Bearer <密钥>。",
        "An API key is required: send Authorization: Bearer <key>.",
    ),
    "TooManyRequests": ("请求过多：请等待 {seconds} 秒。", "Too many requests: wait {seconds} s."),
    "TooManyTasks": (
        "同时运行的任务最多 {most} 个：请等其中一个结束。",
        "The limit of running tasks is {most}: wait until one of them ends.",
    ),
    "TooManyStreams": ("同时打开的流最多 {most} 个：请关闭一个。", "The limit of open streams is {most}: close one."),
    "Stopping": ("服务正在停止：请稍后再试。", "The service is shutting down: try again in a moment."),
    "RequestTimeout": ("请求体没有在 {seconds} 秒内到达。", "The body did not arrive within {seconds} s."),
    "BodyTooLong": ("请求体超过 {most} 字节。", "The body is longer than {most} bytes."),
    "NoFileName": (
        "文件没有名字：用 ?name=… 给出，或作为表单发送，例如 curl -F file=@FILE。",
        "The file has no name: add ?name=… to the URL, or send a form, as curl -F file=@FILE does.",
    ),
    "NoFile": (
        "表单中没有文件：用 file 字段发送一个，例如 curl -F file=@FILE。",
        "The form has no file: send one as the field file, as curl -F file=@FILE does.",
    ),
    "FileTooLong": (
        "请求体超过 {most} 字节：可用 {setting}（以 MiB 计）放宽。",
        "The body is longer than {most} bytes: {setting}, in MiB, sets the limit.",
    ),
    "BodyTooDeep": (
        "请求体的嵌套超过 {most} 层：请减少层次。",
        "The body is nested more than {most} levels deep: flatten it.",
    ),
    "TooManyValues": (
        "请求体超过 {most} 个值：请分成多个请求。",
        "The body has more than {most} values: send it in several requests.",
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
    "NotAnObject": (
        "应为 JSON 对象，并以 Content-Type: application/json 发送",
        "should be a JSON object, sent with Content-Type: application/json",
    ),
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
    if error["type"] == "model_attributes_type" and tuple(error["loc"]) == ("body",):
        return problem_sentence("NotAnObject", language)
    template = _INVALID.get(error["type"]) if language == "zh" else None
    return template.format(**error.get("ctx", {})) if template else str(error["msg"]).removeprefix("Value error, ")


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
    "UnknownPlace": (
        "没有会话或快照“{text}”；GET /api/sessions/{{id}}/snapshots 可列出快照。",
        "There is no session or snapshot '{text}'; GET /api/sessions/{{id}}/snapshots lists the snapshots.",
    ),
    "DamagedCheckpoint": (
        "会话“{thread_id}”最新的检查点已损坏（{reason}）：请使用新的会话，或请服务的管理员修复它。",
        "The newest checkpoint of session '{thread_id}' is damaged ({reason}): use a new session, or have the "
        "service's administrator recover this one.",
    ),
    "DamagedRow": (
        "会话“{thread_id}”有一条记录已损坏（{what}：{reason}）：请使用新的会话，或请服务的管理员修复它。",
        "{what} of session '{thread_id}' is damaged ({reason}): use a new session, or have the service's administrator "
        "recover this one.",
    ),
    "UnreadableState": (
        "会话“{thread_id}”有一个检查点已损坏（{reason}），无法连同未完成的任务一起导出：请先结束或取消该任务。",
        "Session '{thread_id}' cannot be exported with its unfinished task, since a checkpoint is damaged ({reason}): "
        "end the task or cancel it first.",
    ),
    "FileUnavailable": (
        "这个文件的内容缺失或已损坏：请在新消息中重新发送。",
        "The content of this file is missing or damaged: send it again in a new message.",
    ),
    "NothingReadable": (
        "会话“{thread_id}”没有可读的检查点（{reason}）：请在新会话中继续。没有删除任何检查点。",
        "No checkpoint of session '{thread_id}' can be read ({reason}): continue in a new session. None of them was "
        "deleted.",
    ),
    "Task {task_id} waits for a person: answer it with segue answer {task_id}, or cancel it.": (
        "任务“{task_id}”正在等待答复：请用 POST /api/tasks/{task_id}/answer 答复，或取消它。",
        "Task '{task_id}' waits for a person: answer it with POST /api/tasks/{task_id}/answer, or cancel it.",
    ),
    "The database holds a row that cannot be read ({what}, {reason}), so it is damaged: `segue doctor` says what "
    "to do.": (
        "数据库中有一条记录无法读取（{what}：{reason}），因此数据库已损坏：请告知服务的管理员。",
        "The database holds a row that cannot be read ({what}, {reason}), so it is damaged: tell the service's "
        "administrator.",
    ),
    "The memory file {name} is full, it may have {most} bytes: use another file, or remove entries with "
    "`segue memory forget`.": (
        "记忆文件 {name} 已满，最多 {most} 字节：请使用其他文件，或用 DELETE /api/memory/{name} 删除条目。",
        "The memory file {name} is full, it may have {most} bytes: use another file, or remove entries with DELETE "
        "/api/memory/{name}.",
    ),
}
"""The sentences of errors that recommend commands, as a client of the service reads them: by class, or template."""


def render_over_http(error: SegueError, language: Language) -> str:
    """The error's sentence for a client of the service."""
    templates = OVER_HTTP.get(error.template) or OVER_HTTP.get(type(error).__name__)
    if templates is None:
        return render(error, language)
    slots = {name: str(value) for name, value in error.params.items()}
    return templates[language == "en"].format(**slots)
