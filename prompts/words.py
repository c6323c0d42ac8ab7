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


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return WORDS.get(english, english) if language == "zh" else english
