"""Findings of `segue doctor`, in both languages."""

from collections.abc import Mapping

FINDINGS: Mapping[str, tuple[str, str]] = {
    "python": ("{version}，位于 {path}", "{version} at {path}"),
    "python_old": (
        "{version}，位于 {path}：需要 3.11 或更新的版本",
        "{version} at {path}: 3.11 or newer is needed",
    ),
    "packages_missing": (
        "缺少：{missing}；安装方法：pip install -U segue",
        "missing: {missing}; install them with: pip install -U segue",
    ),
    "installed": ("已安装", "installed"),
    "extra_missing": (
        "未安装（缺少 {missing}）：pip install 'segue[{extra}]'",
        "not installed ({missing} missing): pip install 'segue[{extra}]'",
    ),
    "no_file": ("{file} 还不存在；第一条消息会创建它", "{file} does not exist yet; the first message creates it"),
    "no_folder": (
        "文件夹 {folder} 不可写：请用 --db 指定其他文件",
        "the folder {folder} cannot be written: name another file with --db",
    ),
    "read_only": (
        "{file} 是只读的：请使它可写，或用 --db 指定其他文件",
        "{file} is read-only: make it writable, or name another file with --db",
    ),
    "no_damage": (
        "{file}，可写，结构版本 {version}，没有发现损坏",
        "{file}, writable, schema version {version}, no damage found",
    ),
    "faults": ("{n} 处", "faults: {n}"),
    "faults_or_more": ("至少 {n} 处", "{n} faults or more"),
    "damaged": (
        "{file} 已损坏（{count}；第一处是 {first}）：请从副本恢复。",
        "{file} is damaged ({count}; the first is {first}): restore it from a copy.",
    ),
    "save": (
        "{found} 或者用 SQLite 自带的命令行把可读的内容存入新文件：{command}。"
        "对其中没有结束的任务，请取消而不要继续：哪些调用已经执行，记录可能已丢失。",
        "{found} Or save what can be read into a new file, with SQLite's own command line: {command}. "
        "Cancel there what had not ended, rather than resume it: which calls were made may be lost.",
    ),
    "rows_beside": ("此外还有 {n} 行", "rows beside these: {n}"),
    "newest_checkpoint": ("最新的检查点（{reason}）", "newest checkpoint ({reason})"),
    "damaged_session": (
        "会话“{session}”已损坏：{what}。修复方法：{command}",
        "session '{session}' is damaged: {what}. To repair it: {command}",
    ),
    "unknown_session": (
        "{what}：不知道属于哪个会话。要删除它，请先复制数据库，然后：{command}",
        "{what}: its session is unknown. To remove it, after making a copy: {command}",
    ),
    "sessions_beside": (
        "此外还有 {n} 个损坏的会话；请先修复以上会话，再运行本命令",
        "damaged sessions beside these: {n}; repair those, then run this again",
    ),
    "no_tools": ("没有工具", "no tools"),
    "model": ("{name}，来自 {origin}", "{name}, from {origin}"),
    "no_model": (
        "没有语言模型：请设置 OPENAI_API_KEY（或 OPENAI_BASE_URL），或使用 --model openai:名称",
        "no language model: set OPENAI_API_KEY (or OPENAI_BASE_URL), or --model openai:NAME",
    ),
    "agents_key": ("智能体的 api_key", "the agent's api_key"),
    "key_set": ("{key} 已设置（不显示它的值）", "{key} is set (its value is not shown)"),
    "key_not_set": ("没有设置", "none is set"),
    "of_agent": ("智能体“{agent}”", "the agent '{agent}'"),
    "default": ("默认值（没有任何配置）", "the default (nothing is configured)"),
    "unreachable": (
        "{address} 在 {seconds} 秒内无法连接（{kind}）",
        "{address} could not be reached in {seconds} s ({kind})",
    ),
    "rejects_key": ("{address} 有应答，但拒绝了密钥（{status}）", "{address} answers, and rejects the key ({status})"),
    "answers": ("{address} 有应答（{status}）", "{address} answers ({status})"),
    "planner": ("内置规划器的回答：{answer}", "the embedded planner answers: {answer}"),
}


def finding(name: str, language: str, /, **slots: object) -> str:
    """A finding's sentence in the person's language."""
    chinese, english = FINDINGS[name]
    return (chinese if language == "zh" else english).format(**slots)
