"""Tool calls that a model wrote into its text, in the markup of its family, as its endpoint did not read them.

Markup that is quoted, in code or in quotation marks, is text. A call within a line, or in words that prose could have
too, counts only at the end of the text. Where it is in doubt, nothing runs.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any
from warnings import catch_warnings, simplefilter

from ..core.decision import CodeMarks, MarkedCall, begun_mark, offered_name
from ..core.json import schema_kinds

Schemas = Mapping[str, Mapping[str, Any]]
"""The parameters of the offered tools, as JSON schemas, by the tools' names."""

_DSML = ("｜dsml｜", "｜｜dsml｜｜", "|dsml|", "||dsml||", "‖dsml‖")
_CALL_MARKS = (
    "<tool_call>", "<tool_calls>", "<function_call>", "<function_calls>", "<minimax:tool_call>", "<tool_use>",
    "<toolcall>", "<function=", "<invoke name=", "<seed:tool_call>", "<longcat_tool_call>", "<start_function_call>",
    "<" + "antml:function_calls>", "<" + "antml:invoke name=", "<|python_tag|>", "<|tool_call|>", "<|tool_calls|>",
    "<|tool_call>", "<|tool_call_begin|>", "<|tool_calls_section_begin|>", "<|tool_call_start|>",
    "<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>", "<|tool▁call▁begin|>", "<|tool▁calls▁begin|>",
    "<｜tool_call_begin｜>", "<｜tool_calls_begin｜>", "<|python_start|>", "<|action_start|>", "<|start_action|>",
    "<|tools_prefix|>", "[tool_calls]", "[tool_call]", "<|channel|>commentary to=", "<|start|>assistant to=",
    "assistantcommentary to=functions.",
    *(f"<{sign}{tag}" for sign in _DSML for tag in ("tool_calls>", "function_calls>", "invoke name=")),
)  # fmt: skip
"""What opens a call in a text, in lower case."""
_UNSURE_MARKS = ("<tools>", "<tool_code>", "```tool_code", "functools[")
"""What does so only where the name of a tool follows."""
_LITERAL_MARKS = (*_CALL_MARKS, *_UNSURE_MARKS)
_NAME = r"[\w.:/-]+"
_BEGINS = r"(?<![\w.:/-])"
_DSML_SIGN = r"[|｜‖]{1,2}"
_PREFIX = rf"(?:[a-z]+:|{_DSML_SIGN}DSML{_DSML_SIGN})?"
_MARK = re.compile(
    rf"(?P<words>{_BEGINS}(?:commentary )?to=functions\.|{_BEGINS}{_NAME}\[ARGS\]\s*+(?=\{{)"
    rf"|{_BEGINS}functions\.{_NAME}:\d++\s*+(?=\{{)|<\w{{0,20}}tool_call>(?=\s*+{_NAME}\s*+</)"
    rf"|<{_PREFIX}invoke name=(?=[^<>]{{1,80}}>\s*+</)|{'|'.join(map(re.escape, _UNSURE_MARKS))})|"
    + "|".join(map(re.escape, _CALL_MARKS)),
    re.IGNORECASE,
)
"""What opens a call; `words` do so only where a line begins and nothing follows the calls."""
_BEGINNINGS = (*_LITERAL_MARKS, "commentary to=functions.", "to=functions.")
_SPECIAL = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>|assistant\Z")
_ATTEMPT = re.compile(
    r"[{(]|<[^\s>]{0,12}(?:parameter|invoke)\b|<\w*arg_key|\A\s*\Z|\A\s*[\w.:/-]+\s*</", re.IGNORECASE
)
_FENCED = re.compile(r"```[\w-]*+[^\S\n]*+\n(.*)```", re.DOTALL)
_KEYS = frozenset(
    ("name", "arguments", "parameters", "args", "input", "type", "id", "function", "tool", "tool_name", "tool_input",
     "tool_call_id", "action", "action_input")
)  # fmt: skip
_CALL_KEYS = "|".join((*sorted(_KEYS), "tool_calls", "function_call"))
_MAY_BE_CALL = re.compile(
    rf'\s*(?:```[\w-]*\s*)?(?:\Z|[\[{{][\[{{\s]*(?:\Z|"(?:\Z|(?:{_CALL_KEYS})(?:\Z|"))|"[a-z_]*\Z))|\s*`{{1,2}}\Z'
)
"""The beginning of a text that may turn out to be the JSON of a call."""
_MAY_BE_PYTHON = re.compile(r"\s*+(?:```[\w-]*+\s*+)?\[\s*+(?P<name>[A-Za-z_][\w.]*+)(?:(?P<called>\()|\Z)")
_FENCE = re.compile(r"\s*+```[\w-]*+\n\s*+")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Markup:
    """What a text with markup comes to: the text before it, and the calls, or why they cannot be read."""

    before: str
    calls: tuple[MarkedCall, ...] = ()
    why: str = ""


