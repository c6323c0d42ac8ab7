"""Single words that tables and sentences of Segue's own have, by the English one."""

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    # statuses
    "pending": "尚未开始",
    "running": "正在运行",
    "waiting": "正在等待答复",
    "pausing": "正在暂停",
    "paused": "已暂停",
    "done": "已完成",
    "error": "已出错",
    "cancelled": "已取消",
    "skipped": "已跳过",
    "interrupted": "已中断",
    # outcomes of a resume
    "waiting for an answer": "正在等待答复",
    "failed": "失败",
    "running elsewhere": "正在别处运行",
    "not resumed": "没有继续",
    # what a trace shows
    "resumed": "已继续",
    "not started": "未开始",
    "started, outcome unknown": "已开始，结果不明",
    "outcome unknown": "结果不明",
    "from before the session was recovered": "会话恢复之前的调用",
    "approval requested": "请求批准",
    "approval given": "批准结果",
    "approved": "已批准",
    "edited": "已修改",
    "rejected": "已拒绝",
    "step": "步骤",
    "trace": "追踪",
    "flow": "流程",
    # reasons inside events
    "the reply cannot be read": "回复无法读取",
    "other tasks run first": "其他任务先运行",
    "after the wait": "等待之后",
    "what was written so far was reasoning": "已写出的内容是推理过程",
    "a checkpoint is missing": "缺少一个检查点",
    "its messages are none": "其中的消息无效",
    "it holds bytes that are no text": "其中有不是文本的字节",
    # columns
    "session": "会话",
    "turns": "轮数",
    "status": "状态",
    "last used": "最近使用",
    "last message": "最近的消息",
    "task": "任务",
    "agent": "智能体",
    "mode": "模式",
    "started": "开始时间",
    "message": "消息",
    "model": "模型",
    "tools": "工具",
    "description": "说明",
    "id": "编号",
    "subtask": "子任务",
    "priority": "优先级",
    "seconds": "秒",
    "result": "结果",
    "user": "用户",
    "database": "数据库",
    "file": "文件",
    "entries": "条目",
    "tasks": "任务",
    "bytes": "字节",
    "changed": "修改时间",
    # why a mode was chosen
    "picked": "自动选择",
    "picked by the model": "由模型选择",
    "asked for": "按要求",
    # choices
    "answer or cancel": "答复或取消",
    "resume, steer or cancel": "继续、补充说明或取消",
    # faults of names
    "it is an absolute path": "它是绝对路径",
    "it has '..'": "其中有 '..'",
    "it has more than 4 parts": "它超过 4 层",
    "a part of it is empty": "其中一段为空",
    "it has a character that file names cannot have": "其中有文件名不允许的字符",
    "a part of it begins or ends with a dot or a space": "其中一段以点或空格开头或结尾",
    "Windows reserves it for a device": "Windows 将它保留给设备",
    "a part of it is longer than 200 bytes": "其中一段超过 200 字节",
    "it is not text": "它不是文本",
    "none": "无",
}

LABELS: Mapping[str, str] = {
    "observe": "观察",
    "thought": "思考",
    "action": "行动",
    "plan": "计划",
    "answer": "回答",
    "error": "错误",
    "question": "问题",
    "answered": "已答复",
    "paused": "已暂停",
    "added": "补充",
    "written so far": "已写出的部分",
    "went back to an older snapshot": "已恢复到较早的快照",
}


def colon(language: str) -> str:
    """What stands between a label and its text."""
    return "：" if language == "zh" else ": "


def label(english: str, language: str) -> str:
    """A label of an entry, with its colon."""
    return (LABELS[english] if language == "zh" else english) + colon(language)


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return WORDS.get(english, english) if language == "zh" else english
