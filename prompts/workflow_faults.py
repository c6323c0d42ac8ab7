"""What can be wrong in the file of a workflow, in Chinese; the error itself speaks English."""

from collections.abc import Mapping

from ..core.errors import InvalidWorkflow

_REASONS: Mapping[str, str] = {
    "{problem}": "{problem}",
    "the file cannot be read ({error})": "文件无法读取（{error}）",
    "this is not valid YAML: {error}": "不是有效的 YAML：{error}",
    "the file should begin with front matter: a line with '---', then YAML": (
        "文件应以前置元数据开头：一行 '---'，然后是 YAML"
    ),
    "the front matter should end with a line with '---'": "前置元数据应以一行 '---' 结束",
    "this key is repeated": "这个键重复了",
    "not a JSON schema: {error}": "不是 JSON schema：{error}",
    "should be a list of scenarios": "应为场景的列表",
    "there are two scenarios '{name}'": "有两个名为“{name}”的场景",
    "there are two steps '{name}'": "有两个名为“{name}”的步骤",
    "'{name}' cannot require itself": "“{name}”不能依赖自己",
    "the answer '{name}' is missing": "缺少回答“{name}”",
    "'{name}' is no {kind}; use one of: {known}": "“{name}”不是{kind}；可选：{known}",
}
FAULTS: Mapping[str, str] = {
    f"{InvalidWorkflow.PLACE}{english}.": f"工作流无效：{{file}} 第 {{line}} 行{{field}}：{chinese}。"
    for english, chinese in _REASONS.items()
}
"""By the English sentence."""
