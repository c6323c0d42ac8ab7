"""Tool calls that a model wrote into its text, in the markup of its family, as its endpoint did not read them.

Markup that is quoted, in code or in quotation marks, is text.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from warnings import catch_warnings, simplefilter

from ..core.decision import MarkedCall, begun_mark, offered_name
from ..core.json import schema_kinds

Schemas = Mapping[str, Mapping[str, Any]]
"""The parameters of the offered tools, as JSON schemas, by the tools' names."""

_DSML = ("｜dsml｜", "｜｜dsml｜｜", "|dsml|", "||dsml||", "‖dsml‖")
CALL_MARKS = (
    "<tool_call>", "<tool_calls>", "<function_call>", "<function_calls>", "<minimax:tool_call>", "<tool_use>",
    "<toolcall>", "<function=", "<invoke name=", "<seed:tool_call>", "<longcat_tool_call>", "<start_function_call>",
    "<" + "antml:function_calls>", "<" + "antml:invoke name=", "<|python_tag|>", "<|tool_call|>", "<|tool_calls|>",
    "<|tool_call>", "<|tool_call_begin|>", "<|tool_calls_section_begin|>", "<|tool_call_start|>",
    "<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>", "<|tool▁call▁begin|>", "<|tool▁calls▁begin|>",
    "<｜tool_call_begin｜>", "<｜tool_calls_begin｜>", "<|python_start|>", "<|action_start|>", "<|start_action|>",
    "<|tools_prefix|>", "[tool_calls]", "[tool_call]", "<|channel|>commentary to=", "<|start|>assistant to=",
    "commentary to=functions.", "to=functions.",
    *(f"<{sign}{tag}" for sign in _DSML for tag in ("tool_calls>", "function_calls>", "invoke name=")),
)  # fmt: skip
"""What opens a call in a text, in lower case."""
_UNSURE_MARKS = ("<tools>", "<tool_code>", "```tool_code", "functools[")
"""What does so only where the name of a tool follows."""
_LITERAL_MARKS = (*CALL_MARKS, *_UNSURE_MARKS)
_NAME = r"[\w.:/-]+"
_BEGINS = r"(?<![\w.:/-])"
_MARK = re.compile(
    "|".join(map(re.escape, _LITERAL_MARKS))
    + rf"|{_BEGINS}{_NAME}\[ARGS\]\s*+(?=\{{)|{_BEGINS}functions\.{_NAME}:\d++\s*+(?=\{{)",
    re.IGNORECASE,
)
_ATTEMPT = re.compile(
    r"[{(]|<[^\s>]{0,12}(?:parameter|invoke)\b|<\w*arg_key|\A\s*\Z|\A\s*[\w.:/-]+\s*</", re.IGNORECASE
)
_LANGUAGE = re.compile(r"[\w-]*+\s*+")
_KEYS = frozenset(
    ("name", "arguments", "parameters", "args", "input", "type", "id", "function", "tool", "tool_name", "tool_input",
     "tool_call_id", "action", "action_input")
)  # fmt: skip
_CALL_KEYS = "|".join((*sorted(_KEYS), "tool_calls", "function_call"))
_MAY_BE_CALL = re.compile(
    rf'\s*(?:```[\w-]*\s*)?(?:\Z|\[[\w.]+(?:\Z|\()|[\[{{][\[{{\s]*(?:\Z|"(?:\Z|(?:{_CALL_KEYS})(?:\Z|"))|"[a-z_]*\Z))|\s*`{{1,2}}\Z'
)
"""The beginning of a text that may turn out to be the JSON of a call."""
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Markup:
    """What a text with markup comes to: the text before it, and the calls, or why they cannot be read."""

    before: str
    calls: tuple[MarkedCall, ...] = ()
    why: str = ""


def begins_json(text: str) -> bool:
    """Whether a text may turn out to be the JSON of a call, as far as it has arrived."""
    return bool(_MAY_BE_CALL.match(text))


def find_mark(text: str, start: int = 0) -> int:
    """Where markup begins that is not quoted; the length of the text less what may begin one if there is none."""
    for mark in _MARK.finditer(text, start):
        if not _is_quoted(text, mark.start()):
            return mark.start()
    begun = begun_mark(text, _LITERAL_MARKS)
    place = len(text) - begun
    return place if begun > 2 or not text[place : place + 1].isalpha() else len(text)


