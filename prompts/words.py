"""Single words in tables and messages, by the English word."""

import re
from collections.abc import Mapping, Sequence

from .servers import REASONS

WORDS: Mapping[str, str] = {
    **REASONS,
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
    "of an agents file that cannot be used": "其智能体文件无法使用",
    # what a trace shows
    "resumed": "已继续",
    "resumed with a changed agent": "已用更改后的智能体继续",
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
    # what a timeline shows
    "snapshot": "快照",
    "place": "位置",
    "what happened": "发生的事",
    "later effects": "之后的效果",
    "state": "状态",
    "messages": "消息",
    "results": "结果",
    "prompt": "提示词",
    # reasons inside events
    "the reply cannot be read": "回复无法读取",
    "another process took over the task": "另一个进程接管了任务",
    "other tasks run first": "其他任务先运行",
    "no worker is running": "没有工作进程在运行",
    "after the wait": "等待之后",
    "what was written so far was reasoning": "已写出的内容是推理过程",
    "a checkpoint is missing": "缺少一个检查点",
    "its messages cannot be read": "其中的消息无效",
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
    "rating": "评分",
    "started": "开始时间",
    "message": "消息",
    "model": "模型",
    "tools": "工具",
    "tool": "工具",
    "allowed in": "允许范围",
    "since": "起始时间",
    "marks": "标记",
    "description": "说明",
    "id": "编号",
    "subtask": "子任务",
    "priority": "优先级",
    "seconds": "秒",
    "result": "结果",
    "user": "用户",
    "database": "数据库",
    "files": "文件",
    "file": "文件",
    "entries": "条目",
    "tasks": "任务",
    "workers": "工作进程",
    "packages": "软件包",
    "extras": "可选组件",
    "agents": "智能体",
    "key": "密钥",
    "endpoint": "端点",
    "prompts": "提示词",
    "offline": "离线",
    " and ": "和",
    "bytes": "字节",
    "changed": "修改时间",
    # why a file of a message cannot be used
    "missing": "缺失",
    "damaged": "已损坏",
    "images": "图片",
    "PDF files": "PDF 文件",
    # why a mode was chosen
    "picked": "自动选择",
    "auto": "自动选择",
    "picked by the model": "由模型选择",
    # choices
    "answer or cancel": "答复或取消",
    "resume, steer or cancel": "继续、补充说明或取消",
    # why a database cannot be used
    "is locked by another process: stop that process, or name another file with --db": (
        "被另一个进程锁定：请停止该进程，或用 --db 指定其他文件"
    ),
    "may not be used by this user: change its permissions, or name another file with --db": (
        "当前用户无权使用：请更改权限，或用 --db 指定其他文件"
    ),
    "is read-only: make it writable, or name another file with --db": "是只读的：请使它可写，或用 --db 指定其他文件",
    "cannot be read or written: check the disk, then try again": "无法读写：请检查磁盘，然后重试",
    "is damaged: restore it from a copy, or name a new file with --db": "已损坏：请从副本恢复，或用 --db 指定新文件",
    "has no room left: free some space on the disk, then resume": "没有剩余空间：请释放磁盘空间，然后继续",
    "cannot be opened: check that it is a file you may write, or name another with --db": (
        "无法打开：请确认它是可写的文件，或用 --db 指定其他文件"
    ),
    "is not a SQLite database: name another file with --db": "不是 SQLite 数据库：请用 --db 指定其他文件",
    # why a model did not answer, and what to do
    "could not be asked": "无法接受请求",
    "broke off the connection": "中断了连接",
    "broke off its reply": "中断了回复",
    "could not be reached": "无法连接",
    "could not be reached in time": "未能及时连接",
    "sent nothing new for {n} s": "在 {n} 秒内没有发送新内容",
    "sent a reply of more than {n} bytes": "发送的回复超过 {n} 字节",
    "sent an invalid reply": "发送了无效的回复",
    "sent a reply that is not valid JSON": "发送的回复不是有效的 JSON",
    "declined to answer": "拒绝回答",
    "stopped its reply at its content filter": "因内容过滤而停止了回复",
    "ended its reply without a finish_reason": "结束回复时没有 finish_reason",
    "answered without choices": "的回复中没有 choices",
    "rejected the key": "拒绝了密钥",
    "was not found": "不存在",
    "has no credit left": "余额不足",
    "answered {n}": "返回了 {n}",
    "refused the request": "拒绝了请求",
    "check the endpoint, then resume": "请检查端点，然后继续",
    "check the key and the settings": "请检查密钥和设置",
    "check the key": "请检查密钥",
    "check base_url and the key, then resume": "请检查 base_url 和密钥，然后继续",
    "check base_url, then resume": "请检查 base_url，然后继续",
    "check the address and the network, then resume": "请检查地址和网络，然后继续",
    "check the endpoint, then resume; a slow one needs a larger read_timeout on the agent": (
        "请检查端点，然后继续；较慢的端点需要为智能体设置更大的 read_timeout"
    ),
    "check OPENAI_API_KEY or the agent's api_key": "请检查 OPENAI_API_KEY 或智能体的 api_key",
    "check the model's name and base_url": "请检查模型名称和 base_url",
    "top up the account or use another key": "请为账户充值，或使用其他密钥",
    "wait a moment, then resume": "请稍候，然后继续",
    "lower the agent's budget.prompt_tokens": "请减小智能体的 budget.prompt_tokens",
    "change what it names, then resume": "请更改它指出的内容，然后继续",
    'if it takes no tools, set protocol="json" on the agent': '如果它不支持工具，请为智能体设置 protocol="json"',
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
    # why a server's message is refused
    "the server sent a message of more than {n} bytes, the most that is read": "服务器的消息超过 {n} 字节的上限",
    "the server sent a message of more than {n} JSON values, the most that is read": (
        "服务器的消息超过 {n} 个 JSON 值的上限"
    ),
    "the server sent a compressed message: have it send plain ones, as it was asked to": (
        "服务器发送了压缩的消息：请让它按要求发送未压缩的消息"
    ),
    # why a schema cannot be used
    "the references of its schema add more than {n} values": "其 schema 的引用会增加超过 {n} 个值",
    "its schema has more than {n} levels": "其 schema 超过 {n} 层",
    "its schema has an unresolvable $ref": "其 schema 的 $ref 无法解析",
    "none": "无",
    # kinds of names, and roles
    "bot": "机器人",
    "api": "API",
    "controller": "控制器",
    "slot": "信息项",
    "slot or API": "信息项或 API",
    "parameter": "参数",
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
    "message": "消息",
    "branch": "分支",
    "fallback": "改用模式",
    "steered": "补充消息",
    "user": "用户",
    "bot": "机器人",
    "api": "API",
    "edited": "已修改",
    "cancelled": "已取消",
    "written so far": "已写出的部分",
    "went back to an older snapshot": "已恢复到较早的快照",
}

_OF_MODEL = re.compile(r'The model "(.+?)" at (\S+) (.+)', re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*")


def colon(language: str) -> str:
    """The separator between a label and its text."""
    return "：" if language == "zh" else ": "


def label(english: str, language: str) -> str:
    """A label of an entry, with its colon."""
    return (LABELS[english] if language == "zh" else english) + colon(language)


def described(english: str, language: str) -> str:
    """What happened, in a language: a number in it and the detail in parentheses stay as they are."""
    if language != "zh":
        return english
    if of_model := _OF_MODEL.fullmatch(english):
        return f"模型“{of_model[1]}”（{of_model[2]}）{described(of_model[3], language)}"
    what, opened, detail = english.partition(" (")
    number = _NUMBER.search(what)
    known = WORDS.get(_NUMBER.sub("{n}", what, count=1), what) if number else word(what, language)
    return (known.replace("{n}", number[0]) if number else known) + opened + detail


def enumerated(items: Sequence[str], language: str) -> str:
    """The items as a list in a sentence: a, b and c."""
    *others, last = items
    comma = "、" if language == "zh" else ", "
    return f"{comma.join(others)}{word(' and ', language)}{last}" if others else last


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return WORDS.get(english, english) if language == "zh" else english
