"""The errors of agents files and of tools in Chinese, by their English template."""

from collections.abc import Mapping

ERRORS: Mapping[str, str] = {
    "The field '{name}' holds {count} calls: change them in their places.": "字段“{name}”有 {count} 个调用：请就地改。",
    "The agents file {file} holds no [[agent]] table.": "智能体文件 {file} 中没有 [[agent]] 表。",
    "The agents file {file} has more than one agent '{name}': rename one.": (
        "智能体文件 {file} 中有多个名为“{name}”的智能体：请重命名其中一个。"
    ),
    'The [modes] table of {path} needs lines such as: shout = "my_module:graph".': (
        '{path} 的 [modes] 表应有这样的行：shout = "my_module:graph"。'
    ),
    "The agents file {file} has '{unknown}'; it may have {may}.": (
        "智能体文件 {file} 中有“{unknown}”；可以有：{may}。"
    ),
    "The agents file {file} cannot be read: {error}.": "智能体文件 {file} 无法读取：{error}。",
    "The agent '{name}' in {file}: {where}: {reason}.": "{file} 中的智能体“{name}”：{where}：{reason}。",
    'Agent {number} in {file} has no agent_id: add agent_id = "{example}".': (
        '{file} 中的第 {number} 个智能体没有 agent_id：请添加 agent_id = "{example}"。'
    ),
    "agents was given {kind}: pass a list of segue.Agent objects; segue.load_agents(FILE) reads one.": (
        "agents 的值是 {kind}：请传入 segue.Agent 对象的列表；segue.load_agents(FILE) 可从文件读取。"
    ),
    "agents has more than one agent '{name}': rename one.": "agents 中有多个名为“{name}”的智能体：请重命名其中一个。",
    "path is {kind}: pass the path or the URL of a database.": "path 是 {kind}：请传入数据库的路径或网址。",
    "The app runs tasks in another event loop: use one app in each loop.": (
        "应用正在另一个事件循环中运行任务：请为每个循环使用各自的应用。"
    ),
    "'{name}' cannot be imported: {error}.": "“{name}”无法导入：{error}。",
    "The prompt file {prompt_file} of {file} cannot be read: {error}.": (
        "{file} 的提示词文件 {prompt_file} 无法读取：{error}。"
    ),
    "The agents file {file} of task {task_id} is not there any more: name it with --agents.": (
        "任务 {task_id} 的智能体文件 {file} 已不存在：请用 --agents 指定。"
    ),
    "{file} and {other} each have a module {module}: resume the tasks of one of them with --agents.": (
        "{file} 和 {other} 各有一个模块 {module}：请用 --agents 分别继续它们的任务。"
    ),
    "The tool {tool} cannot be used: Segue does not inject {parameter}. Give it a default, fix it with "
    "functools.partial, or take a RunnableConfig instead.": (
        "工具 {tool} 无法使用：Segue 不注入 {parameter}。请给它默认值，用 functools.partial 固定它，或改用 Ru"
        "nnableConfig。"
    ),
    "The function {name} cannot be a tool: it yields; return a list instead.": (
        "函数 {name} 不能作为工具：它使用 yield；请改为返回列表。"
    ),
    "The {kind} of the tool {tool} asks for {parameter}, which the tool does not have.": (
        "工具 {tool} 的 {kind} 需要 {parameter}，而工具没有这个参数。"
    ),
    "{source} cannot be a tool: it has no name; set its __name__.": (
        "{source} 不能作为工具：它没有名称；请设置 __name__。"
    ),
    "The function {name} cannot be a tool: its types cannot be read: {error}.": (
        "函数 {name} 不能作为工具：它的类型无法读取：{error}。"
    ),
    "The function {name} cannot be a tool: name each of its {parameter}.": (
        "函数 {name} 不能作为工具：请为 {parameter} 中的每个参数命名。"
    ),
    "The function {name} cannot be a tool: give {parameter} a type.": (
        "函数 {name} 不能作为工具：请为 {parameter} 指定类型。"
    ),
    "The function {name} cannot be a tool: JSON has no form for the type of {parameters}.": (
        "函数 {name} 不能作为工具：{parameters} 的类型没有对应的 JSON 形式。"
    ),
    "The tool {name} has a parameter without a JSON form: {error}.": (
        "工具 {name} 有一个没有 JSON 形式的参数：{error}。"
    ),
    "The tool {name} has marks that Segue does not know: {error}.": "工具 {name} 有 Segue 无法识别的标记：{error}。",
    'The MCP server "{name}" has no tool "{tool}"; use one of: {known}.': (
        "MCP 服务器“{name}”没有工具“{tool}”；可选：{known}。"
    ),
    "The tool {tool} of the MCP server {name} cannot be used: {reason}. Leave it out with the server's `tools`, "
    "or correct its schema.": (
        "MCP 服务器 {name} 的工具 {tool} 无法使用：{reason}。请用服务器的 `tools` 排除它，或更正它的 schema。"
    ),
    "The agent {agent_id} has {count} tools that take {size} tokens of each prompt, more than three "
    "quarters of its budget.prompt_tokens ({most}): name fewer in its `tools` and those of its MCP servers, or "
    "raise it.": (
        "智能体 {agent_id} 有 {count} 个工具，每个提示词中占 {size} 个 token，超过其 budget.prompt_tokens（{most}）的"
        "四分之三：请在它及其 MCP 服务器的 `tools` 中选择更少的工具，或增大该预算。"
    ),
    "The URL of the API {name} has a segment '{segment}': write the path that it leads to.": (
        "API {name} 的 url 中有“{segment}”一段：请写出它所指向的路径。"
    ),
    "A tool's timeout is {timeout}: give it seconds above zero, or None.": (
        "工具的时限是 {timeout}：请给出大于零的秒数，或 None。"
    ),
    "{source} is not a tool: pass a LangChain tool or a typed function.": (
        "{source} 不是工具：请传入 LangChain 工具或带类型的函数。"
    ),
    "Two tools are called {name}: rename one.": "有两个工具都叫 {name}：请重命名其中一个。",
}