def begins_call(text: str, tools: Schemas) -> bool:
    """Whether a text may turn out to be a call without a mark, or a fenced one, as far as it has arrived."""
    if python := _MAY_BE_PYTHON.match(text):
        name = python["name"].casefold()
        if python["called"]:
            return _written_tool(name, tools) in tools
        return any(tool.casefold().startswith(name) for tool in tools)
    if fence := _FENCE.match(text):
        inner = text[fence.end() :]
        if _MARK.match(inner) or (inner and begun_mark(inner, _LITERAL_MARKS) == len(inner)):
            return True
    return bool(_MAY_BE_CALL.match(text))


def find_mark(text: str, code: CodeMarks) -> int:
    """Where markup begins that is not quoted; the length of the text less what may begin one if there is none.

    `code` is that of the text before this one.
    """
    if mark := next(_marks(text, code), None):
        return mark.start()
    begun = begun_mark(text, _BEGINNINGS)
    place = len(text) - begun
    return place if begun > 2 or not text[place : place + 1].isalpha() else len(text)


def _marks(text: str, code: CodeMarks, place: int = 0) -> Iterator[re.Match[str]]:
    """The marks from a place on that are not quoted; `code` is that of the text before the place."""
    code = copy(code)
    for mark in _MARK.finditer(text, place):
        code.add(text[place : mark.start()])
        place = mark.start()
        if not code.is_quoted and not (mark["words"] and _SPECIAL.sub("", code.line).strip()):
            yield mark


def read_markup(text: str, tools: Schemas) -> Markup | None:
    """Read the calls of a text; None where it holds none and is only a text."""
    if mark := next(_marks(text, CodeMarks()), None):
        return _read_marked(text, mark, tools)
    inner = _RESIDUE.sub("", text).strip()
    if fenced := _FENCED.fullmatch(inner):
        inner = fenced[1].strip()
    if mark := _MARK.match(inner):
        return _read_marked(inner, mark, tools, fenced=True)
    return _read_bare(inner, tools)


def _read_marked(text: str, mark: re.Match[str], tools: Schemas, fenced: bool = False) -> Markup | None:
    """The calls of a text from its first mark on; those of a `fenced` text must be all of it."""
    place, before = mark.start(), text[: mark.start()]
    is_unsure = mark[0].lower() in _UNSURE_MARKS
    is_sure = _begins_line(text, place) and not is_unsure
    names_tool = any(name in text[place : place + 200] for name in tools)
    if not _ATTEMPT.search(text[mark.end() :]) or not (is_sure or names_tool):
        return None
    before = before.removesuffix("assistant").rstrip()
    try:
        calls = _calls(text, place, tools, must_end=fenced)
        if is_unsure and not calls:
            return None
        if not calls:
            raise ValueError("it names no tool")
        return Markup(before, tuple(_known(call, tools) for call in calls))
    except (ValueError, RecursionError) as error:
        return Markup(before, why=str(error))


_BESIDE = "other text stands beside it"


def _read_bare(inner: str, tools: Schemas) -> Markup | None:
    """The calls of a text that is JSON, or a list of calls as Python writes them; beside other text, nothing is run."""
    code, read = CodeMarks(), 0
    for begin in [0, *(line.end() for line in islice(_LINE_OF_JSON.finditer(inner), _MOST_LINES))]:
        code.add(inner[read:begin])
        read = begin
        try:
            calls, rest = _bare_calls(inner[begin:], tools)
        except _Misfit as error:
            return Markup(inner[:begin].rstrip(), why=str(error))
        except (ValueError, RecursionError):
            continue
        if not any(offered_name(call.name, tools) in tools for call in calls) or code.is_quoted:
            continue
        if begin or rest:
            return Markup(inner[:begin].rstrip(), why=_BESIDE)
        try:
            return Markup("", tuple(_known(call, tools) for call in calls))
        except ValueError as error:
            return Markup("", why=str(error))
    return None


