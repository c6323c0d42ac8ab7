"""Sentences of the offline planner, in both languages."""

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str]] = {
    "notice": (
        "*—— 由 Segue 的「离线规划器」按规则拼成：它不是语言模型。*",
        "*— Put together by rules by Segue’s offline planner, which is not a language model.*",
    ),
    "greeting": ("你好！我可以帮你做这些事：\n\n{tools}", "Hello! I can help with:\n\n{tools}"),
    "greeting_alone": ("你好！这里没有可用的工具。", "Hello! There are no tools here."),
    "welcome": ("不客气！", "You’re welcome!"),
    "no_fit": (
        "没有合适的工具能处理这句话；没有语言模型，我无法回答。我的工具能做这些事：\n\n{tools}",
        "No tool fits this message, and I can’t answer it without a language model. My tools can do this:\n\n{tools}",
    ),
    "no_tools": (
        "这里没有可用的工具；没有语言模型，我无法回答。",
        "There are no tools here, and I can’t answer this without a language model.",
    ),
    "ask": ("要用{tools}，还需要你告诉我：", "To use {tools}, I still need:"),
    "sample": ("例如：{samples}", "for example {samples}"),
    "held": (
        "{tools}会改变数据，而这句话没有明确要求执行，所以没有运行。要执行，请明确写出，例如：{form}",
        "{tools} changes something and the message does not clearly ask for it, so it was not run. To run it, write "
        "for example: {form}",
    ),
    "unused": ("未使用的部分：{parts}", "Not used: {parts}"),
    "unread": ("第 {n} 个字符之后的内容", "everything after the first {n} characters"),
    "not_run": (
        "这要用{tools}，但这里没有运行工具，所以没有结果。",
        "This takes {tools}, but no tool was run here, so there is no result.",
    ),
    "failed": ("{call} 没有成功：{error}", "{call} did not succeed: {error}"),
    "unknown": (
        "{call} 是否已经生效并不清楚，也没有自动重做：请先核实，需要时再发一条消息让我重做。",
        "{call} may or may not have taken effect, and was not run again: check, and ask again if need be.",
    ),
    "forgotten": (
        "{tools}已经运行过，但结果太长，已不在提示中。",
        "{tools} ran, but the results are no longer part of the prompt.",
    ),
    "error": ("上一步出了错：{error}", "The last step went wrong: {error}"),
    "recap": ("没有需要新调用的工具。前面查到的是：", "No new call is needed. This was found before:"),
    "first_round": ("我观察到这是第一轮执行。", "I observe that this is the first round."),
    "saw": ("我观察到已有 {n} 个调用的结果。", "I observe the results of {n} calls."),
    "think_call": (
        "我分析出需要{calls}，因此决定调用。",
        "Calling {calls}.",
    ),
    "think_answer": (
        "没有需要再做的调用，因此决定回答。",
        "No further call is needed: answering.",
    ),
    "conclude": ("整理结果，生成回答", "Put the results together and write the answer"),
    "more": ("另有 {n} 项", "{n} more"),
}


def sentence(name: str, language: str, **slots: object) -> str:
    """A sentence in the reader's language; braces in the values are kept."""
    chinese, english = SENTENCES[name]
    return (chinese if language == "zh" else english).format(**slots)
