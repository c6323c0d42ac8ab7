"""The texts of a rehearsal's report, in both languages."""

from collections.abc import Mapping

REPORT: Mapping[str, tuple[str, str]] = {
    "title": ("演练报告", "Rehearsal report"),
    "ended": ("{n} / {total} 个对话已结束。", "{n} of {total} conversations ended."),
    "missing": (
        "还缺 {n} 个：再次运行同一条 `segue simulate` 命令即可补全。",
        "{n} are missing: run the same `segue simulate` again to complete them.",
    ),
    "origin": ("种子 {seed}，Segue {version}，{time}。", "Seed {seed}, Segue {version}, {time}."),
    # sections and columns
    "summary": ("概要", "Summary"),
    "scenarios": ("场景", "Scenarios"),
    "failures": ("失败", "Failures"),
    "conversations": ("对话", "Conversations"),
    "transcripts": ("失败对话的记录", "Transcripts of the failures"),
    "compared": ("与先前批次的比较", "Compared with the earlier batch"),
    "worse": ("变差", "Worse"),
    "better": ("变好", "Better"),
    "figure": ("指标", "figure"),
    "value": ("数值", "value"),
    "conversation": ("对话", "conversation"),
    "scenario": ("场景", "scenario"),
    "attributed_to": ("归因", "attributed to"),
    "turn": ("轮次", "turn"),
    "why": ("原因", "why"),
    "end": ("结束方式", "end"),
    "log": ("日志", "log"),
    # figures
    "success": ("成功率", "success"),
    "interval": ("95 % 置信区间", "95 % interval"),
    "by_rule": ("按规则的成功率", "success by rule"),
    "by_judge": ("评审 {judge} 的成功率", "success by judge {judge}"),
    "agreement": ("规则与评审一致", "agreement of rule and judge"),
    "calls": ("调用", "calls"),
    "precision": ("精确率", "precision"),
    "recall": ("召回率", "recall"),
    "turns": ("轮数", "turns"),
    "turns_mean": ("平均轮数", "turns, mean"),
    "mean_median": ("平均 {mean}，中位数 {median}", "{mean} on average, {median} at the median"),
    "tokens": ("词元", "tokens"),
    "read_written": ("读 {read}，写 {written}", "{read} read, {written} written"),
    "cost": ("费用", "cost"),
    "seconds": ("秒", "seconds"),
    "ended_by": ("结束方式", "ended by"),
    "failures_of": ("失败归因", "failures attributed to"),
    "yes": ("是", "yes"),
    "no": ("否", "no"),
    "not_graded": ("未评", "not graded"),
    # charts
    "chart_scenarios": ("各场景的成功率", "Success by scenario"),
    "chart_turns": ("得到回答的轮数", "Answered turns"),
    "chart_ends": ("对话如何结束", "How conversations ended"),
    "chart_faults": ("失败归因于", "Failures by party"),
    "succeeded": ("成功", "success"),
    "failed": ("失败", "failure"),
    # parties and ends
    "agent": ("智能体", "agent"),
    "user": ("用户", "user"),
    "tool": ("工具", "tool"),
    "judge": ("评审", "judge"),
    "user_ended": ("用户结束", "user ended"),
    "turn_limit": ("达到轮数上限", "turn limit"),
    "session_length": ("达到长度上限", "session length"),
    "user_failed": ("用户无有效发言", "user failed"),
    # why a conversation failed
    "user_wrote_nothing": (
        "模拟用户没有写出可用的内容：{error}",
        "the simulated user wrote nothing that could be used: {error}",
    ),
    "tool_failed": ("{call} 失败，状态码 {status}", "{call} failed with status {status}"),
    "false_fact": (
        "模拟用户说 {slot} 是 {value}，而它的人设并不知道这一点",
        "the simulated user said {slot} {value}, which its persona does not know",
    ),
    "ended_early": (
        "模拟用户没有回答问题就结束了对话",
        "the simulated user ended the conversation instead of answering the question",
    ),
    "stuck": (
        "模拟用户对不同的回答说了 {n} 次同样的话",
        "the simulated user said the same {n} times to different answers",
    ),
    "refused": ("{call} 被 {controller} 拒绝：{hint}", "{call} was refused by {controller}: {hint}"),
    "wrong_arguments": ("它调用了 {call}，应为 {expected}", "it called {call}, expected {expected}"),
    "unexpected_call": (
        "它调用了 {call}，这不在预期之内；{difference}",
        "it called {call}, which was not expected; {difference}",
    ),
    "never_called": ("{call} 从未被调用", "{call} was never called"),
    "never_called_in_turns": (
        "{call} 从未被调用；对话因达到 {n} 轮的上限而结束",
        "{call} was never called; the turn limit of {n} ended the conversation",
    ),
    "wrong_state": ("状态不符：{difference}", "the state is wrong: {difference}"),
    "goal_missed": ("对话没有达到目标", "the conversation did not reach its goal"),
    "difference": ("{path}：{actual}，应为 {expected}", "{path}: {actual}, expected {expected}"),
    "judge_objects": ("所有规则都已满足；评审说：{reason}", "every rule is met; the judge says: {reason}"),
    "judge_says": ("{reason}", "{reason}"),
    "fault": ("{party}，第 {turn} 轮：{reason}", "{party}, turn {turn}: {reason}"),
    # the comparison
    "no_pairs": ("两个批次没有共同的对话。", "The batches have no conversation in common."),
    "no_change": ("没有对话发生变化（比较了 {pairs} 个）。", "No conversation changed ({pairs} compared)."),
    "numbers": (
        "{pairs} 个中 {worse} 个变差、{better} 个变好，p = {p}",
        "{worse} worse, {better} better of {pairs}, p = {p}",
    ),
    "is_worse": (
        "新批次更差，差异超出噪声（{numbers}）。",
        "The new batch is worse, and the difference exceeds noise ({numbers}).",
    ),
    "is_better": (
        "新批次更好，差异超出噪声（{numbers}）。",
        "The new batch is better, and the difference exceeds noise ({numbers}).",
    ),
    "is_noise": ("差异没有超出噪声（{numbers}）。", "The difference does not exceed noise ({numbers})."),
    "rate_changed": (
        "成功率变化 {value} 个百分点（95 % 置信区间 {low} 至 {high}）。",
        "The success rate changed by {value} points (95 % interval {low} to {high}).",
    ),
}


def report_text(name: str, language: str, /, **slots: object) -> str:
    """A text of the report in its reader's language."""
    chinese, english = REPORT[name]
    return (chinese if language == "zh" else english).format(**slots)
