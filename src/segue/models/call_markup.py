"""Tool calls that a model wrote into its text, in the markup of its family, as its endpoint did not read them.

Markup that is quoted, in code or in quotation marks, is text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.decision import MarkedCall, begun_mark, offered_name
from ..core.json import schema_kinds

Schemas = Mapping[str, Mapping[str, Any]]
"""The parameters of the offered tools, as JSON schemas, by the tools' names."""

MARKS = (
    "<tool_call>", "<tool_calls>", "<function_call>", "<function_calls>", "<minimax:tool_call>", "<tool_use>",
    "<toolcall>", "<function=", "<invoke name=", "<｜dsml｜function_calls>", "<｜dsml｜invoke name=",
    "<" + "antml:function_calls>", "<" + "antml:invoke name=", "<|python_tag|>", "<|tool_call|>", "<|tool_calls|>",
    "<|tool_call>", "<|tool_call_begin|>", "<|tool_calls_section_begin|>", "<|tool_call_start|>",
    "<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>", "[tool_calls]", "[tool_call]",
    "<|channel|>commentary to=", "<|start|>assistant to=", "commentary to=functions.",
)  # fmt: skip
"""What opens a call in a text, in lower case."""
_MARK = re.compile("|".join(map(re.escape, MARKS)), re.IGNORECASE)
_ATTEMPT = re.compile(r"[{(]|<[^\s>]{0,12}(?:parameter|invoke)\b|<arg_key|\A\s*\Z", re.IGNORECASE)
_LANGUAGE = re.compile(r"[\w-]*+\s*+")
_KEYS = frozenset(
    ("name", "arguments", "parameters", "args", "input", "type", "id", "function", "tool", "tool_name", "tool_input")
)
_CALL_KEYS = "|".join((*sorted(_KEYS), "tool_calls", "function_call"))
_MAY_BE_CALL = re.compile(
    rf'\s*(?:```[\w-]*\s*)?(?:\Z|[\[{{][\[{{\s]*(?:\Z|"(?:\Z|(?:{_CALL_KEYS})(?:\Z|"))|"[a-z_]*\Z))|\s*`{{1,2}}\Z'
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
    begun = begun_mark(text, MARKS)
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
    if _MARK.match(text, place) is None:
        return _read_bare(text, tools)
    before, marked = text[:place], text[place:]
    mark = _MARK.match(marked)
    rest = marked[mark.end() if mark else 0 :]
    begins_line = not before.rpartition("\n")[2].strip()
    names_tool = any(name in rest[:200] for name in tools)
    if not _ATTEMPT.search(rest) or not (begins_line or names_tool):
        return None
    before = before.removesuffix("assistant").rstrip()
    before = "" if before.lstrip().startswith("```") else before
    try:
        return Markup(before, tuple(_known(call, tools) for call in _calls(marked, tools)))
    except (ValueError, RecursionError) as error:
        return Markup(before, why=str(error))


def _read_bare(text: str, tools: Schemas) -> Markup | None:
    """The calls of a text that is JSON and nothing else, or a list of calls as Python writes them."""
    inner = _without_fence(text.strip())
    if not inner.startswith(("{", "[")):
        return None
    try:
        calls = [call for value in _values(inner) for call in _in_json(value, bare=True)]
    except (ValueError, RecursionError):
        return None
    named = [offered_name(call.name, tools) for call in calls]
    if not calls or not any(name in tools for name in named):
        return None
    try:
        return Markup("", tuple(_known(call, tools) for call in calls))
    except ValueError as error:
        return Markup("", why=str(error))


def _without_fence(text: str) -> str:
    """What is in a fenced block that is all of a text; else the text."""
    if not (text.startswith("```") and text.endswith("```")):
        return text
    language, _, inner = text[3:-3].partition("\n")
    return inner.strip() if _LANGUAGE.fullmatch(language) else text


def _values(text: str) -> Iterator[Any]:
    """All JSON values of a text that holds nothing else; separated by spaces, commas or semicolons."""
    place = 0
    while place < len(text):
        value, place = _DECODER.raw_decode(text, place)
        yield value
        while place < len(text) and text[place] in " \t\r\n,;":
            place += 1


def _known(call: MarkedCall, tools: Schemas) -> MarkedCall:
    name = offered_name(call.name, tools)
    if name not in tools:
        raise ValueError(f"there is no tool {call.name[:100]!r}; use one of {', '.join([*tools][:30])}")
    return MarkedCall(name, call.arguments)


_NAME = r"[\w.:/-]+"
_PREFIX = r"(?:[a-z]+:|｜DSML｜)?"
_FORMS = re.compile(
    rf"<{_PREFIX}invoke\s+name=[\"'](?P<invoke>[^<>\"']+)[\"'][^<>]*>(?P<invoked>.*?)(?:</{_PREFIX}invoke>|\Z)"
    rf"|<function=(?P<function>[^<>\s]+)>(?P<body>.*?)(?:</function>|(?=<function=)|\Z)"
    rf"|<tool_call>\s*+(?P<keyed>{_NAME})\s*+(?P<pairs><arg_key>.*?)(?:</tool_call>|\Z)"
    rf"|<｜tool▁call▁begin｜>\s*+(?:function\s*+<｜tool▁sep｜>\s*+)?(?P<deepseek>{_NAME})\s*+"
    rf"(?:<｜tool▁sep｜>\s*+)?(?:```\w*+\s*+)?"
    rf"|<\|tool_call_begin\|>\s*+(?P<kimi>{_NAME})\s*+<\|tool_call_argument_begin\|>\s*+"
    rf"|\bto=(?P<harmony>{_NAME})[^{{}}]{{0,80}}(?=\{{)"
    rf"|\[TOOL_CALLS\]\s*+(?P<mistral>{_NAME})\s*+(?:\[ARGS\]\s*+)?(?=\{{)"
    rf"|(?P<json>(?!\[TOOL_CALLS?\])[\[{{])",
    re.DOTALL,
)
_NAMED_JSON = ("deepseek", "kimi", "harmony", "mistral")
_PARAMETER = re.compile(
    rf"<{_PREFIX}parameter(?:=|\s+name=)[\"']?(?P<name>[^<>\"'\s]++)[\"']?(?:\s[^<>]*+)?>(?P<value>.*?)"
    rf"(?:</{_PREFIX}parameter>|(?=<{_PREFIX}parameter)|\Z)",
    re.DOTALL,
)
_PAIR = re.compile(r"<arg_key>(?P<name>[^<]*+)</arg_key>\s*+<arg_value>(?P<value>.*?)(?:</arg_value>|\Z)", re.DOTALL)


def _calls(marked: str, tools: Schemas) -> list[MarkedCall]:
    """The calls of a text that begins with a mark.

    Raises:
        ValueError: one of them is broken, or there is none.
    """
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
        else:
            body = form["invoked" if kind == "invoke" else "body"]
            if body.strip().startswith("{"):
                calls.append(MarkedCall(form[kind], _object(_DECODER.raw_decode(body.strip())[0])))
            else:
                calls.append(_of_tags(form[kind], _PARAMETER, body, tools))
    if not calls:
        raise ValueError("it names no tool")
    return calls


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
    named = (function.get(key) for key in ("name", "function", "tool", "tool_name"))
    names = [each for each in named if isinstance(each, str) and each]
    given = [function[key] for key in ("arguments", "parameters", "args", "input", "tool_input") if key in function]
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