_RESIDUE = re.compile(r"(?<![\s>])(?:\s|<[|｜][^<>|｜]{1,40}[|｜]>|</?\w+>)++\Z")
"""What may be left at the end of a text where an endpoint takes only some of a model's tokens away."""
_LINE_OF_JSON = re.compile(r'\n[ \t]*+(?=[\[{]\s*[\[{"])')
_MOST_LINES = 20
"""Lines of a text that are read as JSON; each costs up to the length of the text."""


def _bare_calls(text: str, tools: Schemas) -> tuple[Sequence[MarkedCall], str]:
    """The calls that a text begins with, separated by spaces, commas or semicolons, and the rest of the text."""
    if text.startswith("[") and (written := _in_python(text, tools)):
        return written, ""
    calls: list[MarkedCall] = []
    place = 0
    while text.startswith(("{", "["), place):
        value, place = _DECODER.raw_decode(text, place)
        calls += _in_json(value, bare=True)
        while place < len(text) and text[place] in " \t\r\n,;":
            place += 1
    return calls, text[place:]


def _known(call: MarkedCall, tools: Schemas) -> MarkedCall:
    name = offered_name(call.name, tools)
    if name not in tools:
        raise ValueError(f"there is no tool {call.name[:100]!r}; use one of {', '.join([*tools][:30])}")
    return MarkedCall(name, call.arguments)


_SEP = r"(?:<[|｜]tool[▁_]sep[|｜]>\s*+)"
_FORMS = re.compile(
    rf"<{_PREFIX}invoke\s+name=[\"'](?P<invoke>[^<>\"']+)[\"'][^<>]*>(?P<invoked>.*?)(?:</{_PREFIX}invoke>|\Z)"
    rf"|<function=(?P<function>[^<>\s]+)>(?P<body>.*?)(?:</function>|(?=<function=)|\Z)"
    rf"|<\w*tool_call>\s*+(?P<keyed>{_NAME})\s*+(?P<pairs>(?=</\w*tool_call>)|<\w*arg_key>.*?)(?:</\w*tool_call>|\Z)"
    rf"|<[|｜]tool[▁_]call[▁_]begin[|｜]>\s*+(?:function\s*+{_SEP})?(?P<deepseek>{_NAME})\s*+{_SEP}?"
    rf"(?:```\w*+\s*+)?(?=\{{)"
    rf"|<\w*tool_call>\s*+(?P<fenced>{_NAME})\s*+(?:```\w*+\s*+)?(?=\{{)"
    rf"|(?:<\|tool_call_begin\|>\s*+|(?=functions\.{_NAME}:\d))(?P<kimi>{_NAME})\s*+"
    rf"(?:<\|tool_call_argument_begin\|>\s*+)?(?=\{{)"
    rf"|to=(?P<harmony>{_NAME})[^{{}}]{{0,80}}(?=\{{)"
    rf"|\[TOOL_CALLS\]\s*+(?P<mistral>{_NAME})\s*+(?:\[CALL_ID\]\s*+\w++\s*+)?(?:\[ARGS\]\s*+)?(?=\{{)"
    rf"|(?P<args>{_NAME})\[ARGS\]\s*+(?=\{{)"
    rf"|call:(?P<gemma>{_NAME})\s*+(?P<braces>\{{.*?)(?:<tool_call\|>|<end_function_call>|\Z)"
    rf"|(?P<json>(?!\[/?[A-Z_]{{3,20}}\])[\[{{])",
    re.DOTALL,
)
_NAMED_JSON = ("deepseek", "fenced", "kimi", "harmony", "mistral", "args")
_PARAMETER = re.compile(
    rf"<{_PREFIX}parameter(?:=|\s+name=)[\"']?(?P<name>[^<>\"'\s]++)[\"']?(?:\s[^<>]*+)?>(?P<value>.*?)"
    rf"(?:</{_PREFIX}parameter>|(?=<{_PREFIX}parameter)|\Z)",
    re.DOTALL,
)
_PAIR = re.compile(
    r"<\w*arg_key>(?P<name>[^<]*+)</\w*arg_key>\s*+<\w*arg_value>(?P<value>.*?)(?:</\w*arg_value>|\Z)", re.DOTALL
)
_BETWEEN = re.compile(
    r"[\s,;\]]++|</?(?![^<>]{0,40}(?:result|response|output|observation)|(?:pre|code|blockquote)\b)[^<>]{1,80}>"
    r"|\[/?(?!TOOL_RES)[A-Z_]{3,20}\]|```\w*+|assistant|commentary|functools|function(?=<)",
    re.IGNORECASE,
)
"""What may stand between a mark and its call, and between two calls."""
_OPENS = re.compile(r">(?:commentary |assistant )?\Z")