def _is_quoted(text: str, place: int) -> bool:
    """Whether a place is in code or behind a quotation mark; code that is all of the text quotes nothing."""
    before = text[:place]
    if before[-1:] in ("`", '"', "'", "“", "「", "‘"):
        return True
    line = before.rpartition("\n")[2]
    if before.count("```") % 2:
        return not before.lstrip().startswith("```") or before.count("```") > 1
    return line.replace("```", "").count("`") % 2 == 1


def read_markup(text: str, tools: Schemas) -> Markup | None:
    """Read the calls of a text; None where it holds none and is only a text."""
    place = find_mark(text)
    mark = _MARK.match(text, place)
    if mark is None:
        return _read_bare(text, tools)
    before, marked = text[:place], text[place:]
    begins_line = not before.rpartition("\n")[2].strip() and mark[0].lower() not in _UNSURE_MARKS
    names_tool = any(name in marked[:200] for name in tools)
    if not _ATTEMPT.search(text[mark.end() :]) or not (begins_line or names_tool):
        return None
    before = before.removesuffix("assistant").rstrip()
    before = "" if before.lstrip().startswith("```") else before
    try:
        return Markup(before, tuple(_known(call, tools) for call in _calls(marked, tools)))
    except (ValueError, RecursionError) as error:
        return Markup(before, why=str(error))


def _read_bare(text: str, tools: Schemas) -> Markup | None:
    """The calls of a text that is JSON, or a list of calls as Python writes them; beside other text, nothing is run."""
    inner = _without_fence(_RESIDUE.sub("", text).strip())
    for begin in [0, *(line.end() for line in islice(_LINE_OF_JSON.finditer(inner), _MOST_LINES))]:
        try:
            calls, rest = _bare_calls(inner[begin:], tools)
        except (ValueError, RecursionError):
            continue
        if not any(offered_name(call.name, tools) in tools for call in calls) or (begin and _is_quoted(inner, begin)):
            continue
        if begin or rest:
            return Markup(inner[:begin].rstrip(), why="other text stands beside it")
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
    """The calls that a text begins with, and the rest of the text."""
    if not text.startswith(("{", "[")):
        return (), text
    if calls := _in_python(text, tools):
        return calls, ""
    values, rest = _values(text)
    return [call for value in values for call in _in_json(value, bare=True)], rest


def _without_fence(text: str) -> str:
    """What is in a fenced block that is all of a text; else the text."""
    if not (text.startswith("```") and text.endswith("```")):
        return text
    language, _, inner = text[3:-3].partition("\n")
    return inner.strip() if _LANGUAGE.fullmatch(language) else text


def _values(text: str) -> tuple[list[Any], str]:
    """The JSON values that a text begins with, separated by spaces, commas or semicolons, and what follows them."""
    values: list[Any] = []
    place = 0
    while place < len(text) and (not values or text[place] in "{["):
        value, place = _DECODER.raw_decode(text, place)
        values.append(value)
        while place < len(text) and text[place] in " \t\r\n,;":
            place += 1
    return values, text[place:]


def _known(call: MarkedCall, tools: Schemas) -> MarkedCall:
    name = offered_name(call.name, tools)
    if name not in tools:
        raise ValueError(f"there is no tool {call.name[:100]!r}; use one of {', '.join([*tools][:30])}")
    return MarkedCall(name, call.arguments)


