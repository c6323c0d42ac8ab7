"""The errors of recorded sessions in Chinese, by their English template."""

from collections.abc import Mapping

CASSETTES: Mapping[str, str] = {
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
}