def _form(text: str, place: int) -> tuple[re.Match[str] | None, int]:
    """The call that directly follows a place, else where something else does."""
    while True:
        if form := _FORMS.match(text, place):
            return form, form.start()
        between = _BETWEEN.match(text, place)
        if between is None:
            return None, place
        place = between.end()


def _calls(text: str, place: int, tools: Schemas, must_end: bool = False) -> Sequence[MarkedCall]:
    """The calls of a text from the mark at a place on; `must_end`: nothing else may follow them."""
    if written := _in_python(text[place:], tools):
        return written
    calls: list[MarkedCall] = []
    marks = _marks(text, CodeMarks(), place)
    while mark := next(marks, None):
        form, begin = _form(text, mark.start())
        if form is None or (calls and mark["words"]):
            continue
        is_unsure = mark[0].lower() in _UNSURE_MARKS
        must_end = must_end or bool(mark["words"]) or not _begins_line(text, mark.start())
        place = mark.start()
        while form is not None:
            between = text[place:begin]
            tag, _, behind = between.rpartition(">")
            if calls and "```" in behind and not _MARK.match(tag[tag.rfind("<") :] + ">"):
                raise ValueError(_BESIDE)
            must_end |= form[0][0] not in "<[{" and not _OPENS.search(between)
            found, place = _read(form, tools, bare=is_unsure)
            calls += found
            form, begin = _form(text, place)
        place = begin
        marks = _marks(text, CodeMarks(), place)
    if calls and must_end and place < len(text):
        raise ValueError(_BESIDE)
    return calls


def _begins_line(text: str, place: int) -> bool:
    return not text[text.rfind("\n", 0, place) + 1 : place].strip()


def _read(form: re.Match[str], tools: Schemas, bare: bool) -> tuple[list[MarkedCall], int]:
    """The calls of a form, and where it ends."""
    text, kind = form.string, next(name for name in form.groupdict() if form[name] is not None)
    if kind == "json":
        value, end = _DECODER.raw_decode(text, form.start())
        return _in_json(value, bare), end
    if kind in _NAMED_JSON:
        value, end = _DECODER.raw_decode(text, form.end())
        return [MarkedCall(form[kind], _object(value))], end
    if kind == "keyed":
        return [_of_tags(form[kind], _PAIR, form["pairs"], tools)], form.end()
    if kind == "gemma":
        return [MarkedCall(form[kind], _in_gemma(form["braces"]))], form.end()
    body = form["invoked" if kind == "invoke" else "body"].strip()
    if body.startswith("{"):
        return [MarkedCall(form[kind], _object(_DECODER.raw_decode(body)[0]))], form.end()
    return [_of_tags(form[kind], _PARAMETER, body, tools)], form.end()


_CODE = re.compile(
    r"(?:<[^<>]*>|```\w*|\s)*+(?P<code>(?:\w+\s*=\s*)?(?:\[\s*)?[A-Za-z_][\w.]*\(.*\)\s*+\]?)"
    r"(?:<[^<>]*>|```|\s)*+\Z",
    re.DOTALL,
)
_CONSTANTS = {"true": True, "false": False, "null": None}


def _in_python(text: str, tools: Schemas) -> Sequence[MarkedCall]:
    """The calls of a text that is Python's calls of offered tools and nothing else; none where it is something else.

    It raises `_Misfit` for calls of offered tools whose arguments cannot be told.
    """
    code = _CODE.match(text)
    if code is None:
        return ()
    nodes: list[Any] = []
    try:
        with catch_warnings():
            simplefilter("ignore")
            lines = ast.parse(code["code"]).body
        for line in lines:
            value = getattr(line, "value", None)
            nodes += value.elts if isinstance(value, ast.List) else [value]
        return [_of_node(node, tools) for node in nodes]
    except _Misfit:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return ()


