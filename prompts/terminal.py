"""Sentences of the command line, in both languages."""

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str]] = {
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
    "asked_question": ("有一个问题等待您回答：", "A question is waiting for your answer:"),
    "your_answer": ("回答：", "Answer:"),
    "answer_here": ("在终端中回答：", "to answer in a terminal:"),
    "answer_by_text": ("在命令行中直接回答：", "to answer from the command line:"),
    "end_task": ("或者结束任务：", "or to end the task:"),
    "none_waiting": ("没有任务在等待答复。", "No task waits for an answer."),
    "asked_unknown": (
        "相同的调用可能已经生效：批准之前请先核实。",
        "A call like this one may have taken effect already: check before you approve it.",
    ),
    "choose": (
        "a 批准 · e 修改 · r 拒绝\n始终允许：t 在本任务中，s 在本会话中，T/S 仅限这些参数\n请选择：",
        "a approve · e edit · r reject\n"
        "always allow: t in this task · s in this session · T/S only with these arguments\nYour choice:",
    ),
    "choose_all": (
        "a 批准 · A 其余全部批准 · e 修改 · r 拒绝\n始终允许：t 在本任务中，s 在本会话中，T/S 仅限这些参数\n请选择：",
        "a approve · A approve all the rest · e edit · r reject\n"
        "always allow: t in this task · s in this session · T/S only with these arguments\nYour choice:",
    ),
    "no_choice": ("“{given}”不是可选的字母。", "'{given}' is not one of these letters."),
    "always_task": ("  在本任务中始终允许", "  always in this task"),
    "always_session": ("  在本会话中始终允许", "  always in this session"),
    "always_only": ("（仅限 {only}）", " (only {only})"),
    "permitted_task": ("  在本任务中始终允许", "  always allowed in this task"),
    "permitted_session": ("  在本会话中始终允许", "  always allowed in this session"),
    "no_permission": ("没有始终允许的工具。", "No tool is always allowed."),
    "not_permitted": ("会话 {session} 没有这样的许可。", "Session {session} has no such permission."),
    "revoked": ("已撤回 {n} 项许可，这些工具会重新请求批准。", "Permissions revoked: {n}. These tools ask again."),
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
/agent 名称   切换智能体
/model 名称   切换模型
/session 名称 切换会话，或开始新的会话
/history     显示此会话的消息
/resume      继续已暂停或失败的任务，或答复它的问题
/file 路径    随下一条消息发送文件；不带路径则去掉已添加的
/steer 文字   补充一条消息，然后继续任务；任务运行时可直接输入
/cancel      取消任务
/exit        离开（也可按 Ctrl-D，或在没有任务运行时按 Ctrl-C）
Alt-Enter    换行；Tab 补全命令、模式、智能体、会话和任务
Ctrl-X Ctrl-E  在编辑器（$VISUAL 或 $EDITOR）中编写消息；Ctrl-R 搜索历史
Ctrl-C       任务运行时：暂停它；再按一次：立即停止""",
        """\
/mode NAME   switch the mode (auto, direct, react, plan, …)
/agent NAME  switch the agent
/model NAME  switch the model
/session NAME  switch the session, or begin a new one
/history     show the messages of this session
/resume      resume a task that was paused or failed, or answer its question
/file PATH   send a file with the next message; without PATH, remove those added
/steer TEXT  add a message to the task, and resume it; while it runs, just type
/cancel      cancel the task
/exit        leave (also Ctrl-D, or Ctrl-C while nothing runs)
Alt-Enter    a new line; Tab completes commands, modes, agents, sessions and tasks
Ctrl-X Ctrl-E  write the message in an editor ($VISUAL or $EDITOR); Ctrl-R searches the history
Ctrl-C       while a task runs: pause it; twice: stop it now""",
    ),
    "prompt": ("您> ", "you> "),
    "while_running": (
        "任务正在运行：输入的文字会补充给它，/cancel 取消它，Ctrl-C 暂停它。",
        "A task runs: what you type is added to it, /cancel cancels it, Ctrl-C pauses it.",
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
    "agent_now": ("当前智能体：{name}。", "The agent is now {name}."),
    "agent_usage": ("用法：/agent 名称，可选：{names}。", "Usage: /agent NAME, where NAME is one of: {names}."),
    "model_now": ("当前模型：{name}。", "The model is now {name}."),
    "model_usage": (
        "用法：/model 名称，例如 openai:gpt-4.1-mini 或 offline",
        "Usage: /model NAME, such as openai:gpt-4.1-mini or offline",
    ),
    "session_now": ("当前会话：{name}。", "The session is now {name}."),
    "session_usage": ("用法：/session 名称", "Usage: /session NAME"),
    "file_usage": ("用法：/file 路径", "Usage: /file PATH"),
    "file_added": ("随下一条消息发送：{names}", "Goes with the next message: {names}"),
    "files_removed": ("下一条消息不带文件。", "The next message takes no files along."),
    "steer_usage": ("用法：/steer 文字", "Usage: /steer TEXT"),
    "task_cancelled": ("任务已取消；请发送新消息。", "The task is cancelled; send a new message."),
    "nothing_sent": ("此会话中还没有发送过消息。", "Nothing was sent in this session yet."),
    "paused": ("任务已暂停。要继续：", "The task is paused. To resume it:"),
    "accepts_next": (
        "任务已取消；此会话可以接收新消息。",
        "The task was cancelled; its session accepts the next message.",
    ),
    "waiting": ("任务正在等待答复。", "The task is waiting for an answer."),
    "offline": (
        "没有使用语言模型：由 Segue 内置的离线规划器按规则回答。\n"
        "要使用模型，请设置 OPENAI_API_KEY 或 OPENAI_BASE_URL；参见 `segue doctor`。",
        "NO LANGUAGE MODEL: Segue's offline planner answers, by rules.\n"
        "For a model, set OPENAI_API_KEY or OPENAI_BASE_URL; see `segue doctor`.",
    ),
    # What pause, cancel, recover and delete came to.
    "task_paused": ("任务 {task_id} 已暂停。要继续：", "Task {task_id} is paused. To resume it:"),
    "task_ended": ("任务 {task_id} 在暂停之前已经结束。", "Task {task_id} ended before it could be paused."),
    "task_pausing": (
        "任务 {task_id} 正在暂停：它会在下一个检查点停下。之后要继续：",
        "Task {task_id} is pausing: it stops at its next checkpoint. To resume it then:",
    ),
    "check_calls": (
        "无法确定以下调用是否已经生效，请核实：{names}。",
        "It is not known whether these calls took effect; check them: {names}.",
    ),
    "session_accepts_next": (
        "任务 {task_id} 已取消；会话 {session} 可以接收新消息。",
        "Task {task_id} is cancelled; session {session} accepts the next message.",
    ),
    "nothing_damaged": (
        "会话 {session} 没有损坏；没有改动任何内容。",
        "Session {session} is not damaged; nothing was changed.",
    ),
    "went_back": (
        "会话 {session} 已恢复到 {at} 的快照（{checkpoint}）。",
        "Session {session} went back to its snapshot of {at} ({checkpoint}).",
    ),
    "dropped": (
        "无法读取的快照和步骤结果：{n} 个。",
        "Snapshots and results of steps that could not be read: {n}.",
    ),
    "events_replaced": (
        "任务“{task}”中无法读取、现已注明的事件：{numbers}。",
        "Events of task '{task}' that cannot be read, and say so now: {numbers}.",
    ),
    "events_dropped": ("已删除的事件：{n} 个。", "Events dropped: {n}."),
    "task_ended_damaged": (
        "任务“{task}”：已损坏的字段：{fields}；它以错误结束，请重新发送它的消息。",
        "Task '{task}': damaged: {fields}; it ended with an error, send its message again.",
    ),
    "task_emptied": (
        "任务“{task}”：已损坏的字段：{fields}；现在它们是空的。",
        "Task '{task}': damaged: {fields}; they are empty now.",
    ),
    "session_emptied": (
        "为会话选择的设置：已损坏的字段：{fields}；现在它们是默认值。",
        "What was chosen for the session: damaged: {fields}; the default holds now.",
    ),
    "call_repaired": (
        "任务“{task}”的调用 {name}：已损坏的字段：{fields}{unknown}{stuck}。",
        "Call {name} of task '{task}': damaged: {fields}{unknown}{stuck}.",
    ),
    "call_unknown": ("；它算作已执行，结果不明", "; it counts as made, its outcome is unknown"),
    "call_stuck": ("；它的任务可能停在那里，届时请取消", "; its task may stop there, cancel it then"),
    "copy_kept": ("原来的数据库保存在 {copy}。", "The database as it was is kept in {copy}."),
    "to_continue": ("要继续：", "To continue:"),
    "turn": ("第 {n} 轮对话", "turn {n}"),
    "next_node": ("下一个节点：{nodes}", "next: {nodes}"),
    "fork_from": ("从某个快照开始新会话：", "start a new session from one of them:"),
    "older_snapshots": (
        "更早的快照没有列出：用 --limit 可列出更多。",
        "Older snapshots are not listed: --limit lists more.",
    ),
    "more_sessions": (
        "还有 {n} 个会话没有列出：用 --limit 可列出更多。",
        "Sessions that are not listed: {n}. --limit lists more.",
    ),
    "no_difference": ("两个快照没有差别。", "The two snapshots do not differ."),
    "forked": ("新会话是 {session}。", "The new session is {session}."),
    "effects_stay": (
        "以下调用在该快照之后进行，其效果仍然存在：",
        "These calls were made after the snapshot, and their effects stay:",
    ),
    "to_undo": ("撤销其中可以撤销的调用：", "To undo those that can be undone:"),
    "undone": ("已撤销 {call}：{result}", "Undone: {call}: {result}"),
    "not_undone": ("{call} 的撤销失败：{result}", "The undo of {call} failed: {result}"),
    "maybe_undone": (
        "不能确定 {call} 是否已经撤销：{result}",
        "It is not known whether {call} was undone: {result}",
    ),
    "not_all_undone": (
        "有调用未能撤销，因此没有开始新会话。要保留其效果并继续，请去掉 --undo。",
        "Not every call could be undone, so no new session was started. To start one all the same, leave out --undo.",
    ),
    "undo_failed": ("撤销失败", "its undo failed"),
    "undo_unknown": ("不能确定是否已经撤销", "it is not known whether it was undone"),
    "nothing_to_undo": ("该快照之后没有可以撤销的调用。", "No call after the snapshot can be undone."),
    "copied": ("{place}/{n} {session}：已复制", "{place}/{n} {session}: copied"),
    "copied_before": ("{place}/{n} {session}：已经存在", "{place}/{n} {session}: is there already"),
    "not_copied": ("{place}/{n} {session}：没有复制。{why}", "{place}/{n} {session}: not copied. {why}"),
    "copies": (
        "已复制 {copied} 个会话；已经存在 {present} 个；没有复制 {refused} 个。",
        "Sessions copied: {copied}; there already: {present}; not copied: {refused}.",
    ),
    "pruned": ("已清理 {sessions} 个会话中的 {n} 个快照。", "Snapshots removed: {n}; sessions changed: {sessions}."),
    "keep_what": (
        "请说明保留什么：--keep 30d、--last N，或两者都写",
        "say what to keep: --keep 30d, --last N, or both",
    ),
    "message_or_set": ("--message 和 --set 请给出其中一个", "give either --message or --set"),
    "no_field": ("'{text}' 不是 FIELD=JSON 的形式", "'{text}' is not FIELD=JSON"),
    "to_prune": (
        "将清理 {sessions} 个会话中的 {n} 个快照。",
        "Snapshots to remove: {n}; sessions to change: {sessions}.",
    ),
    "not_pruned": (
        "会话 {session} 有任务正在运行，没有清理。",
        "Session {session} has a running task and was left as it is.",
    ),
    "exported": ("会话 {session} 已写入 {file}。", "Session {session} was written to {file}."),
    "imported": ("已导入为会话 {session}。", "It was imported as session {session}."),
    "needs_n": (
        "它只用于批次：请加上 --n，或去掉它。",
        "it belongs to a batch: add --n, or leave it out.",
    ),
    "not_written": ("无法写入 {file}：{why}。", "{file} cannot be written: {why}."),
    "not_read": ("无法读取 {file}：{why}。", "{file} cannot be read: {why}."),
    "worker_ready": (
        "工作进程已就绪：智能体 {agents}，同时运行 {n} 个任务。Ctrl-C 会把任务交给其他工作进程。",
        "Ready: agents {agents}, {n} tasks at once. Ctrl-C hands the tasks over to other workers.",
    ),
    "worker_stopped": ("工作进程已停止。", "Stopped."),
    "agent_changed": (
        "智能体自任务开始以来已更改：任务使用更改后的提示词、工具和选项继续。",
        "The agent was changed since the task began: it continues with the changed prompt, tools and options.",
    ),
    "waiting_for_worker": (
        "{n} 个任务在等待工作进程，没有工作进程有其智能体：`segue worker --agents FILE` 可启动一个。",
        "Tasks that wait for a worker with their agent: {n}. `segue worker --agents FILE` starts one.",
    ),
    "session_deleted": ("会话 {session} 已删除。", "Session {session} is deleted."),
    # The commands that a person can run next.
    "continue_session": ("继续此会话（可在任何进程中）：", "continue this session, from any process:"),
    "decide_here": ("在终端中逐个决定：", "to decide on each call in a terminal:"),
    "decide_by_options": ("用命令行批准、修改或拒绝：", "to approve, edit or reject from the command line:"),
    "wait_for_it": ("等待它：", "wait for it:"),
    "other_session": ("使用其他会话：", "use another session:"),
    "pause_running": ("暂停正在运行的任务：", "pause the running task:"),
    "add_to_running": (
        "把消息补充到正在运行的任务，并在这里继续：",
        "add the message to the running task, and continue it here:",
    ),
    "see_progress": ("查看进展：", "see its progress:"),
    "pausing_elsewhere": (
        "任务“{task_id}”正在另一个进程中暂停：请在它暂停之后继续。",
        "Task '{task_id}' is pausing in another process: resume it once it is paused.",
    ),
    "runs_elsewhere": (
        "任务“{task_id}”已经在另一个进程中运行。",
        "Task '{task_id}' is already running in another process.",
    ),
    "pause_and_resume": ("暂停它，然后在这里继续：", "pause it, then resume it here:"),
    "unfinished_hidden": (
        "此会话有一个未完成的任务，它的步骤还不在历史中。要查看：",
        "The session has an unfinished task, whose steps are not in the history yet. To see them:",
    ),
    "cancel_it": ("取消它：", "cancel it:"),
    "answer_it": ("答复它：", "answer it:"),
    "resume_it": ("继续它：", "resume it:"),
    "add_and_resume": ("补充这条消息并继续：", "add the message to it, and resume it:"),
    "unended": ("对话尚未结束，继续请运行：{command}", "The conversation has not ended. To continue it: {command}"),
    "batch_stopped": ("已停止：再次运行同一命令即可继续。", "Stopped: run the same command to continue the batch."),
    "batch_unfinished": (
        "{total} 个对话中有 {n} 个尚未结束：请再次运行同一命令。",
        "{n} of {total} conversations have not ended: run the same command again.",
    ),
    "batch_finished": (
        "{total} 个对话都已结束。下一步：segue report {folder}",
        "{total} conversations ended. Next: segue report {folder}",
    ),
    # Recorded sessions.
    "recorded": (
        "已写入 {file}：轮数 {turns}，模型调用 {model_calls}，工具调用 {tool_calls}。重放：segue replay {file}",
        "{file} is written: turns {turns}, model calls {model_calls}, tool calls {tool_calls}. To replay it: "
        "segue replay {file}",
    ),
    "replayed": (
        "与录制一致：轮数 {turns}，模型调用 {model_calls}，工具调用 {tool_calls}。",
        "It replays as recorded: turns {turns}, model calls {model_calls}, tool calls {tool_calls}.",
    ),
    "replay_request": (
        "第 {turn} 轮，第 {call} 次模型调用：请求不同。",
        "Turn {turn}, model call {call}: the request differs.",
    ),
    "replay_model_call": (
        "第 {turn} 轮：多出第 {call} 次模型调用，录制中没有。",
        "Turn {turn}: model call {call} was not recorded; now the model is asked once more:",
    ),
    "replay_tool_call": (
        "第 {turn} 轮，第 {call} 次工具调用：与录制不同。",
        "Turn {turn}, tool call {call}: a different call from the recorded one.",
    ),
    "replay_left_out": (
        "第 {turn} 轮：录制的第 {call} 次调用没有发生。",
        "Turn {turn}: the recorded call {call} is not made any more.",
    ),
    "replay_question": (
        "第 {turn} 轮：向人提出的问题与录制不同。",
        "Turn {turn}: the question to the person differs from the recorded one, or is missing.",
    ),
    "replay_outcome": ("第 {turn} 轮：结果不同。", "Turn {turn}: it ends differently."),
    "replay_messages": ("第 {turn} 轮：消息历史不同。", "Turn {turn}: the messages of the history differ."),
    "replay_no_text": (
        "会话没有保存当时请求的文本；智能体文件、提示词、工具或模型很可能与会话运行时的不同。",
        "The session keeps no text of the request as it was sent; the agents file, a prompt, the tools or the model "
        "probably differ from those that it ran with.",
    ),
    "replay_did": ("当时的回复：{did}", "The model then replied: {did}"),
    "replay_reused": ("[沿用] {call}", "[recorded] {call}"),
    "replay_ran": ("[执行] {call}", "[run] {call}"),
    "replay_tools_run": (
        "此调用不在录制中：从这里起工具会真正执行。",
        "This call was not recorded: from here on the tools really run.",
    ),
    "replay_then": ("当时：{answer}", "then: {answer}"),
    "replay_now": ("现在：{answer}", "now:  {answer}"),
    "replay_same": ("现在：与当时相同", "now:  the same"),
    "replay_waits": (
        "会话正在等待答复，其余各轮没有继续。",
        "It waits for an answer; the turns after it were not continued.",
    ),
    "give_agents_file": (
        "如果它在智能体文件中，请用 --agents FILE 给出该文件。",
        "If an agents file has it, give the file with --agents FILE.",
    ),
    "see_doctor": ("或查看检查结果：{command}", "Or see what this says: {command}"),
    # A conversation that does not go on by itself.
    "reading_input": (
        "正在读取标准输入……（没有输入时请加 < /dev/null）",
        "Reading standard input… (add < /dev/null if there is none)",
    ),
    "output_failed": ("无法写入标准输出（{why}）。", "Standard output cannot be written ({why})."),
    "task_is_paused": (
        "正在运行的任务已暂停：`segue resume --last` 可继续。",
        "A running task is paused: `segue resume --last` resumes it.",
    ),
    "demo_message": (
        "帮我规划一个北京3日游，包括景点和美食",
        "Plan a trip to Beijing for 3 days, with sights and food",
    ),
    "project_written": ("已创建 {files}。接下来：", "Created {files}. Next:"),
    "conversation": ("{user} 与 {bot} 的对话", "conversation of {user} with {bot}"),
    "not_sent": (
        "您停止了等待，消息没有发送。要发送：",
        "You stopped waiting, and the message was not sent. To send it:",
    ),
    "waiting_for_session": (
        "正在等待会话“{session}”……（按 Ctrl-C 停止等待）",
        "Waiting for session '{session}'… (Ctrl-C stops waiting)",
    ),
    "pausing": (
        "将在下一个检查点暂停……（再按一次立即停止）",
        "pausing at the next checkpoint… (press again to stop now)",
    ),
    "pausing_requested": (
        "另一个进程要求暂停，将在下一个检查点暂停……",
        "pausing at the next checkpoint, as requested by another process…",
    ),
    "stopping": ("正在立即停止……", "stopping now…"),
    "taken_elsewhere": (
        "任务已被另一个进程暂停并继续。要查看进展：",
        "The task was paused and resumed by another process. To see its progress:",
    ),
    "did_not_end": (
        "任务没有结束（{status}），现在没有进程在运行它。要继续：",
        "The task has not ended ({status}), and no process runs it now. To resume it:",
    ),
    "malformed": (
        "模型没有按协议回复：以上是它最后一次回复的文字，可能不是对问题的回答。"
        '如果模型支持工具调用，请在智能体文件中设置 protocol = "native"，或使用 Agent(protocol="native")。',
        "The model did not keep to the protocol: this is the text of its last reply, which may be no answer. "
        'If its endpoint takes tools, set protocol = "native" in the agents file, or Agent(protocol="native").',
    ),
    "file_renamed": ("文件“{given}”在数据文件夹中名为“{name}”。", "The file '{given}' is '{name}' in the data folder."),
    # Lists and summaries.
    "fell_back": ("{old} 未能完成，改用 {new}：{why}", "{old} failed, {new} takes over: {why}"),
    "restarting": ("第 {n} 次尝试，重新开始：{why}", "attempt {n}, restarting: {why}"),
    "attempt": ("第 {n} 次尝试", "attempt {n}"),
    "waits": ("等待：{why}", "waiting: {why}"),
    "waits_for": ("等待 {seconds} 秒：{why}", "waiting {seconds} s: {why}"),
    "step": ("{n} 步", "{n} step"),
    "steps": ("{n} 步", "{n} steps"),
    "round": ("第 {n} 轮", "round {n}"),
    "ledger": ("调用账本：{n} 次调用", "ledger: {n} calls"),
    "ledger_one": ("调用账本：1 次调用", "ledger: 1 call"),
    "run_again": ("，重新执行", ", run again"),
    "instead_of": ("  原参数（{arguments}）", "  instead of ({arguments})"),
    "conversation_ended": ("结束：{reason}，轮数：{turns}", "ended: {reason}, turns: {turns}"),
    "discarded": ("（以上回答作废）", "(the answer above is discarded)"),
    "prompts_sent": (
        "提示词：{calls} 次请求共 {n} 个字符，其中 {share} 与上一次请求的开头相同",
        "prompts: {n} characters in {calls} requests, {share} shared with the start of the previous request",
    ),
    "took": ("{seconds} 秒", "{seconds} s"),
    "no_session": ("还没有会话：`segue chat` 可开始一个。", "No session yet: `segue chat` starts one."),
    "no_task": ("还没有任务：`segue chat` 可开始一个。", "No task yet: `segue chat` starts one."),
    "interrupted_tasks": (
        "以下任务在进程结束时中断。要继续：",
        "Interrupted when its process ended. To resume it:",
    ),
    "interrupted": ("{status}（已中断）", "{status} (interrupted)"),
    "environment_model": ("由环境决定", "from the environment"),
    "no_tools": ("没有", "none"),
    "no_memory": ("没有记忆文件。", "There are no memory files."),
    "memory_forgotten": ("已删除 {n} 个条目。", "Entries removed: {n}."),
    "memory_clear": ("删除用户 {user} 的全部 {n} 个记忆文件吗？", "Delete all {n} memory files of the user {user}?"),
    "memory_cleared": ("已删除 {n} 个记忆文件。", "Memory files deleted: {n}."),
    "you": ("您：{text}", "you: {text}"),
    "no_graph": ("没有图“{name}”；可选：{known}。", "There is no graph '{name}'; use one of: {known}."),
    "counted": ("共 {n} 个任务：{parts}。", "{n} tasks: {parts}."),
    "counted_one": ("共 1 个任务：{parts}。", "1 task: {parts}."),
    "none_until_answered": (
        "在得到答复之前，没有可以继续的任务。",
        "No task can be resumed until it is answered.",
    ),
    "none_to_resume": ("没有可以继续的任务。", "There is no task to resume."),
    "to_answer": ("等待答复：", "Waiting for an answer:"),
    "rated": ("任务 {task_id} 的评分：{rating}。", "Task {task_id} is rated {rating}."),
    "default_mode": ("默认模式：{mode}。", "Default mode: {mode}."),
    "no_default_mode": ("没有默认模式：由智能体决定。", "There is no default mode: the agent decides."),
    "no_mode_used": ("还没有模式回答过此用户。", "No mode has answered this user yet."),
}


def sentence(name: str, language: str, /, **slots: object) -> str:
    """A sentence in the person's language."""
    chinese, english = SENTENCES[name]
    return (chinese if language == "zh" else english).format(**slots)
