"""What people are shown of the modes: a label and a description each."""

from collections.abc import Mapping

_LABELS: Mapping[str, tuple[str, str]] = {
    "auto": ("自动", "Auto"),
    "direct": ("快速响应", "Direct"),
    "react": ("推理模式", "ReAct"),
    "plan": ("规划模式", "Plan"),
    "plan_react": ("混合模式", "Hybrid"),
    "lifecycle": ("任务分解", "Lifecycle"),
    "controller": ("控制器", "Controller"),
}
_DESCRIPTIONS: Mapping[str, tuple[str, str]] = {
    "auto": ("为每条消息选择其他模式之一", "chooses one of the others for each message"),
    "direct": ("一次模型调用，不用工具：问候、常识", "one model call, no tools: greetings, common knowledge"),
    "react": (
        "逐轮思考并调用工具：搜索、查询、计算",
        "thinks and calls tools round by round: search, lookup, calculation",
    ),
    "plan": ("先写出并显示计划，再执行", "writes a plan first, shows it, then executes it"),
    "plan_react": ("计划的步骤逐轮执行", "a plan whose steps are executed round by round"),
    "lifecycle": ("把目标分解为子任务，逐个执行", "breaks a goal down into subtasks and runs each on its own"),
    "controller": (
        "由控制器逐个分支执行计划，并使用记忆文件",
        "a controller executes a plan branch by branch, with memory files",
    ),
}
_OWN = ("由自己的图注册", "registered by its own graph")


def mode_label(name: str, language: str) -> str:
    """What a mode is called; a mode of one's own by its name."""
    chinese, english = _LABELS.get(name, (name, name))
    return chinese if language == "zh" else english


def mode_description(name: str, language: str) -> str:
    """What a mode does."""
    chinese, english = _DESCRIPTIONS.get(name, _OWN)
    return chinese if language == "zh" else english
