"""Sentences of the deterministic user of a rehearsal in both languages, and the errors of rehearsals in Chinese."""

from collections.abc import Mapping

from ..core.errors import InvalidWorkflow

REHEARSED: Mapping[str, tuple[str, str]] = {
    "thanks": ("好的，谢谢。", "Thank you."),
    "does_not_know": ("这个我不知道。", "I do not know that."),
    "waits": ("好的。", "All right."),
    "gives_up": ("那算了。", "Never mind then."),
    "knows": ("你知道：\n{facts}", "What you know:\n{facts}"),
    "also": ("办完之后，你还会提出：{requests}", "Once that is settled, you also ask: {requests}"),
    "requires": ("须先成功：{names}", "must have succeeded before: {names}"),
}
ANYTHING_ELSE = (
    "anything else",
    "something else i can",
    "how else can i",
    "what else can i",
    "还有什么",
    "其他可以帮",
    "别的需要",
)
"""Words of a bot that asks for nothing in particular."""
REQUESTS = (
    *("?", "please", "tell me", "give me", "provide", "let me know", "i need", "i will need", "i'll need", "may i"),
    *("？", "请", "需要", "提供", "告诉", "告知", "麻烦您", "能否", "说一下"),
)
"""Words of a sentence that asks for something."""
ONE_MOMENT = (
    "let me",
    "one moment",
    "hold on",
    "i will check",
    "i'll check",
    "稍等",
    "稍候",
    "正在",
    "我来查",
    "我查一下",
)
"""Words of a bot that is at work."""

_FAULTS: Mapping[str, str] = {
    "{problem}": "{problem}",
    "the file cannot be read ({error})": "文件无法读取（{error}）",
    "this is not valid YAML: {error}": "不是有效的 YAML：{error}",
    "the file should begin with front matter: a line with '---', then YAML": (
        "文件应以前置元数据开头：一行 '---'，然后是 YAML"
    ),
    "the front matter should end with a line with '---'": "前置元数据应以一行 '---' 结束",
    "this key is repeated": "这个键重复了",
    "not a JSON schema: {error}": "不是 JSON schema：{error}",
    "should be a list of scenarios": "应为场景的列表",
    "there are two scenarios '{name}'": "有两个名为“{name}”的场景",
    "there are two steps '{name}'": "有两个名为“{name}”的步骤",
    "'{name}' cannot require itself": "“{name}”不能依赖自己",
    "the answer '{name}' is missing": "缺少回答“{name}”",
    "'{name}' is no {kind}; use one of: {known}": "“{name}”不是{kind}；可选：{known}",
}
"""What can be wrong in the file of a workflow, by the English reason."""

ERRORS: Mapping[str, str] = {
    "The workflow {workflow} has no scenarios: name a file of them in its front matter, such as "
    "'scenarios: mine.yaml', or choose another user, such as --user llm_profile.": (
        "工作流 {workflow} 没有场景：请在它的前置元数据中指定场景文件，例如 'scenarios: mine.yaml'，"
        "或选择其他用户，例如 --user llm_profile。"
    ),
    "--say gives lines to scripted_user, and the user is {mode}: add --user scripted_user, or leave it out.": (
        "--say 是给 scripted_user 的台词，而当前用户是 {mode}：请加上 --user scripted_user，或去掉 --say。"
    ),
    "The conversation's configuration{of} has no field '{field}'; use one of: {known}.": (
        "对话的配置{of}没有字段“{field}”；可选：{known}。"
    ),
    "{option} is for a user that a language model plays, and the user is {mode}: add --user llm_profile, or leave "
    "it out.": ("{option} 用于由语言模型扮演的用户，而当前用户是 {mode}：请加上 --user llm_profile，或去掉它。"),
    "scripted_user has nothing to say: give it lines with --say or `script`.": (
        "scripted_user 没有台词：请用 --say 或 `script` 提供。"
    ),
    "The file {file} cannot be written: {reason}.": "文件 {file} 无法写入：{reason}。",
    "{mode} is a person, who cannot take part in a batch: leave --n out.": (
        "{mode} 是真人，不能参加批次：请去掉 --n。"
    ),
    "The file {file} already exists: replace it with --force, or name another one with --out.": (
        "文件 {file} 已存在：请用 --force 覆盖它，或用 --out 另取名称。"
    ),
    "Session {session} belongs to a conversation: the log of `segue simulate` replays it.": (
        "会话 {session} 属于模拟对话：`segue simulate` 的日志可以重放它。"
    ),
    "Session {session} cannot be recorded: task {task_id} waits for an answer. Give it with segue answer {task_id}, or "
    "cancel the task.": (
        "会话 {session} 无法录制：任务 {task_id} 正在等待答复。请用 segue answer {task_id} 答复，或取消该任务。"
    ),
    "Session {session} cannot be recorded: task {task_id} is {status}. Resume or cancel it first.": (
        "会话 {session} 无法录制：任务 {task_id} {status}。请先继续或取消它。"
    ),
    "Session {session} cannot be recorded: it was damaged and went back to an earlier state.": (
        "会话 {session} 无法录制：它曾损坏并恢复到较早的状态。"
    ),
    "Session {session} cannot be recorded: an earlier version of Segue ran task {task_id} and kept no replies.": (
        "会话 {session} 无法录制：任务 {task_id} 由较早版本的 Segue 运行，没有保存模型的回复。"
    ),
    "Session {session} cannot be recorded, since its replay differs: give the agents file that it ran with. If a "
    "prompt, a tool, the model or a memory file has changed since, run the session again.\n{difference}": (
        "会话 {session} 无法录制，重放的结果不同：请给出它运行时使用的智能体文件。如果提示词、工具、模型或记忆文件"
        "此后有改动，请重新进行此会话。\n{difference}"
    ),
    "The cassette {file} cannot be read: {reason}.": "录制文件 {file} 无法读取：{reason}。",
    "The cassette {file} cannot be written: {reason}.": "录制文件 {file} 无法写入：{reason}。",
    "There is nothing to redact: no argument or result is called {name}.": (
        "没有可以隐去的内容：没有名为 {name} 的参数或结果。"
    ),
    "{name} cannot be redacted: only texts of {least} characters or more can, and one of its values is {value}.": (
        "{name} 无法隐去：只能隐去至少 {least} 个字符的文本，而它的一个值是 {value}。"
    ),
    "There is no turn {turn}: the cassette has turns 1 to {turns}.": (
        "没有第 {turn} 轮：录制文件有第 1 至 {turns} 轮。"
    ),
    **{
        f"{InvalidWorkflow.PLACE}{english}.": f"工作流无效：{{file}} 第 {{line}} 行{{field}}：{chinese}。"
        for english, chinese in _FAULTS.items()
    },
}
"""By the English template."""


def rehearsed(name: str, language: str, **slots: str) -> str:
    """A sentence in that language."""
    chinese, english = REHEARSED[name]
    return (chinese if language == "zh" else english).format(**slots)
