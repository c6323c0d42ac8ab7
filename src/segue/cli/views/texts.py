"""What the command line says about itself, in both languages where a person's language is known."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from .sanitize import one_line

if TYPE_CHECKING:
    from ...core.ports import Model

_OFFLINE = {
    "en": (
        "NO LANGUAGE MODEL: this is Segue's embedded offline planner, which works by rules.\n"
        "For a real model set OPENAI_API_KEY (or OPENAI_BASE_URL), or add --model openai:NAME; see `segue doctor`."
    ),
    "zh": (
        "没有使用语言模型：这是 Segue 内置的离线规划器，按规则工作。\n"
        "要使用真实模型，请设置 OPENAI_API_KEY（或 OPENAI_BASE_URL），或加 --model openai:名称；参见 `segue doctor`。"
    ),
}

_TEXTS = {
    "unknown": (
        "无法确定它是否已经生效，也没有再次执行：请先核实，再决定是否重做。",
        "It is not known whether it took effect. It was not run again: check before you repeat it.",
    ),
    "unknown_calls": (
        "请核实以下调用是否已经生效，它们没有再次执行：",
        "Check whether these calls took effect; they were not run again:",
    ),
    "asked": ("有 {n} 个调用等待您批准：", "{n} calls are waiting for your approval:"),
    "asked_one": ("有一个调用等待您批准：", "A call is waiting for your approval:"),
    "asked_unknown": (
        "相同的调用可能已经生效：批准之前请先核实。",
        "A call like this one may have taken effect already: check before you approve it.",
    ),
    "choose": ("批准、修改还是拒绝？[a/e/r]", "approve, edit or reject? [a/e/r]"),
    "choose_all": (
        "批准、修改还是拒绝？[a/e/r，A＝其余全部批准]",
        "approve, edit or reject? [a/e/r, A approves all the rest]",
    ),
    "why": ("理由（可以留空）：", "reason (may be empty):"),
    "write": ("JSON 格式的参数：", "arguments as JSON:"),
    "no_object": ("这不是 JSON 对象（{why}），请重新填写。", "That is not a JSON object ({why}): try again."),
    "no_editor": ("无法使用编辑器 {editor}（{why}）。", "The editor {editor} cannot be used ({why})."),
    "unchanged": ("参数没有改动。", "The arguments are unchanged."),
    "again": ("按回车键继续编辑", "press Enter to edit it again"),
    "no_arguments": ("（没有参数）", "(no arguments)"),
    "more": ("…… 还有 {n} 个字符，选 e 可查看全部", "… {n} more characters; e shows all of them"),
    "files": ("（数据文件：{names}）", "(data files: {names})"),
    "cancelled": ("已取消。", "Cancelled."),
    "cancelled_partial": (
        "已取消；上面未写完的回答保留在会话中。",
        "Cancelled; the partial answer is kept.",
    ),
    "help": (
        """\
/mode 名称    切换模式（auto、direct、react、plan……）
/history     显示此会话的消息
/resume      继续已暂停或失败的任务，或答复它的问题
/steer 文字   补充一条消息，然后继续任务
/cancel      取消任务
/exit        离开（也可按 Ctrl-D，或在没有任务运行时按 Ctrl-C）
Ctrl-C       任务运行时：暂停它；再按一次：立即停止""",
        """\
/mode NAME   switch the mode (auto, direct, react, plan, …)
/history     show the messages of this session
/resume      resume a task that was paused or failed, or answer its question
/steer TEXT  add a message to the task, and resume it
/cancel      cancel the task
/exit        leave (also Ctrl-D, or Ctrl-C while nothing runs)
Ctrl-C       while a task runs: pause it; twice: stop it now""",
    ),
    "help_hint": ("/help 列出所有命令。", "/help lists the commands."),
    "no_command": ("没有命令 {name}。", "There is no command {name}."),
    "hint_waiting": (
        "可在这里：/resume 再次提问，/cancel 取消任务。",
        "Here: /resume asks you again, /cancel cancels it.",
    ),
    "hint": (
        "可在这里：/resume 继续任务，/steer 文字 补充一条消息并继续，/cancel 取消任务。",
        "Here: /resume resumes it, /steer TEXT adds a message and resumes it, /cancel cancels it.",
    ),
    "mode_now": ("当前模式：{name}。", "The mode is now {name}."),
    "mode_usage": ("用法：/mode 名称，可选：{names}。", "Usage: /mode NAME, where NAME is one of: {names}."),
    "steer_usage": ("用法：/steer 文字", "Usage: /steer TEXT"),
    "task_cancelled": ("任务已取消；请发送新消息。", "The task is cancelled; send a new message."),
    "nothing_sent": ("此会话中还没有发送过消息。", "Nothing was sent in this session yet."),
    "paused": ("任务已暂停。要继续：", "The task is paused. To resume it:"),
    "accepts_next": (
        "任务已取消；此会话可以接收新消息。",
        "The task was cancelled; its session accepts the next message.",
    ),
    "waiting": ("任务正在等待答复。", "The task is waiting for an answer."),
}


def told(name: str, language: str, /, **slots: object) -> str:
    """A text for the person whose task it is, in the language of the task."""
    chinese, english = _TEXTS[name]
    return (chinese if language == "zh" else english).format(**slots)


def offline_notice(*languages: str) -> Text:
    """That no language model answers, and how to get one."""
    text = Text("\n".join(_OFFLINE[language] for language in languages), style="yellow")
    text.stylize("bold reverse", 0, len(text.plain.partition("：" if languages[0] == "zh" else ":")[0]))
    return text


def header(agent: str, model: "Model", mode: str, session: str, database: str) -> Text:
    """Who answers, and where it is kept."""
    parts = {"agent": agent, "model": model.name, "mode": mode, "session": session, "database": database}
    text = Text()
    for name, value in parts.items():
        text.append(f"{name} ", style="dim").append(f"{one_line(value)}  ", style="bold")
    text.rstrip()
    return text


def greet(console: Console, model: "Model", heading: Text, *languages: str) -> None:
    """Print the header, and the notice where the model is none."""
    console.print(heading, soft_wrap=not console.is_terminal)
    if not model.is_language_model:
        console.print(offline_notice(*languages), soft_wrap=not console.is_terminal)
    console.print()
