"""Error messages in Chinese; the message of an error itself is in English."""

from collections.abc import Mapping

from ..core.errors import SegueError
from .agents import ERRORS as AGENTS
from .clients import CLIENTS
from .language import Language
from .message_files import FILES
from .rehearsal import ERRORS as REHEARSALS
from .servers import SENTENCES as SERVERS
from .words import described

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
    "UnknownField": "{file} 中的智能体“{name}”有未知的字段“{field}”；可选：{known}。",
    "UnknownWorkflow": "没有名为“{name}”的工作流；请给出 .md 或 .yaml 文件，或选择：{known}。",
    "UnknownScenario": "没有名为“{name}”的场景；可选：{known}。",
    "InvalidWorkflow": "工作流无效：{sentence}",
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
    "AmbiguousTask": "任务不明确：{sentence}",
    "UnknownTask": "此数据库中没有任务“{task_id}”；`segue tasks` 可列出所有任务。",
    "UnknownThread": "此数据库中没有会话“{thread_id}”；`segue sessions` 可列出所有会话。",
    "NothingStored": "此数据库中还没有会话：`segue chat` 可开始一个。",
    "UnknownSnapshot": "会话“{thread_id}”没有快照“{checkpoint_id}”：`segue timeline {thread_id}` 可列出它的快照。",
    "QuestionClosed": "问题已经关闭：{sentence}",
    "UnknownPlace": "此数据库中没有会话或快照“{text}”：`segue timeline SESSION` 可列出快照。",
    "ThreadExists": "会话“{thread_id}”已经存在：请为新会话另取名称。",
    "KeyUsed": "幂等键“{key}”已用于另一个请求：请为每个请求使用新的键。",
    "InvalidExport": "文件无法导入：{reason}。没有保存任何内容；请重新导出会话。",
    "TaskUnfinished": "会话“{thread_id}”有一个任务{status}：请先{choices}任务“{task_id}”，再重新发送消息。",
    "InvalidAnswer": "答复无效：{sentence}",
    "ThreadBusy": "会话“{thread_id}”正在处理另一个任务：请等它完成，或使用其他会话。",
    "TooManyTasks": "任务过多：{running} 个正在运行，{queued} 个正在排队，已达上限。请稍后再试。",
    "StorageError": "存储出错：{sentence}",
    "DatabaseUnavailable": "数据库无法使用：{sentence}",
    "DatabaseUnreachable": "数据库服务器暂时无法连接：{sentence}",
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
    "FileUnavailable": "消息的文件 {path}（{state}）无法读取：请从副本恢复，或在新消息中重新发送。",
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
    "The bot's session {session_id} lacks {missing} turns of the conversation: import it under this name.": (
        "智能体的会话 {session_id} 缺少这次对话的 {missing} 轮：请以此名称导入它。"
    ),
    "The judge {judge} gave no verdict on {conversation}: {why}": "评审 {judge} 没有对 {conversation} 作出判断：{why}",
    "The message is empty: write what you want to be done.": "消息是空的：请写下您想做的事。",
    "The message is not valid text: send it as UTF-8.": "消息不是有效的文本：请以 UTF-8 发送。",
    "The file {file} already exists: name another folder, as in `segue init my-agents`.": (
        "文件 {file} 已经存在：请指定另一个文件夹，例如 `segue init my-agents`。"
    ),
    "The database to copy to has another session '{thread_id}' already: delete one of the two, or export it and "
    "import it under another name.": (
        "要复制到的数据库中已有另一个会话“{thread_id}”：请删除其中一个，或先导出它，再以其他名称导入。"
    ),
    "Session '{thread_id}' reads differently in the database that it was copied to: nothing of it was stored.": (
        "会话“{thread_id}”在要复制到的数据库中读出的内容不同：没有保存它的任何内容。"
    ),
    "There is no database {path} to copy from: name one that exists.": (
        "没有可供复制的数据库 {path}：请指定已有的数据库。"
    ),
    "A database cannot be copied to itself: name another one.": "数据库不能复制到它自己：请指定另一个。",
    "The folder {folder} cannot be written: {error}.": "文件夹 {folder} 无法写入：{error}。",
    "The message has {size} bytes; the limit is {most}: shorten it, or raise the agent's budget.message_bytes.": (
        "消息有 {size} 字节，最多 {most} 字节：请缩短它，或增大智能体的 budget.message_bytes。"
    ),
    "The session name {name} cannot be used: write up to 128 letters, digits or . _ : @ -": (
        "会话名称 {name} 无法使用：最多 128 个字母、数字或 . _ : @ -"
    ),
    "Metrics cannot be served on port {port} of {host}: {reason}. Choose another port.": (
        "无法在 {host} 的端口 {port} 上提供指标：{reason}。请选择其他端口。"
    ),
    "Task {task_id} is {status}: it waits for no answer.": "任务 {task_id} {status}：它没有在等待答复。",
    "Task {task_id} is {status}: there is nothing to resume; send a new message.": (
        "任务 {task_id} {status}：没有可以继续的内容；请发送新消息。"
    ),
    "Task {task_id} is to be cancelled: cancel it with segue cancel {task_id}, or send a new message.": (
        "任务 {task_id} 将被取消：请用 segue cancel {task_id} 取消它，或发送新消息。"
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
    "Task {task_id} failed: {error}": "任务 {task_id} 失败：{error}",
    "The imported state of session '{thread_id}' is not valid ({reason}): import the session again, or send "
    "its message to a new one.": (
        "会话“{thread_id}”导入的状态无效（{reason}）：请重新导入该会话，或在新会话中发送这条消息。"
    ),
    "The queue of the workers cannot be used: {error}": "工作进程的队列无法使用：{error}",
    "Workers need a PostgreSQL database: name one with --db postgresql://…": (
        "工作进程需要 PostgreSQL 数据库：请用 --db postgresql://… 指定。"
    ),
    "Dispatching can be auto, always or never, not '{text}'.": "任务分派可设为 auto、always 或 never，不能是“{text}”。",
    "SQLite has no workers: name a PostgreSQL database, or leave out dispatch='always'.": (
        "SQLite 没有工作进程：请指定 PostgreSQL 数据库，或去掉 dispatch='always'。"
    ),
    "Task {task_id} still runs: its process was asked to cancel it, but does not answer.": (
        "任务 {task_id} 仍在运行：已要求它的进程取消，但没有回应。"
    ),
    "A database named {scheme}://… cannot be opened: name a SQLite file, or postgresql://USER@HOST/NAME.": (
        "无法打开 {scheme}://… 数据库：请指定 SQLite 文件，或 postgresql://USER@HOST/NAME。"
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
    "{fault}: {advice}.": "{fault}：{advice}。",
    "{fault}, the last of {attempts} attempts: {advice}.": "{fault}（共尝试 {attempts} 次）：{advice}。",
    "{fault}: it accepts no request until {until}; resume then.": (
        "{fault}：它在 {until} 之前不接受请求；请届时继续。"
    ),
    "The answer does not fit the question: {problems}.": "答复与问题不符：{problems}。",
    "The agent {agent} has no tool {tools} any more: add it to the agent's tools again, or reject the call.": (
        "智能体 {agent} 不再有工具 {tools}：请把它重新加入该智能体的工具，或拒绝该调用。"
    ),
    "The database holds a row that cannot be read ({what}, {reason}), so it is damaged: `segue doctor` says what "
    "to do.": "数据库中有一行无法读取（{what}，{reason}），因此已损坏：`segue doctor` 会说明如何处理。",
    "Name a task or a memory file to forget.": "请指定要遗忘的任务或记忆文件。",
    "The folder {folder} holds another batch, with {differences}: use the same options to continue it, "
    "or name another folder with --out.": (
        "文件夹 {folder} 中是另一个批次，其不同之处为 {differences}：请用相同的选项继续它，或用 --out 指定其他文件夹。"
    ),
    "There is no batch in {folder}: create one with `segue simulate --n N --out {folder}`.": (
        "{folder} 中没有批次：请用 `segue simulate --n N --out {folder}` 创建。"
    ),
    "The folder {folder} is not empty and holds no batch: name another one with --out.": (
        "文件夹 {folder} 不是空的，其中也没有批次：请用 --out 指定其他文件夹。"
    ),
    "There is no folder {folder}: --rehearsals names the folder of batches.": (
        "没有文件夹 {folder}：--rehearsals 应指定批次所在的文件夹。"
    ),
    "The manifest {file} cannot be read: {error}.": "清单 {file} 无法读取：{error}。",
    "The file {file} cannot be read: {error}.": "文件 {file} 无法读取：{error}。",
    "Another process works on the batch in {folder}: wait for it to end.": (
        "另一个进程正在处理 {folder} 中的批次：请等它结束。"
    ),
    "The two batches have no conversation in common: compare batches of one workflow.": (
        "两个批次没有共同的对话：请比较同一工作流的批次。"
    ),
    "{name} cannot judge: name a language model, such as --judge openai:<name>.": (
        "{name} 不能评判：请指定语言模型，例如 --judge openai:<名称>。"
    ),
    "The verdicts {file} cannot be read: {error}. Delete the file to ask again.": (
        "评判结果 {file} 无法读取：{error}。删除该文件可重新评判。"
    ),
    "'{path}' is a folder, not a database: name a file in it with --db.": (
        "“{path}”是文件夹，不是数据库：请用 --db 指定其中的文件。"
    ),
    "The folder {folder} does not exist: create it, or name another file with --db.": (
        "文件夹 {folder} 不存在：请创建它，或用 --db 指定其他文件。"
    ),
    "The database {path} {reason}.": "数据库 {path} {reason}。",
    "The write-ahead log {log} is damaged ({frames} of its {written} frames can be read), so the newest "
    "changes would be lost: restore both files from a copy. To go on without those changes: cp {log} "
    "{log}.damaged && truncate -s {whole} {log} && rm -f {anchor}": (
        "预写日志 {log} 已损坏（{written} 帧中有 {frames} 帧可以读取），最新的更改会丢失：请从副本恢复这两个"
        "文件。要放弃这些更改并继续：cp {log} {log}.damaged && truncate -s {whole} {log} && rm -f {anchor}"
    ),
    "The database {path} was deleted or replaced while it was open: nothing more is written. Restore the "
    "file, then start this process again.": (
        "数据库 {path} 在打开期间被删除或替换：不再写入任何内容。请恢复该文件，然后重新启动本进程。"
    ),
    "The database {path} cannot be used: {error}.": "数据库 {path} 无法使用：{error}。",
    "The rating {rating} is not valid: give a whole number from 1 to {most}.": (
        "评分 {rating} 无效：请给出 1 到 {most} 的整数。"
    ),
    "Schema version {found} of {path} was never published: export its sessions with the Segue that wrote it.": (
        "{path} 的结构版本 {found} 从未发布：请用写入它的 Segue 版本导出其中的会话（`segue export`），再导入到新文件。"
    ),
    "The database {path} belongs to another program: name a new file with --db.": (
        "数据库 {path} 属于其他程序：请用 --db 指定新文件。"
    ),
    "The database {path} is damaged ({table}.{column} is not what it was): restore it from a copy, or "
    "name a new file with --db.": (
        "数据库 {path} 已损坏（{table}.{column} 与原来不同）：请从副本恢复，或用 --db 指定新文件。"
    ),
    "A step of session '{thread_id}' could not be saved ({error}): resume its task.": (
        "会话“{thread_id}”的一个步骤无法保存（{error}）：请继续它的任务。"
    ),
    "The task {old} has an id that Segue did not give it: its session cannot be copied.": (
        "任务 {old} 的编号不是由 Segue 生成的：无法复制它的会话。"
    ),
    "'{text}' is too short for a task's id: write at least its first {least} characters; `segue tasks` "
    "lists what there is.": ("“{text}”作为任务编号太短：请至少写出前 {least} 个字符；`segue tasks` 可列出所有任务。"),
    "Several tasks begin with '{text}': write more of {found}.": (
        "有多个任务以“{text}”开头：请写出 {found} 中更多的字符。"
    ),
    "Task {task_id} is {status}: send a new message.": "任务 {task_id} {status}：请发送新消息。",
    "Task {task_id} is {status} meanwhile.": "任务 {task_id} 此时{status}。",
    "Task {task_id} is {status} meanwhile: {reason}.": "任务 {task_id} 此时{status}：{reason}。",
    "The branch '{name}' names the flow '{flow}', which only an agents file can: give a FlowConfig, or "
    "write [flows.{flow}] in the same file.": (
        "分支“{name}”引用了流程“{flow}”，这只能在智能体文件中使用：请提供 FlowConfig，或在同一文件中写 [flows.{flow}]。"
    ),
    "The branch '{name}' is not a LangGraph graph: {given}. Give one, compiled or not.": (
        "分支“{name}”不是 LangGraph 图：{given}。请提供一个图，编译与否均可。"
    ),
    "The tool {tool} has the name of another branch of the flow {flow}: rename it, name the flow's "
    "`tools`, or leave the built-in branch out of its `built_ins`.": (
        "工具 {tool} 与流程 {flow} 的另一个分支同名：请重命名，或指定流程的 `tools`，或从 `built_ins` 中移除"
        "该内置分支。"
    ),
    "The hook detect_finish_or_continue of the flow {flow} returned {found}: return a BranchInput, an "
    "EarlyExit, or a mapping with EARLY_EXIT.": (
        "流程 {flow} 的钩子 detect_finish_or_continue 返回了 {found}：请返回 BranchInput、EarlyExit，或含有 E"
        "ARLY_EXIT 的映射。"
    ),
    "The plan cannot be read: give a numbered text, or steps with a description.": (
        "计划无法读取：请提供带编号的文字，或带说明的步骤。"
    ),
    "There is no call to carry out: API follows a call of the bot.": "没有可以执行的调用：API 在机器人的调用之后。",
    "There is no call to carry out: the API follows a call of the bot.": (
        "没有可以执行的调用：API 在机器人的调用之后。"
    ),
    "The {role} of this conversation needs a language model and would have {model}: name one as "
    '{role}_model, such as "openai:<name>".': (
        '此对话的 {role} 需要语言模型，而现在是 {model}：请用 {role}_model 指定，例如 "openai:<名称>"。'
    ),
    "The conversation's configuration is not valid JSON: {error}.": "对话的配置不是有效的 JSON：{error}。",
    "The API {name} would call {place}: add the host to allowed_hosts, or correct its url.": (
        "API {name} 会访问 {place}：请把该主机加入 allowed_hosts，或更正 url。"
    ),
    "A node has no services: build its graph as an AgentGraph.": "节点没有服务：请用 AgentGraph 构建它的图。",
    "There is no prompt {name}.": "没有提示词 {name}。",
    "The prompt {name}.{language}.md needs values for: {missing}.": (
        "提示词 {name}.{language}.md 需要这些值：{missing}。"
    ),
    "No model is configured for {agents}: set OPENAI_API_KEY or SEGUE_MODEL, or a model in the agents file.": (
        "没有为 {agents} 配置模型：请设置 OPENAI_API_KEY 或 SEGUE_MODEL，或在智能体文件中设置 model。"
    ),
    "Several workers need a database that they share: name a file with --db.": (
        "多个工作进程需要共享的数据库：请用 --db 指定文件。"
    ),
    "--edit {text} names no call: use --edit '0={{…}}'; the calls are {calls}.": (
        "--edit {text} 没有指明调用：请使用 --edit '0={{…}}'；调用有：{calls}。"
    ),
    "--edit applies to one call: use --edit '0={{…}}'; the calls are {calls}.": (
        "--edit 只用于一个调用：请使用 --edit '0={{…}}'；调用有：{calls}。"
    ),
    "There is no call '{target}'; the calls are {calls}.": "没有调用“{target}”；调用有：{calls}。",
    "Two options decide on call {target}: leave one out.": "有两个选项决定调用 {target}：请去掉一个。",
    "No decision on call {index} ({name}): add --approve {index}, --reject {index}=REASON or --edit '{index}={{…}}'.": (
        "没有对调用 {index}（{name}）的决定：请加上 --approve {index}、--reject {index}=理由 或 --edit '{inde"
        "x}={{…}}'。"
    ),
    "--edit {text} is not a JSON object ({error}).": "--edit {text} 不是 JSON 对象（{error}）。",
    "--only {text} has no value: use --only NAME=VALUE or NAME='PREFIX*'.": (
        "--only {text} 没有值：请使用 --only 参数=值 或 参数='前缀*'。"
    ),
    "Two options apply to all calls: name the calls by their numbers; the calls are {calls}.": (
        "有两个选项用于所有调用：请用编号指明调用；调用有：{calls}。"
    ),
    "The configuration {file} is not a table of names and values.": "配置 {file} 不是名称与值的表。",
    "The configuration {file} cannot be read: {error}.": "配置 {file} 无法读取：{error}。",
    "The conversation's configuration{of}: {where}: {reason}.": "对话的配置{of}：{where}：{reason}。",
    "A hook returned {given}: return an EarlyExit, or a mapping with result, summary and status.": (
        "钩子返回了 {given}：请返回 EarlyExit，或含有 result、summary 和 status 的映射。"
    ),
    "The flows of {path} are not tables: write [flows.NAME].": "{path} 的 flows 不是表：请写成 [flows.名称]。",
    "The flow '{name}': {place}{reason}.": "流程“{name}”：{place}{reason}。",
    "The branch '{name}': there is no flow '{flow}'; use one of: {known}.": (
        "分支“{name}”：没有流程“{flow}”；可选：{known}。"
    ),
    "The flow '{flow}' is a branch of itself: remove the branch '{name}'.": (
        "流程“{flow}”是它自己的分支：请移除分支“{name}”。"
    ),
    'There is no {kind} "{mode}"; there are: {known}.': "没有{kind}“{mode}”；可选：{known}。",
    "The results are not of the calls that wait: {calls}.": "这些结果不属于正在等待的调用：{calls}。",
    "The answer does not fit the question: give {form}.": "答复与问题不符：请给出 {form}。",
    "The answer is longer than {most} bytes: shorten it.": "答复超过 {most} 字节：请缩短它。",
    "The answer cannot be stored: {error}.": "答复无法保存：{error}。",
    "An engine has no option {unknown}; there are: {known}.": "引擎没有选项 {unknown}；可选：{known}。",
    "The concurrency is {concurrency}: at least one task is carried out at a time.": (
        "并发数是 {concurrency}：每次至少执行一个任务。"
    ),
    "Give the engine an app to use {options}.": "要使用 {options}，请为引擎提供应用。",
    'The llm {llm} is not a model: give a name such as "offline" or "openai:<name>", a chat model, or an '
    "object with decompose_goal(text).": (
        '{llm} 不是模型：请给出名称（如 "offline" 或 "openai:<名称>"）、聊天模型，或具有 decompose_goal(text) 的对象。'
    ),
    "The folder {folder} does not exist: create it, or name another one.": (
        "文件夹 {folder} 不存在：请创建它，或指定其他文件夹。"
    ),
    "The snapshot's {name} is {found}, which no engine has.": "快照的 {name} 是 {found}，引擎没有这样的值。",
    "The snapshot is of a run without an app: continue it in an engine without one.": (
        "快照来自没有应用的运行：请在没有应用的引擎中继续。"
    ),
    "A run is under way: wait for it, or close it first.": "运行尚未结束：请等待它，或先关闭它。",
    "A snapshot is a dict, as create_snapshot gives it.": "快照应为 create_snapshot 返回的 dict。",
    "The snapshot has version {version} and this Segue knows up to {known}: upgrade it.": (
        "快照的版本为 {version}，此版本的 Segue 最高支持 {known}：请升级 Segue。"
    ),
    "The snapshot cannot be read: {kind}: {error}.": "快照无法读取：{kind}：{error}。",
    "Task {task_id} was cancelled: give the engine a new goal.": "任务 {task_id} 已取消：请给引擎新的目标。",
    'The model "{name}" takes no tools: set protocol="json" on the agent.': (
        '模型“{name}”不支持工具：请为智能体设置 protocol="json"。'
    ),
    'The model "{name}" takes no bound tools: set protocol="json" on the agent.': (
        '模型“{name}”不支持绑定工具：请为智能体设置 protocol="json"。'
    ),
    'The model "{name}" cannot answer: {reason}.': "模型“{name}”无法回答：{reason}。",
    "The model file {file} is not a GGUF file: name the weights of a llama.cpp model.": (
        "模型文件 {file} 不是 GGUF 文件：请指定 llama.cpp 模型的权重。"
    ),
    "The model file {file} cannot be read: {reason}.": "模型文件 {file} 无法读取：{reason}。",
    "A {kind} needs a language model to write it: give the agent a model.": (
        "{kind} 需要由语言模型编写：请为智能体指定模型。"
    ),
    "This Python's SQLite has no full-text search ({error}): use one that was built with FTS5.": (
        "此 Python 的 SQLite 没有全文检索（{error}）：请使用带有 FTS5 的版本。"
    ),
    "The agent {agent_id} cannot have a tool {name}: in the native protocol that is one of Segue's own "
    'control tools. Rename it, or set protocol="json".': (
        "智能体 {agent_id} 不能有名为 {name} 的工具：在 native 协议中它是 Segue 自己的控制工具。请重命名，或"
        '设置 protocol="json"。'
    ),
    "A tool cannot be called {name}: in a plan that means no tool; rename it.": (
        "工具不能叫 {name}：在计划中它表示没有工具；请重命名。"
    ),
    "SEGUE_AUTO is '{auto}': set it to rules or model, or leave it out.": (
        "SEGUE_AUTO 是“{auto}”：请设为 rules 或 model，或者不设。"
    ),
    "Two tools are called {name}, {both}: leave one out with a server's `tools`.": (
        "有两个工具都叫 {name}（{both}）：请用服务器的 `tools` 去掉一个。"
    ),
    "The log {file} cannot be read: {error}.": "日志 {file} 无法读取：{error}。",
    "The conversation {session_id} has another configuration: leave the options out to continue it, or "
    "choose another name.": ("对话 {session_id} 的配置不同：要继续它，请去掉这些选项，或另选名称。"),
    "There is no backend '{name}'; use one of: {known}.": "没有后端“{name}”；可选：{known}。",
    "This participant follows a workflow: name one, such as --workflow travel_change.": (
        "此参与者按工作流行事：请指定一个，例如 --workflow travel_change。"
    ),
    "The workflow '{name}' names no backend: use --api llm or --api request.": (
        "工作流“{name}”没有指定后端：请使用 --api llm 或 --api request。"
    ),
    "The backend '{name}' has no API {missing}.": "后端“{name}”没有 API {missing}。",
    "A mode cannot be called {name}: take a name of letters that is not built in.": (
        "模式不能叫 {name}：请用字母取一个不是内置的名称。"
    ),
    "The mode {name} is not a LangGraph graph: {graph}.": "模式 {name} 不是 LangGraph 图：{graph}。",
    "The option {name} is {kind}: pass {expected}.": "选项 {name} 的类型是 {kind}：请传入 {expected}。",
    "The message is {kind}, not text: pass a str.": "消息的类型是 {kind}，不是文本：请传入 str。",
    "The name of an API key consists of up to 32 letters, digits, - or _: use name:key.": (
        "API 密钥的名称最多 32 个字母、数字、- 或 _：请使用 名称:密钥。"
    ),
    "The API key of '{name}' is too short: use at least {least} random characters.": (
        "“{name}”的 API 密钥太短：请至少使用 {least} 个随机字符。"
    ),
    "SEGUE_API_KEY_SHA256 must be name:hash, with 64 hexadecimal digits.": (
        "SEGUE_API_KEY_SHA256 应为 名称:哈希，哈希为 64 位十六进制数字。"
    ),
    "'{other}' and '{name}' have the same API key: use different keys.": (
        "“{other}”和“{name}”的 API 密钥相同：请使用不同的密钥。"
    ),
    "The service on {host} without an API key would let anyone in: set {keys}, or use --host 127.0.0.1.": (
        "{host} 上的服务没有 API 密钥，任何人都能访问：请设置 {keys}，或使用 --host 127.0.0.1。"
    ),
    "Port {port} of {host} is in use: stop what listens there, or choose another with --port.": (
        "{host} 的端口 {port} 已被占用：请停止占用它的程序，或用 --port 选择另一个端口。"
    ),
    "{name} must be a whole number of at least {least}, not '{text}'.": (
        "{name} 应为不小于 {least} 的整数，而不是“{text}”。"
    ),
    "{origins}=* allows every web page: set {keys}, or name the origins.": (
        "{origins}=* 允许所有网页：请设置 {keys}，或列出来源。"
    ),
    "The ids of {n} snapshots end with '{text}': give more characters.": (
        "有 {n} 个快照的编号以“{text}”结尾：请多写几个字符。"
    ),
    "The call of {name} cannot be undone: its tool declares no undo.": "{name} 的调用不能撤销：它的工具没有声明 undo。",
    "Give either a message or changes to the state.": "请给出消息或对状态的修改，二者选一。",
    "The snapshots before this message of session '{thread_id}' were pruned: start a new conversation.": (
        "会话“{thread_id}”在这条消息之前的快照已被清理：请开始新的对话。"
    ),
    "The snapshots before this turn of session '{thread_id}' were pruned: edit a later message.": (
        "会话“{thread_id}”在这一轮之前的快照已被清理：请修改之后的消息。"
    ),
    "Snapshot '{checkpoint_id}' belongs to no message of session '{thread_id}': choose one of a turn.": (
        "快照“{checkpoint_id}”不属于会话“{thread_id}”的任何消息：请选择某一轮对话的快照。"
    ),
    "Nothing runs after snapshot '{checkpoint_id}', so its state cannot be changed: choose an earlier one.": (
        "快照“{checkpoint_id}”之后没有要运行的节点，不能修改它的状态：请选择更早的快照。"
    ),
    "The state has no field '{name}' that can be changed; it has: {known}.": (
        "状态中没有可以修改的字段“{name}”；可修改的有：{known}。"
    ),
    "Question {interrupt_id} of task {task_id} is not open any more: the task is {status}.": (
        "任务“{task_id}”的问题 {interrupt_id} 已经关闭：任务{status}。"
    ),
    "Question {interrupt_id} of task {task_id} is not open any more. Open now is {open_id}: {what}": (
        "任务“{task_id}”的问题 {interrupt_id} 已经关闭。现在等待答复的是 {open_id}：{what}"
    ),
    "The retention {given} is not valid: write an age such as 30d (m, h, d or w), or a number of snapshots above 0.": (
        "保留期 {given} 无效：请写时长，例如 30d（m、h、d 或 w），或大于 0 的快照数。"
    ),
    "The plan is not valid: {why}.": "计划无效：{why}。",
    "The field '{name}' has the type {kind}; the new value does not.": "字段“{name}”的类型是 {kind}，新的值不是。",
    "{path} is not a regular file: name a CSV or Parquet file.": "{path} 不是普通文件：请指定 CSV 或 Parquet 文件。",
    "{path} cannot be read as data: save it as {suffixes} and name that file.": (
        "{path} 无法作为数据读取：请存为 {suffixes}，再指定该文件。"
    ),
    "{path} is larger than {most} MB: split it, or save it as Parquet.": (
        "{path} 大于 {most} MB：请拆分它，或存为 Parquet。"
    ),
    "The file {path} cannot be copied to {target}: {reason}.": "文件 {path} 无法复制到 {target}：{reason}。",
    "There is no file {path}: check its name.": "没有文件 {path}：请检查名称。",
}
"""By the English template, where one class has several sentences."""

SENTENCES = {**SENTENCES, **AGENTS, **FILES, **REHEARSALS, **CLIENTS, **SERVERS}

_TRANSLATED = ("kind", "kinds", "role", "status", "state", "choices", "known", "fault", "reason", "advice")


def template_of(error: SegueError) -> str:
    """The Chinese template of an error; a class without one has that of the nearest class above it."""
    named = next(ERRORS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in ERRORS)
    return SENTENCES.get(error.template, named)


def render(error: SegueError, language: Language) -> str:
    """The error's sentence in a language; free text from elsewhere stays as it is."""
    if language == "en":
        return str(error)
    slots = {name: str(value) for name, value in error.params.items()}
    slots |= {name: described(slots[name], language) for name in _TRANSLATED if name in slots}
    return template_of(error).format(**slots, sentence=str(error))
