"""The errors' sentences in Chinese; an error itself speaks English."""

from collections.abc import Mapping

from ..core.errors import SegueError
from .language import Language
from .words import word

ERRORS: Mapping[str, str] = {
    "SegueError": "{sentence}",
    "InvalidMessage": "消息无法发送：{sentence}",
    "AppClosed": "应用已经关闭：请在 `async with segue.open()` 之内使用它，或重新打开。",
    "ConfigurationError": "配置有误：{sentence}",
    "UnknownAgent": "没有名为“{name}”的智能体；可选：{known}。",
    "UnknownMode": "没有名为“{name}”的模式；可选：{known}。",
    "UnknownTool": "没有名为“{name}”的工具；可选：{known}。",
    "UnknownOption": "没有名为“{name}”的选项；可选：{known}。",
    "UnknownLanguage": "不支持语言“{name}”；请使用 zh 或 en，或者不填，由每条消息决定。",
    "UnknownModel": "无法识别模型“{name}”；请使用 openai:<名称>、local:<路径.gguf> 或 offline，或传入聊天模型对象。",
    "MissingKey": (
        "模型“{model}”需要密钥：请设置 OPENAI_API_KEY，或为智能体设置 api_key，或用 --model offline 不用密钥试用。"
    ),
    "MissingExtra": "{what} 需要附加组件：pip install 'segue[{extra}]'。",
    "InsideEventLoop": (
        "segue.ask 不能在事件循环中运行：请使用 `async with segue.open() as app` 和 `await app.ask(…)`。"
    ),
    "UnknownWorkflow": "没有名为“{name}”的工作流；请给出 .md 或 .yaml 文件，或选择：{known}。",
    "UnknownScenario": "没有名为“{name}”的场景；可选：{known}。",
    "InvalidWorkflow": "工作流无效：{where}：{reason}。",
    "ToolServerUnavailable": (
        "MCP 服务器“{server}”无法使用：{reason}。请检查它的命令或网址，或从智能体中移除它，然后重新发送消息。"
    ),
    "ModelError": "模型没有给出可用的回复：{sentence}",
    "ModelUnreachable": "模型没有应答：{sentence}",
    "ModelRefused": "模型拒绝了请求：{sentence}",
    "UnreadableReply": "模型的回复无法解析：{sentence}",
    "MemoryUnavailable": "记忆文件无法使用：{sentence}",
    "InvalidMemory": "记忆文件无法使用：{sentence}",
    "UnknownMemory": "没有记忆文件“{name}”；`segue memory` 可列出所有记忆文件。",
    "InvalidPlan": "计划无效：{sentence}",
    "IllegalTransition": "状态不能从“{old}”变为“{new}”。",
    "TaskError": "任务无法执行此操作：{sentence}",
    "UnknownTask": "此数据库中没有任务“{task_id}”；`segue tasks` 可列出所有任务。",
    "UnknownThread": "此数据库中没有会话“{thread_id}”；`segue threads` 可列出所有会话。",
    "UnknownSnapshot": "会话“{thread_id}”没有快照“{checkpoint_id}”：请选择它已有的快照。",
    "ThreadExists": "会话“{thread_id}”已经存在：请为新会话另取名称。",
    "InvalidExport": "文件无法导入：{reason}。没有保存任何内容；请重新导出会话。",
    "TaskUnfinished": "会话“{thread_id}”有一个任务{status}：请先{choices}任务“{task_id}”，再重新发送消息。",
    "InvalidAnswer": "答复无效：{sentence}",
    "ThreadBusy": "会话“{thread_id}”正在处理另一个任务：请等它完成，或使用其他会话。",
    "TooManyTasks": "任务过多：{running} 个正在运行，{queued} 个正在排队，已达上限。请稍后再试。",
    "StorageError": "存储出错：{sentence}",
    "DatabaseUnavailable": "数据库无法使用：{sentence}",
    "DatabaseDamaged": "数据库已损坏：{sentence}",
    "DamagedSession": "会话“{thread_id}”已损坏：{sentence}",
    "DamagedCheckpoint": (
        "会话“{thread_id}”最新的检查点已损坏（{reason}）：segue recover {thread_id} 可恢复到最新的可读检查点。"
    ),
    "DamagedRow": "会话“{thread_id}”有一条记录已损坏（{what}：{reason}）：segue recover {thread_id} 可修复它。",
    "UnreadableState": (
        "会话“{thread_id}”有一个检查点已损坏（{reason}），无法连同未完成的任务一起导出：segue recover {thread_id}。"
        "如果找不到可读的检查点，请先结束或取消该任务。"
    ),
    "NothingReadable": (
        "会话“{thread_id}”没有可读的检查点（{reason}）：请在新会话中继续。没有删除任何检查点；"
        "`segue tasks` 和 `segue trace` 可显示此会话做过什么。"
    ),
    "DatabaseTooNew": (
        "数据库 {path} 的结构版本为 {found}，此版本的 Segue 最高支持 {known}：请升级 Segue，或用 --db 指定其他文件。"
    ),
    "StaleOwner": "另一个进程接管了会话“{thread_id}”；本进程已停止，没有写入。",
    "InvalidSnapshot": "快照无法恢复：{sentence}",
}
"""By the error's class; `sentence` is the error's own English one."""

