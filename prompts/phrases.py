"""Short sentences that people see while a task runs, in both languages."""

import re
from collections.abc import Mapping

_SLOT = re.compile(r"\{(\w+)\}")
RULE = "━" * 35

PHRASES: Mapping[str, tuple[str, str]] = {
    "direct": ("【直接模式】直接生成回答...\n\n", "[Direct mode] Answering directly...\n\n"),
    "react": (RULE + "\n【推理模式 - 第 {i}/{n} 轮】\n", RULE + "\n[ReAct mode - round {i}/{n}]\n"),
    "plan_1": (
        RULE + "\n【规划模式 - 阶段一：制定计划】\n正在分析任务并生成执行计划...\n\n",
        RULE + "\n[Plan mode - phase 1: make a plan]\nReading the task and writing a plan...\n\n",
    ),
    "plan_again": (
        RULE + "\n【规划模式 - 阶段一：修订计划】\n{why}\n\n",
        RULE + "\n[Plan mode - phase 1: revise the plan]\n{why}\n\n",
    ),
    "plan_made": (
        RULE + "\n【规划模式】计划生成完成\n目标: {goal}\n共 {n} 个执行步骤\n\n",
        RULE + "\n[Plan mode] The plan is complete\nGoal: {goal}\n{n} steps\n\n",
    ),
    "plan_step": (
        RULE + "\n【规划模式 - {phase}】\n[{i}/{n}] {description}\n\n",
        RULE + "\n[Plan mode - {phase}]\n[{i}/{n}] {description}\n\n",
    ),
    "phase_planning": ("阶段二：分解任务", "phase 2: break it down"),
    "phase_execution": ("阶段三：执行工具", "phase 3: carry it out"),
    "phase_generation": ("阶段四：生成回答", "phase 4: answer"),
    "plan_4": (
        RULE + "\n【规划模式 - 阶段四：生成回答】\n正在整合执行结果...\n\n",
        RULE + "\n[Plan mode - phase 4: answer]\nPutting the results together...\n\n",
    ),
    "lifecycle_context": (
        RULE + "\n【任务引擎 - 获取上下文】\n正在收集规则、知识与工具...\n\n",
        RULE + "\n[Engine - context]\nCollecting rules, knowledge and tools...\n\n",
    ),
    "lifecycle_decompose": (
        RULE + "\n【任务引擎 - 分解目标】\n正在把目标分解为任务...\n\n",
        RULE + "\n[Engine - break it down]\nTurning the goal into tasks...\n\n",
    ),
    "lifecycle_again": (
        RULE + "\n【任务引擎 - 重新分解】\n{why}\n\n",
        RULE + "\n[Engine - break it down again]\n{why}\n\n",
    ),
    "lifecycle_schedule": (
        RULE + "\n【任务引擎 - 调度任务】\n共 {n} 个任务\n\n",
        RULE + "\n[Engine - schedule]\nTasks: {n}\n\n",
    ),
    "lifecycle_task": (
        RULE + "\n【任务引擎 - 执行任务】\n[{i}/{n}] {description}\n\n",
        RULE + "\n[Engine - carry it out]\n[{i}/{n}] {description}\n\n",
    ),
    "lifecycle_late": ("超过了 {n} 秒的时限，已放弃", "it took longer than {n} s and was stopped"),
    "lifecycle_needs": ("它需要的任务没有完成：{tasks}", "it needs tasks that were not completed: {tasks}"),
    "lifecycle_left": ("没有完成的任务：\n\n{tasks}", "Not completed:\n\n{tasks}"),
    "flow_round": (RULE + "\n【流程 {flow} - 第 {i}/{n} 轮】\n", RULE + "\n[Flow {flow} - round {i}/{n}]\n"),
    "flow_success": ("{branch} {arguments} 的结果：{result}", "{branch} {arguments} → {result}"),
    "flow_error": ("{branch} {arguments} 失败：{result}", "{branch} {arguments} failed: {result}"),
    "flow_branch": ("分支 {branch}：{summary}", "{branch}: {summary}"),
    "flow_said": ("已告知用户。", "The user was told."),
    "flow_answered": ("已回答用户：{answer}", "Answered the user: {answer}"),
    "flow_terminated": ("流程由用户明确终止", "the flow was terminated explicitly by the user"),
    "flow_max_round": (
        "在达成目标之前已到达最多 {n} 轮的上限",
        "the maximum amount of rounds ({n}) was reached before the goal was met",
    ),
    "flow_unfinished": (
        "流程未完成：{why}。已完成的工作：\n{done}",
        "The flow is unfinished: {why}. What was done:\n{done}",
    ),
    "branch_ask_user": (
        "向用户提一个只有用户能回答的问题，并等待回答。",
        "Ask the user a question that only they can answer, and wait for the answer.",
    ),
    "branch_re_plan": (
        "重写计划中尚未完成的步骤；已完成的步骤保留。",
        "Write the unfinished steps of the plan again; finished steps stay.",
    ),
    "branch_update_plan": (
        "更新步骤状态（例如 done）；步骤的文字不变。",
        "Mark steps, such as done; their text stays.",
    ),
    "branch_intermediate_answer": (
        "先告诉用户一部分结果，然后继续。",
        "Tell the user a part of the result, and continue.",
    ),
    "branch_final_answer": ("给用户最终回答，结束流程。", "Give the user the final answer; the flow ends."),
    "branch_finish": (
        "目标已达成，结束流程；`summary` 说明做了什么，`result` 是结果。",
        "The goal is met; the flow ends. `summary` says what was done, `result` is what came of it.",
    ),
    "branch_manual_finish": (
        "用户要求停止时使用：流程作为未完成结束。",
        "Only if the user asked to stop: the flow ends unfinished.",
    ),
    "unknown_call": (
        "注意：{tool} 是否已经生效并不清楚，也没有自动重做：请先核实。",
        "Note: {tool} may or may not have taken effect, and was not run again: check what it did.",
    ),
    "unknown_left": (
        "因此以下步骤没有执行：\n\n{steps}\n\n需要我先核实上面的操作是否已经生效吗？",
        "So these steps did not run:\n\n{steps}\n\nShall I check first whether the call above took effect?",
    ),
    "state_last": ("（见最后一条消息）", "(in the last message)"),
    "first_round": ("这是第一轮执行。", "This is the first round."),
    "spent_iterations": ("已达到最多 {n} 轮的上限", "the limit of {n} rounds was reached"),
    "spent_calls": ("已达到最多 {n} 次工具调用的上限", "the limit of {n} tool calls was reached"),
    "spent_seconds": ("已达到 {n} 秒的时间上限", "the time limit of {n} seconds was reached"),
    "spent_unreadable": ("连续 {n} 次回复无法读取", "{n} replies in a row could not be read"),
    "prose_answer": (
        "连续 {n} 次回复无法读取：最后一次的文字作为回答。",
        "{n} replies in a row could not be read: the text of the last one is the answer.",
    ),
    "repeated_call": (
        "这个调用已经以同样的结果成功过 {n} 次，没有再次运行：请根据已有的结果回答。",
        "This call has succeeded {n} times with this result and was not run again: answer with what there is.",
    ),
    "unfinished": (
        "任务未能完成：{why}。以下是目前的进展，回复“继续”可以接着做。\n\n{found}",
        "The task is not finished: {why}. This is what was found so far; write “go on” to continue.\n\n{found}",
    ),
    "interrupted": ("（回答被中断。）", "(The answer was interrupted.)"),
    "truncated": ("\n\n（回答在长度上限处被截断。）", "\n\n(The answer was truncated at its length limit.)"),
    "bot_default": (
        "抱歉，我暂时无法完成您的请求。请问还有什么可以帮您？",
        "I am sorry, I cannot complete this request at the moment. Is there anything else that I can do for you?",
    ),
    "reply_unread": (
        "你的回复无法读取：{why} 请按要求的格式重新回复。",
        "Your reply cannot be read: {why} Reply again in the required format.",
    ),
    "out_of_workflow": (
        "这一次，用户说一句与目标无关的话，例如闲聊或另一个问题。",
        "This time the user says something outside the goal, such as small talk or another question.",
    ),
    "node_dependency": (
        "没有调用 {tool}：请先成功调用 {names}。",
        "{tool} was not called: call {names} successfully first.",
    ),
    "api_duplication": (
        "{tool} 已用相同的参数调用过 {n} 次，没有再次执行：请使用已有的结果，或更改参数。",
        "{tool} was called {n} times with these arguments and was not run again: use the result, or other arguments.",
    ),
    "begin_talk": ("（对话开始，请说第一句话。）", "(The conversation begins: write your first message.)"),
    "worker_ended": ("工作进程 {worker} 结束，代码 {code}", "worker {worker} ended with code {code}"),
    "greeting": ("您好！请问有什么可以帮您？", "Hello! How can I help you?"),
    "assistant_said": ("助手：{text}", "Assistant: {text}"),
    "user_said": ("用户：{text}", "User: {text}"),
    "no_persona": ("一位普通用户。", "An ordinary user."),
    "no_goal": ("了解助手能做什么，并请它做一件事。", "Find out what the assistant can do, and have it do one thing."),
    "no_calls": ("（还没有）", "(none yet)"),
    "no_tools": ("（没有工具）", "(none)"),
    "nothing_found": ("（尚无结果）", "(no results yet)"),
    "tool_changed": (
        "自上次询问以来，{tools} 已改变：请核对它的参数和默认值，再作决定。",
        "{tools} has changed since you were asked: check its arguments and defaults, and decide again.",
    ),
    "rejected": ("用户拒绝执行 {tool}{why}。它没有运行。", "{tool} was rejected by the person{why}. It did not run."),
    "rejected_step": (
        "用户拒绝了步骤 {step}（{description}）{why}",
        "the person rejected step {step} ({description}){why}",
    ),
    "answer_in": ("请用中文回答。", "Answer in English."),
    "answer_alike": ("用用户消息所用的语言回答。", "Answer in the language of the user's message."),
    "why": ("：{reason}", ": {reason}"),
    "user_added": ("用户补充：{notes}", "the user added: {notes}"),
    "plan_around": (
        "同一个失败已经修复过 {n} 次：请绕开它重新规划，或用已有结果回答。",
        "The same failure was repaired {n} times: plan around it, or answer with what there is.",
    ),
}


def phrase(name: str, language: str, **slots: object) -> str:
    """A sentence in the person's language; the values are put in as text."""
    chinese, english = PHRASES[name]
    text = chinese if language == "zh" else english
    return _SLOT.sub(lambda found: str(slots[found[1]]), text)