class _Misfit(ValueError):
    """A tool is called with arguments that fit no parameters."""


_AROUND_NAME = re.compile(r"\A(?:functions|default_api|tools)\.|\.call\Z")


def _written_tool(name: str, tools: Schemas) -> str:
    """The name of the tool that a name in Python means; one of another object's method is none."""
    return offered_name(_AROUND_NAME.sub("", name).replace(".", "_"), tools)


def _of_node(node: Any, tools: Schemas) -> MarkedCall:
    """The call that an expression is, or that it prints."""
    if not isinstance(node, ast.Call):
        raise ValueError("it is no call")
    written = ast.unparse(node.func)
    if written == "print" and len(node.args) == 1:
        return _of_node(node.args[0], tools)
    name = written if written in tools else _written_tool(written, tools)
    if name not in tools:
        raise ValueError("it is no call of a tool")
    properties = tools[name].get("properties") or {}
    names = [*[*properties][: len(node.args)], *(keyword.arg for keyword in node.keywords)]
    if len(node.args) > len(properties) or None in names or len({*names}) < len(names):
        raise _Misfit(f"its arguments do not fit the parameters of {name}")
    given = dict(zip(names, [*node.args, *(keyword.value for keyword in node.keywords)], strict=True))
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        is_constant = isinstance(value, ast.Name) and value.id in _CONSTANTS
        arguments[str(key)] = _CONSTANTS[ast.unparse(value)] if is_constant else ast.literal_eval(value)
    return MarkedCall(name, json.loads(json.dumps(arguments)))


_GEMMA_QUOTE = re.compile(r'<\|"\|>|<escape>')
_BARE_KEY = re.compile(r"(?<=[{,])\s*+([A-Za-z_]\w*+)\s*+:")


def _in_gemma(text: str) -> Mapping[str, Any]:
    """The arguments that Gemma wrote: an object whose keys are bare and whose texts stand between marks."""
    parts = _GEMMA_QUOTE.split(text)
    parts[::2] = [_BARE_KEY.sub(r'"\1":', part) for part in parts[::2]]
    parts[1::2] = map(json.dumps, parts[1::2])
    text = "".join(parts)
    value, end = _DECODER.raw_decode(text)
    if text[end:].strip():
        raise ValueError(_BESIDE)
    return _object(value)


def _of_tags(name: str, tag: re.Pattern[str], body: str, tools: Schemas) -> MarkedCall:
    """A call whose arguments are tags; their values are text unless the schema has another type for them."""
    schema = tools.get(offered_name(name, tools), {})
    properties = schema.get("properties") or {}
    found = [(each["name"].strip(), each["value"]) for each in tag.finditer(body)]
    return MarkedCall(name, {key: _typed(value, properties.get(key)) for key, value in found})


def _typed(text: str, schema: Any) -> Any:
    text = text.removeprefix("\n").removesuffix("\n")
    kinds = schema_kinds(schema)
    if not kinds or "string" in kinds:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")


def _in_json(value: Any, bare: bool = False) -> list[MarkedCall]:
    """The calls that a JSON value describes; none where it is something else, such as the definition of a tool.

    `bare`: nothing but its keys says that it is one.
    """
    if isinstance(value, list):
        return [call for each in value for call in _in_json(each, bare)]
    if not isinstance(value, dict):
        return []
    for key in ("tool_calls", "function_call"):
        if isinstance(value.get(key), list | dict) and len(value) <= 2:
            return _in_json(value[key], bare)
    if bare and not value.keys() <= _KEYS:
        return []
    function = value["function"] if isinstance(value.get("function"), dict) else value
    parameters = function.get("parameters")
    is_schema = isinstance(parameters, dict) and parameters.get("type") == "object" and "properties" in parameters
    if is_schema or "description" in function:
        return []
    named = (function.get(key) for key in ("name", "function", "tool", "tool_name", "action"))
    names = [each for each in named if isinstance(each, str) and each]
    given = [function[key] for key in _ARGUMENTS if key in function]
    if not names or (bare and not given):
        return []
    return [MarkedCall(names[0], _object(given[0] if given else {}))]


def _object(given: Any) -> Mapping[str, Any]:
    if isinstance(given, str):
        given = json.loads(given or "{}")
    if given is None or given == []:
        return {}
    if not isinstance(given, dict):
        raise ValueError("its arguments are not a JSON object")
    return given