SENTENCES: Mapping[str, str] = {
    "The message is empty: write what you want to be done.": "消息是空的：请写下您想做的事。",
    "The message is not valid text: send it as UTF-8.": "消息不是有效的文本：请以 UTF-8 发送。",
    "The message has {size} bytes and {most} is the most: shorten it.": (
        "消息有 {size} 字节，最多 {most} 字节：请缩短它。"
    ),
    "The session name {name} cannot be used: write up to 128 letters, digits or . _ : @ -": (
        "会话名称 {name} 无法使用：最多 128 个字母、数字或 . _ : @ -"
    ),
    "Task {task_id} is {status}: it waits for no answer.": "任务 {task_id} {status}：它没有在等待答复。",
    "Task {task_id} is {status}: there is nothing to resume; send a new message.": (
        "任务 {task_id} {status}：没有可以继续的内容；请发送新消息。"
    ),
    "Task {task_id} waits for a person: answer it with segue answer {task_id}, or cancel it.": (
        "任务 {task_id} 正在等待答复：请用 segue answer {task_id} 答复，或取消它。"
    ),
    "Session {thread_id} went on with task {task_id}: send a new message.": (
        "会话 {thread_id} 已由任务 {task_id} 继续：请发送新消息。"
    ),
    "Task {task_id} is {status}: only a task that runs can be paused.": (
        "任务 {task_id} {status}：只有正在运行的任务才能暂停。"
    ),
    "Task {task_id} is {status}: there is nothing to cancel.": "任务 {task_id} {status}：没有可以取消的内容。",
    "Task {task_id} still runs: its process was asked to cancel it, but does not answer.": (
        "任务 {task_id} 仍在运行：已要求它的进程取消，但没有回应。"
    ),
    "There is no database {path} yet: `segue chat` creates it, or name another one with --db.": (
        "数据库 {path} 还不存在：`segue chat` 会创建它，或用 --db 指定其他数据库。"
    ),
    "The memory file {name} cannot be used: {fault}. Use a relative path such as logs.md.": (
        "记忆文件 {name} 无法使用：{fault}。请使用相对路径，例如 logs.md。"
    ),
    "The memory file {name} cannot be used: {reason}.": "记忆文件 {name} 无法使用：{reason}。",
    "The memory file {name} is a link, or in a folder that is one.": (
        "记忆文件 {name} 是链接，或位于链接指向的文件夹中。"
    ),
    "The memory file {name} is not a regular file.": "记忆文件 {name} 不是普通文件。",
    "The memory file {name} is busy: another process has held it for {seconds} s. Try again.": (
        "记忆文件 {name} 正忙：另一个进程已占用它 {seconds} 秒。请重试。"
    ),
    "The memory file {name} is full, it may have {most} bytes: use another file, or remove entries with "
    "`segue memory forget`.": (
        "记忆文件 {name} 已满，最多 {most} 字节：请使用其他文件，或用 `segue memory forget` 删除条目。"
    ),
    "The memory file {name} is one too many, there may be {most}: use a file that exists.": (
        "记忆文件 {name} 超出数量，最多 {most} 个：请使用已有的文件。"
    ),
    "An entry of {size} bytes is too long for the memory file {name}, which takes {most}: write less.": (
        "条目有 {size} 字节，记忆文件 {name} 最多接受 {most} 字节：请缩短它。"
    ),
    "Name a task or a memory file to forget.": "请指定要遗忘的任务或记忆文件。",
}
"""By the English template, where one class has several sentences."""

_TRANSLATED = ("status", "choices", "known", "fault", "reason")


def template_of(error: SegueError) -> str:
    """The Chinese template of an error; a class without one has that of the nearest class above it."""
    named = next(ERRORS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in ERRORS)
    return SENTENCES.get(error.template, named)


def render(error: SegueError, language: Language) -> str:
    """The error's sentence in a language; free text from elsewhere stays as it is."""
    if language == "en":
        return str(error)
    slots = {name: str(value) for name, value in error.params.items()}
    slots |= {name: word(slots[name], language) for name in _TRANSLATED if name in slots}
    return template_of(error).format(**slots, sentence=str(error))
