"""What the offline planner says, in Chinese and in English: patterns whose braces are filled in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Language = Literal["zh", "en"]


@dataclass(frozen=True)
class Phrases:
    """One language's sentences; braces are filled in."""

    comma: str
    items: str
    name: str
    call: str
    notice: str
    greeting: str
    greeting_alone: str
    welcome: str
    no_fit: str
    no_tools: str
    can: str
    ask: str
    sample: str
    failed: str
    unknown: str
    error: str
    not_run: str
    recap: str
    first_round: str
    saw: str
    went_well: str
    went_wrong: str
    went_unknown: str
    think_call: str
    think_answer: str
    think_ask: str
    think_no_fit: str
    goal: str
    write_answer: str


ZH = Phrases(
    comma="，",
    items="、",
    name="「{}」",
    call="{title}（{arguments}）",
    notice="*—— 由 Segue 的「离线规划器」按规则拼成：它不是语言模型。*",
    greeting="你好！我可以帮你做这些事：\n\n{tools}",
    greeting_alone="你好！这里没有绑定任何工具。",
    welcome="不客气！",
    no_fit="没有合适的工具能处理这句话。",
    no_tools="这里没有可用的工具，所以这个问题我答不了。",
    can="我的工具能做这些事：\n\n{tools}",
    ask="要用{tools}，还需要你告诉我：",
    sample="例如：{}",
    failed="{call} 没有成功：{error}",
    unknown="{call} 是否已经生效并不清楚，也没有自动重做：请先核实，需要时再发一条消息让我重做。",
    error="上一步出了错：{}",
    not_run="这要用{tools}，但这里没有运行工具，所以没有结果。",
    recap="没有需要新调用的工具。前面查到的是：",
    first_round="我观察到这是第一轮执行。",
    saw="我观察到到目前为止的结果：{}。",
    went_well="{} 成功",
    went_wrong="{} 失败",
    went_unknown="{} 结果不明",
    think_call="我分析出需要{calls}。综合以上，我决定接下来采取 CALL_TOOL。",
    think_answer="需要的调用都做过了，不重复调用。综合以上，我决定采取 ANSWER。",
    think_ask="{tools}合适，但缺少参数。综合以上，我决定采取 ANSWER，请用户补充。",
    think_no_fit="没有工具合适。综合以上，我决定采取 ANSWER，如实说明。",
    goal="完成：{}",
    write_answer="整理结果，生成回答",
)
EN = Phrases(
    comma=", ",
    items=", ",
    name="“{}”",
    call="{title} ({arguments})",
    notice="*— Put together by rules by Segue’s offline planner, which is not a language model.*",
    greeting="Hello! I can help with:\n\n{tools}",
    greeting_alone="Hello! No tools are bound here.",
    welcome="You’re welcome!",
    no_fit="No tool fits this message.",
    no_tools="There are no tools here, so I cannot answer this.",
    can="My tools can do this:\n\n{tools}",
    ask="To use {tools}, I still need:",
    sample="for example {}",
    failed="{call} did not succeed: {error}",
    unknown="{call} may or may not have taken effect, and was not run again: check, and ask anew if need be.",
    error="The last step went wrong: {}",
    not_run="This takes {tools}, but no tool was run here, so there is no result.",
    recap="No new call is needed. This was found before:",
    first_round="I observe that this is the first round.",
    saw="I observe the results so far: {}.",
    went_well="{} succeeded",
    went_wrong="{} failed",
    went_unknown="{} may or may not have taken effect",
    think_call="I see that {calls} is needed. So I decide on CALL_TOOL.",
    think_answer="Every call that is needed was made, and none is repeated. So I decide on ANSWER.",
    think_ask="{tools} fits, but an argument is missing. So I decide on ANSWER, to ask for it.",
    think_no_fit="No tool fits. So I decide on ANSWER, to say so.",
    goal="Carry out: {}",
    write_answer="Put the results together and write the answer",
)
PHRASES: Mapping[str, Phrases] = {"zh": ZH, "en": EN}
