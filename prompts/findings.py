"""Findings of `segue doctor`, in both languages."""

from collections.abc import Mapping

FINDINGS: Mapping[str, tuple[str, str]] = {
    "python": ("{version}，位于 {path}", "{version} at {path}"),
    "python_old": (
        "{version}，位于 {path}：需要 3.11 或更新的版本",
        "{version} at {path}: 3.11 or newer is needed",
    ),
    "packages_missing": (
        "缺少：{missing}；安装方法：pip install {missing}",
        "missing: {missing}; install with: pip install {missing}",
    ),
    "extras_installed": ("已安装 {extras}", "installed: {extras}"),
    "extras_missing": (
        "未安装 {extras}，用 pip install 'segue[名称]' 添加",
        "not installed: {extras}; pip install 'segue[NAME]' adds one",
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
    "files_whole": (
        "消息的 {count} 个文件，共 {size} 字节，位于 {place}",
        "{count} of messages, {size} bytes, in {place}",
    ),
    "files_lost": (
        "{place} 中消息的 {count} 个文件有缺失或损坏：{lost}；请从副本恢复",
        "of {count} of messages in {place} some are missing or damaged: {lost}; restore them from a copy",
    ),
    "no_damage": (
        "{file}，可写，结构版本 {version}，没有发现损坏",
        "{file}, writable, schema version {version}, no damage found",
    ),
    "server": (
        "{path}，PostgreSQL {version}，可写，结构版本 {schema}，{size} MB，连接 {connections}/{most_connections}，"
        "有效租约 {leases} 个，工作进程 {workers} 个，未开始的任务 {pending} 个",
        "{path}, PostgreSQL {version}, writable, schema version {schema}, {size} MB, connections: {connections} of "
        "{most_connections}, live leases: {leases}, workers: {workers}, tasks that have not begun: {pending}",
    ),
    "workers_differ": (
        "工作进程中这些智能体的版本不同：{agents}；任务由与其开始时版本相同的工作进程运行，没有时由其他版本运行",
        "they have different versions of these agents: {agents}; a task is run by one with the version that it "
        "began with, and by another where there is none",
    ),
    "tasks_interrupted": (
        "没有进程在运行这些未完成的任务（{n} 个）：{tasks}；`{one}` 继续其中一个，`{all}` 继续全部",
        "no process runs these unfinished ones ({n}): {tasks}; `{one}` continues one, `{all}` all of them",
    ),
    "tasks_wait": (
        "这些任务（{n} 个）在等待有其智能体的工作进程：{tasks}；`segue worker` 启动一个，`{one}` 在此处运行任务",
        "these ({n}) wait for a worker that has their agent: {tasks}; `segue worker` starts one, `{one}` "
        "runs a task here",
    ),
    "server_empty": (
        "{path}，PostgreSQL {version}，其中还没有 Segue 的表；第一条消息会创建它们",
        "{path}, PostgreSQL {version}, has no tables of Segue yet; the first message creates them",
    ),
    "server_read_only": (
        "{path}，PostgreSQL {version}，是只读的：请用 --db 指定主服务器",
        "{path}, PostgreSQL {version}, is read-only: name the primary server with --db",
    ),
    "server_rights": (
        "{path}：当前用户无权使用这些表：{lacking}；请由它们的所有者授权",
        "{path}: this user may not use the tables {lacking}: let their owner grant it",
    ),
    "server_no_create": (
        "{path}：当前用户无权创建 Segue 的表：请授予它数据库的 CREATE 权限",
        "{path}: this user may not create Segue's tables: grant it CREATE on the database",
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
    "unusable_agent": ("{agent} 无法使用：{why}", "{agent} cannot be used: {why}"),
    "model": ("{name}，来自 {origin}", "{name}, from {origin}"),
    "no_model": (
        "没有语言模型：请设置 OPENAI_API_KEY（或 OPENAI_BASE_URL），或使用 --model openai:名称",
        "no language model: set OPENAI_API_KEY (or OPENAI_BASE_URL), or --model openai:NAME",
    ),
    "agents_key": ("智能体的 api_key", "the agent's api_key"),
    "key_set": ("{key} 已设置（不显示它的值）", "{key} is set (its value is not shown)"),
    "key_not_set": ("没有设置（本地端点通常不需要）", "none is set; local endpoints rarely need one"),
    "of_agent": ("智能体“{agent}”", "the agent '{agent}'"),
    "default": ("默认值（没有任何配置）", "the default (nothing is configured)"),
    "unreachable": (
        "{address} 在 {seconds} 秒内无法连接（{kind}）",
        "{address} could not be reached in {seconds} s ({kind})",
    ),
    "rejects_key": ("{address} 有应答，但拒绝了密钥（{status}）", "{address} answers, and rejects the key ({status})"),
    "answers": ("{address} 有应答（{status}）", "{address} answers ({status})"),
    "prompts": (
        "{agent} 的任务若有 {calls} 次调用、每个结果 {chars} 字符，共发送的字符数（括号内是可被缓存的比例）：",
        "characters sent by a task of {agent} with {calls} calls and results of {chars} characters (and how much of "
        "them can be cached):",
    ),
    "planner": ("内置规划器有应答", "the embedded planner answers"),
}


def finding(name: str, language: str, /, **slots: object) -> str:
    """A finding's sentence in the person's language."""
    chinese, english = FINDINGS[name]
    return (chinese if language == "zh" else english).format(**slots)