_DSML_SIGN = r"[|｜‖]{1,2}"
_PREFIX = rf"(?:[a-z]+:|{_DSML_SIGN}DSML{_DSML_SIGN})?"
_SEP = r"(?:<[|｜]tool[▁_]sep[|｜]>\s*+)"
_FORMS = re.compile(
    rf"<{_PREFIX}invoke\s+name=[\"'](?P<invoke>[^<>\"']+)[\"'][^<>]*>(?P<invoked>.*?)(?:</{_PREFIX}invoke>|\Z)"
    rf"|<function=(?P<function>[^<>\s]+)>(?P<body>.*?)(?:</function>|(?=<function=)|\Z)"
    rf"|<\w*tool_call>\s*+(?P<keyed>{_NAME})\s*+(?P<pairs><\w*arg_key>.*?|)(?:</\w*tool_call>|\Z)"
    rf"|<[|｜]tool[▁_]call[▁_]begin[|｜]>\s*+(?:function\s*+{_SEP})?(?P<deepseek>{_NAME})\s*+{_SEP}?"
    rf"(?:```\w*+\s*+)?(?=\{{)"
    rf"|<\w*tool_call>\s*+(?P<fenced>{_NAME})\s*+(?:```\w*+\s*+)?(?=\{{)"
    rf"|(?:<\|tool_call_begin\|>\s*+|{_BEGINS}(?=functions\.{_NAME}:\d))(?P<kimi>{_NAME})\s*+"
    rf"(?:<\|tool_call_argument_begin\|>\s*+)?(?=\{{)"
    rf"|\bto=(?P<harmony>{_NAME})[^{{}}]{{0,80}}(?=\{{)"
    rf"|\[TOOL_CALLS\]\s*+(?P<mistral>{_NAME})\s*+(?:\[CALL_ID\]\s*+\w++\s*+)?(?:\[ARGS\]\s*+)?(?=\{{)"
    rf"|{_BEGINS}(?P<args>{_NAME})\[ARGS\]\s*+(?=\{{)"
    rf"|\bcall:(?P<gemma>{_NAME})\s*+(?P<braces>\{{.*?)(?:<tool_call\|>|<end_function_call>|\Z)"
    rf"|(?P<json>(?!\[TOOL_CALLS?\])[\[{{])",
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


def _calls(marked: str, tools: Schemas) -> Sequence[MarkedCall]:
    """The calls of a text that begins with a mark."""
    if written := _in_python(marked, tools):
        return written
    calls: list[MarkedCall] = []
    place = 0
    while form := _FORMS.search(marked, place):
        kind = next(name for name in form.groupdict() if form[name] is not None)
        place = form.end()
        if kind in _NAMED_JSON:
            arguments, place = _DECODER.raw_decode(marked, form.end())
            calls.append(MarkedCall(form[kind], _object(arguments)))
        elif kind == "json":
            if calls and "[TOOL_RESULT" in marked[: form.start()].upper():
                break
            value, place = _DECODER.raw_decode(marked, form.start())
            found = _in_json(value)
            if not found and not calls:
                raise ValueError("its JSON names no tool")
            calls += found
        elif kind == "keyed":
            calls.append(_of_tags(form["keyed"], _PAIR, form["pairs"], tools))
        elif kind == "gemma":
            calls.append(MarkedCall(form[kind], _in_gemma(form["braces"])))
        else:
            body = form["invoked" if kind == "invoke" else "body"]
            if body.strip().startswith("{"):
                calls.append(MarkedCall(form[kind], _object(_DECODER.raw_decode(body.strip())[0])))
            else:
                calls.append(_of_tags(form[kind], _PARAMETER, body, tools))
    if not calls:
        raise ValueError("it names no tool")
    return calls


_CODE = re.compile(
    r"(?:<[^<>]*>|```\w*|\s)*+(?P<code>(?:\w+\s*=\s*)?(?:\[\s*)?[A-Za-z_][\w.]*\(.*\)\s*+\]?)"
    r"(?:<[^<>]*>|```|\s)*+\Z",
    re.DOTALL,
)
_CONSTANTS = {"true": True, "false": False, "null": None}


def _in_python(text: str, tools: Schemas) -> Sequence[MarkedCall]:
    """The calls of a text that is Python's calls of tools and nothing else; none where it is something else."""
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
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return ()


def _of_node(node: Any, tools: Schemas) -> MarkedCall:
    """The call that an expression is; what is printed counts."""
    if not isinstance(node, ast.Call):
        raise ValueError("it is no call")
    name = ast.unparse(node.func).removesuffix(".call")
    if name == "print" and len(node.args) == 1:
        return _of_node(node.args[0], tools)
    schema = tools.get(offered_name(name, tools))
    if schema is None:
        raise ValueError("it is no call of a tool")
    given: dict[str, ast.expr] = dict(zip(schema.get("properties") or {}, node.args, strict=False))
    given |= {str(keyword.arg): keyword.value for keyword in node.keywords}
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        is_constant = isinstance(value, ast.Name) and value.id in _CONSTANTS
        arguments[key] = _CONSTANTS[ast.unparse(value)] if is_constant else ast.literal_eval(value)
    return MarkedCall(name, json.loads(json.dumps(arguments)))


_GEMMA_QUOTE = re.compile(r'<\|"\|>|<escape>')
_BARE_KEY = re.compile(r"(?<=[{,])\s*+([A-Za-z_]\w*+)\s*+:")


def _in_gemma(text: str) -> Mapping[str, Any]:
    """The arguments that Gemma wrote: an object whose keys are bare and whose texts stand between marks."""
    parts = _GEMMA_QUOTE.split(text)
    parts[::2] = [_BARE_KEY.sub(r'"\1":', part) for part in parts[::2]]
    parts[1::2] = map(json.dumps, parts[1::2])
    return _object(_DECODER.raw_decode("".join(parts))[0])


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
    """The calls that a JSON value describes; none where it is something else."""
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
