"""Workflows from other notations: PDL, which is YAML with a procedure as code, and Mermaid flowcharts."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import ValidationError

from ...core.errors import ConfigurationError, InvalidWorkflow
from ...core.records import Json
from ...prompts.catalogue import language_of, rehearsal_text
from .participants import Document, read_document
from .workflow import Workflow

_FLOWCHARTS, _PDLS = (".mmd", ".mermaid"), (".yaml", ".yml")
_LONGEST = 4_000
"""Characters of a line."""
_MOST_LINES = 1_000
"""Lines of a procedure."""
_MOST_NODES, _MOST_ARROWS = 200, 400
_TOO_LONG = "a line has at most {n} characters"


@dataclass(frozen=True)
class Converted:
    """A workflow's file in YAML, and what of the original it does not say."""

    text: str
    warnings: tuple[str, ...] = ()


def convert_file(path: Path) -> Converted:
    """Convert a file: `.mmd` and `.mermaid` are flowcharts, `.yaml` and `.yml` PDL.

    Raises:
        InvalidWorkflow: it cannot be read or converted, with the line.
        ConfigurationError: its name says neither.
    """
    if path.suffix not in (*_FLOWCHARTS, *_PDLS):
        return convert_text(path.name, "")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidWorkflow(path.name, 1, "", "the file cannot be read ({error})", error=error) from None
    return convert_text(path.name, text)


def convert_text(name: str, text: str) -> Converted:
    """As `convert_file`, for a text and the name of its file; there need be no such file."""
    path = Path(Path(name).name or "workflow")
    text = text.removeprefix("\ufeff").encode(errors="replace").decode()
    if path.suffix in _FLOWCHARTS:
        return _Flowchart(path.name, text).convert()
    if path.suffix in _PDLS:
        return _Pdl(read_document(path, text)).convert()
    raise ConfigurationError(
        "The file {file} cannot be converted: name a PDL file (.yaml) or a Mermaid flowchart (.mmd).", file=path.name
    )


@dataclass
class _Parts:
    """What a workflow is made of."""

    name: str
    description: str
    language: str
    slots: dict[str, Json] = field(default_factory=dict)
    apis: dict[str, Json] = field(default_factory=dict)
    procedure: list[Json] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def ask(self, name: str, description: str, **more: Any) -> None:
        """Add a slot that is asked for by its description."""
        question = rehearsal_text("asks_for", self.language, what=description)
        self.slots[name] = {"description": description, "ask": more.pop("ask", question), **more}

    def step(self, kind: str, name: str, description: str, when: Mapping[str, Any], **more: Any) -> None:
        """Add a step under a name that no other has."""
        names = {step["name"] for step in self.procedure}
        unique = next(n for n in (f"{kind}_{name}{i or ''}" for i in range(len(names) + 1)) if n not in names)
        conditions = {"when": {reference: _single(value) for reference, value in when.items()}} if when else {}
        self.procedure.append({"name": unique, "description": description, **conditions, **more})

    def convert(self, file: str) -> Converted:
        """The file; what does not fit together is named.

        Raises:
            InvalidWorkflow.
        """
        for required in ("closing", "failed"):
            self.answers.setdefault(required, rehearsal_text(f"answers_{required}", self.language, error="{error}"))
        names = ("name", "description", "language", "slots", "apis", "procedure", "answers")
        values: Json = {name: getattr(self, name) for name in names}
        try:
            workflow = Workflow.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            at, problem = ".".join(map(str, first["loc"])), first["msg"]
            raise InvalidWorkflow(file, 1, at, "{problem}", problem=problem) from None
        for place, reason, about in workflow.faults():
            raise InvalidWorkflow(file, 1, ".".join(map(str, place)), reason, **about)
        text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=120)
        return Converted(text, tuple(self.warnings))


def _single(value: Any) -> Any:
    """One value for a list of one; of others a copy."""
    return (value[0] if len(value) == 1 else [*value]) if isinstance(value, list) else value


def _slug(text: str, default: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if re.match(r"[a-z]", name) else default


# PDL: the fields of a YAML document, and a procedure in lines of code.

_KEYS = {
    "name": ("name",),
    "description": ("desc", "description", "detailed_desc", "desc_detail"),
    "slots": ("slots",),
    "apis": ("apis",),
    "answers": ("answers", "responses"),
    "procedure": ("pdl", "procedure", "code"),
}
_STATEMENT = re.compile(
    r"(?:\[?(?P<out>\w+(?: ?, ?\w+)*)\]? ?= ?)?(?P<kind>API|ANSWER|RESPONSE|SLOT)[.:](?P<name>\w+) ?\((?P<args>.*)\)$"
)
_BLOCK = re.compile(r"(?P<kind>if|elif|while) (?P<test>.+):$|(?P<other>else) ?:$")
_IGNORED = re.compile(r"(?:break|continue|pass|return\b.*)$")
_TEST = re.compile(
    r"(?:not\s+(?P<no>\w+)|(?P<none>\w+)\s+is\s+(?P<isnt>not\s+)?None|(?P<one>\w+)\s*==\s*(?P<value>.+)"
    r"|(?P<many>\w+)\s+in\s+(?P<values>[\[(].*[\])])|(?P<yes>\w+))$"
)
Conditions = dict[str, Any]


class _Pdl:
    def __init__(self, document: Document) -> None:
        self._document = document
        given = document.value if isinstance(document.value, Mapping) else {}
        self._given = {str(key).lower(): (str(key), value) for key, value in given.items()}
        text = " ".join(str(value) for _, value in self._given.values())
        name = _slug(str(self._value("name", "")), "workflow")
        description = str(self._value("description", "")) or str(self._value("name", name))
        self._parts = _Parts(name, description, language_of(text))
        self._outputs: dict[str, str] = {}
        """The results of APIs that the procedure names, as references."""

    def _value(self, name: str, default: Any) -> Any:
        return next((self._given[key][1] for key in _KEYS[name] if key in self._given), default)

    def _key(self, name: str) -> str:
        return next((self._given[key][0] for key in _KEYS[name] if key in self._given), name)

    def convert(self) -> Converted:
        """The workflow's file.

        Raises:
            InvalidWorkflow: with the line of the first fault.
        """
        for _, item in self._items("slots"):
            self._parts.ask(str(item["name"]), str(item.get("desc") or item.get("description") or item["name"]))
        for place, item in self._items("apis"):
            self._add_api(place, item)
        for _, item in self._items("answers"):
            self._parts.answers[str(item["name"])] = str(item.get("desc") or item.get("description") or item["name"])
        code = self._value("procedure", "")
        if not isinstance(code, str) or not code.strip():
            raise self._document.fault((self._key("procedure"),), "should be the procedure as lines of code")
        if len(code.splitlines()) > _MOST_LINES:
            reason = "a procedure has at most {n} lines"
            raise self._document.fault((self._key("procedure"),), reason, n=_MOST_LINES)
        self._read(code, self._document.line((self._key("procedure"),)))
        return self._parts.convert(self._document.file)

    def _items(self, name: str) -> Iterator[tuple[int, Json]]:
        given = self._value(name, [])
        if not isinstance(given, list):
            raise self._document.fault((self._key(name),), "should be a list")
        for place, item in enumerate(given):
            if not isinstance(item, dict) or not item.get("name"):
                raise self._document.fault((self._key(name), place), "should have a name")
            yield place, item

    def _add_api(self, place: int, item: Json) -> None:
        asked = [each.get("name") if isinstance(each, dict) else each for each in self._list(place, item, "request")]
        key = "precondition" if item.get("precondition") else "preconditions"
        needs = [item[key]] if isinstance(item.get(key), str) else self._list(place, item, key)
        properties = {str(name): {"type": "string"} for name in asked}
        self._parts.apis[str(item["name"])] = {
            "description": str(item.get("desc") or item.get("description") or item["name"]),
            "parameters": {"type": "object", "properties": properties, "required": [*properties]},
            "requires": [str(each) for each in needs if each],
        }

    def _list(self, place: int, item: Json, key: str) -> list[Any]:
        given = item.get(key)
        if not isinstance(given, list | None):
            raise self._document.fault((self._key("apis"), place, key), "should be a list")
        return given or []

    def _read(self, code: str, line: int) -> None:
        """Add a step for each statement; `line` is that of the field."""
        blocks: list[tuple[int, Conditions]] = []
        closed: dict[int, list[Conditions]] = {}
        for number, raw in enumerate(code.splitlines(), start=line + 1):
            text = " ".join(raw.split(" #")[0].split())
            if len(text) > _LONGEST:
                self._fail(number, _TOO_LONG, n=_LONGEST)
            if not text or text.startswith("#") or _IGNORED.match(text):
                continue
            indent = len(raw) - len(raw.lstrip())
            while blocks and blocks[-1][0] >= indent:
                blocks.pop()
            if opened := _BLOCK.match(text):
                blocks.append((indent, self._condition(opened, closed.setdefault(indent, []), number)))
            else:
                self._state(text, number, self._together([each for _, each in blocks], number))
            closed = {place: tests for place, tests in closed.items() if place <= indent}
            if not opened:
                closed.pop(indent, None)

    def _condition(self, opened: "re.Match[str]", before: list[Conditions], number: int) -> Conditions:
        if opened["kind"] == "while":
            once = rehearsal_text("loop_once", self._parts.language, place=f"{self._document.file}:{number}")
            self._parts.warnings.append(once)
            before.clear()
            return {} if opened["test"].strip() in ("True", "1") else self._tests(opened["test"], number)
        earlier = {} if opened["kind"] == "if" else self._negated(before, number)
        if opened["kind"] == "if":
            before.clear()
        own = self._tests(opened["test"], number) if opened["kind"] else {}
        before.append(own)
        return self._together([{k: v for k, v in earlier.items() if k not in own}, own], number)

    def _negated(self, before: list[Conditions], number: int) -> Conditions:
        opposite = {True: False, False: True, "present": "missing", "missing": "present"}
        found: Conditions = {}
        for tests in before:
            for reference, value in tests.items():
                if len(tests) != 1 or isinstance(value, list) or value not in opposite:
                    self._fail(number, "'else' is unclear here: write its condition as 'if NAME == VALUE'")
                found[reference] = opposite[value]
        if not before:
            self._fail(number, "there is no 'if' before this")
        return found

    def _tests(self, text: str, number: int) -> Conditions:
        found: Conditions = {}
        for part in text.strip().split(" and "):
            test = _TEST.match(part.strip().strip("()") if part.count("(") == part.count(")") == 1 else part.strip())
            if test is None:
                self._fail(
                    number,
                    "the condition '{test}' cannot be converted: use NAME, not NAME, NAME == VALUE or NAME in [VALUES]",
                    test=part,
                )
            name = test["no"] or test["none"] or test["one"] or test["many"] or test["yes"]
            reference = self._reference(name, number)
            if test["one"] or test["many"]:
                value = self._literal(test["value"] or test["values"], number)
            elif reference in self._parts.slots or test["none"]:
                value = "missing" if test["no"] or (test["none"] and not test["isnt"]) else "present"
            else:
                value = not test["no"]
            found = self._together([found, {reference: list(value) if isinstance(value, tuple) else value}], number)
        return found

    def _literal(self, text: str, number: int) -> Any:
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = ...
        for each in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(each, str | int | float | None):
                self._fail(
                    number, "'{text}' is no value: write a text in quotation marks, a number, True or False", text=text
                )
        return value

    def _reference(self, name: str, number: int) -> str:
        if name in self._parts.slots:
            return name
        if name not in self._outputs:
            self._fail(number, "'{name}' is neither a slot nor the result of an API above", name=name)
        return self._outputs[name]

    def _together(self, tests: Sequence[Conditions], number: int) -> Conditions:
        found: Conditions = {}
        for each in tests:
            for reference, value in each.items():
                if reference in found and found[reference] != value:
                    self._fail(number, "'{name}' has two conditions here that exclude each other", name=reference)
                found[reference] = value
        return found

    def _state(self, text: str, number: int, when: Conditions) -> None:
        said = _STATEMENT.match(text)
        if said is None:
            self._fail(
                number,
                "'{text}' cannot be converted: use API.name(…), ANSWER.name(…), if, elif, else or while",
                text=text,
            )
        name = said["name"]
        arguments = re.findall(r"[\w.]+|'[^']*'|\"[^\"]*\"", said["args"])
        if said["kind"] == "API":
            return self._call(name, arguments, said["out"] or "", number, when)
        slots = [each for each in (argument.strip("'\"") for argument in arguments) if each in self._parts.slots]
        if name in self._parts.answers:
            self._parts.step("tell", name, self._parts.answers[name], when, answer=name)
        elif slots or (said["kind"] == "SLOT" and name in self._parts.slots):
            names = slots or [name]
            description = ", ".join(self._parts.slots[each]["description"] for each in names)
            self._parts.step("ask", names[0], description, when, collect=names)
        else:
            self._fail(number, "there is no answer '{name}', and no slot is asked for", name=name)
        return None

    def _call(self, name: str, arguments: Sequence[str], out: str, number: int, when: Conditions) -> None:
        if name not in self._parts.apis:
            self._fail(number, "there is no API '{name}'", name=name)
        api = self._parts.apis[name]
        parameters = [*api["parameters"]["properties"]]
        if len(arguments) > len(parameters):
            self._fail(number, "the API '{name}' has {n} parameters", name=name, n=len(parameters))
        given: Json = {}
        for parameter, argument in zip(parameters, arguments, strict=False):
            if re.match(r"['\"\d]", argument):
                given[parameter] = self._literal(argument, number)
            elif (reference := self._reference(argument, number)) != parameter:
                given[parameter] = f"{{{reference}}}"
        more: Json = {"arguments": given} if given else {}
        self._parts.step("call", name, api["description"], when, call=name, **more)
        self._outputs |= {each.strip(): f"{name}.{each.strip()}" for each in out.split(",") if each.strip()}

    def _fail(self, line: int, reason: str, **values: object) -> NoReturn:
        raise InvalidWorkflow(self._document.file, line, self._key("procedure"), reason, **values)


# Mermaid: a flowchart without loops, whose shapes say what a node is.

_HEAD = re.compile(r"(?:flowchart|graph)\b")
_SKIPPED = re.compile(r"(?:%%|subgraph\b|end$|style\b|classDef\b|class\b|click\b|linkStyle\b|direction\b|---$|title:)")
_NODE = re.compile(
    r"\s*(?P<id>\w+)\s*(?:\(\[(?P<end>[^\]]*)\]\)|\(\((?P<circle>[^)]*)\)\)|\[\[(?P<api>[^\]]*)\]\]"
    r"|\[/(?P<slot>[^\]]*?)/\]|\[(?P<box>[^\]]*)\]|\{(?P<decision>[^}]*)\}|\((?P<round>[^)]*)\))?\s*"
)
_EDGE = re.compile(r"(?:-- (?P<text>[^-|>]++)-->|-\.->|==>|-->|---)\s*(?:\|(?P<label>[^|]*)\|)?")
_SIGNATURE = re.compile(r"(?P<name>\w+)\s*(?:\((?P<args>[^)]*)\))?$")
_RESULT = re.compile(r"(?P<api>\w+)\.(?P<field>\w+)\s*\?*$")


@dataclass
class _Node:
    line: int
    kind: str = "box"
    text: str = ""


class _Flowchart:
    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._nodes: dict[str, _Node] = {}
        self._edges: list[tuple[str, str, str, int]] = []

    def convert(self) -> Converted:
        """The workflow's file.

        Raises:
            InvalidWorkflow: with the line of the first fault.
        """
        self._parse()
        order = self._order()
        name = _slug(self._file.partition(".")[0], "workflow")
        self._parts = _Parts(name, self._title or name.replace("_", " "), language_of(self._text))
        self._references: dict[str, str] = {}
        for node_id in order:
            self._declare(node_id, self._nodes[node_id])
        reached: dict[str, list[Conditions]] = {node_id: [] for node_id in order}
        reached[order[0]] = [{}]
        for node_id in order:
            when = self._simplified(reached[node_id], node_id)
            self._add(node_id, self._nodes[node_id], when)
            for source, target, label, line in self._edges:
                if source == node_id:
                    reached[target].append(self._through(node_id, when, label, line))
        return self._parts.convert(self._file)

    def _parse(self) -> None:
        self._title, begun = "", False
        for number, raw in enumerate(self._text.splitlines(), start=1):
            line = " ".join(raw.split()).rstrip(";")
            if len(line) > _LONGEST:
                self._fail(number, _TOO_LONG, n=_LONGEST)
            if line.startswith("title:"):
                self._title = line.removeprefix("title:").strip()
            if not line or _SKIPPED.match(line) or (not begun and line.startswith("```")):
                continue
            if not begun:
                if not _HEAD.match(line):
                    self._fail(number, "a flowchart begins with 'flowchart TD'")
                begun = True
            elif line.startswith("```"):
                break
            else:
                self._parse_line(line, number)
                if len(self._nodes) > _MOST_NODES or len(self._edges) > _MOST_ARROWS:
                    self._fail(
                        number,
                        "a flowchart has at most {nodes} nodes and {arrows} arrows: divide it into several",
                        nodes=_MOST_NODES,
                        arrows=_MOST_ARROWS,
                    )
        if not self._nodes:
            self._fail(1, "the flowchart has no nodes")

    def _parse_line(self, line: str, number: int) -> None:
        source, label, place = "", "", 0
        while True:
            found = _NODE.match(line, place)
            if found is None:
                self._fail(
                    number, "'{text}' is no node: write a name and its text, such as A[Hello]", text=line[place:]
                )
            self._note(found, number)
            if source:
                self._edges.append((source, found["id"], label, number))
            place = found.end()
            if place >= len(line):
                return
            edge = _EDGE.match(line, place)
            if edge is None:
                self._fail(number, "'{text}' is no arrow: write -->, or -->|label|", text=line[place:])
            source, label, place = found["id"], (edge["label"] or edge["text"] or "").strip().strip('"'), edge.end()

    def _note(self, found: "re.Match[str]", number: int) -> None:
        node = self._nodes.setdefault(found["id"], _Node(number))
        for kind in ("end", "circle", "api", "slot", "box", "decision", "round"):
            if found[kind] is not None:
                node.kind, node.text, node.line = kind, found[kind].strip().strip('"'), number

    def _order(self) -> list[str]:
        """The nodes, each behind those that lead to it; of those that could follow, the first in the file."""
        arrows = {(source, target) for source, target, _, _ in self._edges}
        waits = dict.fromkeys(self._nodes, 0)
        for _, target in arrows:
            waits[target] += 1
        starts = [node_id for node_id, count in waits.items() if not count]
        if len(starts) != 1:
            line = self._nodes[starts[1]].line if starts else 1
            self._fail(line, "a flowchart needs one node that no arrow leads to, and has {n}", n=len(starts))
        order: list[str] = []
        while waits:
            fresh = next((node_id for node_id, count in waits.items() if not count), None)
            if fresh is None:
                line = next(line for s, t, _, line in self._edges if s in waits and t in waits)
                self._fail(line, "the arrows lead in a circle, which a procedure cannot")
            order.append(fresh)
            del waits[fresh]
            for source, target in arrows:
                if source == fresh:
                    waits[target] -= 1
        return order

    def _declare(self, node_id: str, node: _Node) -> None:
        """Add the slot, API or answer that a node is."""
        text, parts = node.text or node_id, self._parts
        labels = [label for source, _, label, _ in self._edges if source == node_id]
        result = _RESULT.match(text)
        if node.kind == "decision" and result and result["api"] in parts.apis:
            self._references[node_id] = f"{result['api']}.{result['field']}"
        elif node.kind == "decision":
            self._references[node_id] = node_id
            parts.ask(node_id, text, ask=text, choices={label: [label] for label in labels if label})
        elif node.kind == "slot":
            parts.ask(node_id, text)
        elif node.kind == "api":
            called = _SIGNATURE.match(text)
            if called is None:
                self._fail(
                    node.line, "'{text}' is no call: write a name and slots, such as find_order(order)", text=text
                )
            names = [each.strip() for each in (called["args"] or "").split(",") if each.strip()]
            schema = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": names}
            if unknown := [name for name in names if name not in parts.slots]:
                self._fail(node.line, "'{name}' is no slot above: write it as {name}[/what it is/]", name=unknown[0])
            parts.apis[called["name"]] = {"description": text, "parameters": schema}
        elif node.kind in ("box", "round"):
            parts.answers[node_id] = text.replace("{", "(").replace("}", ")")

    def _add(self, node_id: str, node: _Node, when: Conditions) -> None:
        text = node.text or node_id
        if node.kind == "api":
            called = _SIGNATURE.match(text)
            assert called
            self._parts.step("call", called["name"], text, when, call=called["name"])
        elif node.kind == "slot" or self._references.get(node_id) == node_id:
            self._parts.step("ask", node_id, text, when, collect=[node_id])
        elif node.kind in ("box", "round"):
            self._parts.step("tell", node_id, text, when, answer=node_id)

    def _through(self, node_id: str, when: Conditions, label: str, line: int) -> Conditions:
        if node_id not in self._references:
            return when
        if not label:
            self._fail(line, "an arrow from a decision needs a label, such as -->|yes|")
        value = {"true": True, "false": False}.get(label.lower(), label)
        is_slot = self._references[node_id] == node_id
        return {**when, self._references[node_id]: [label if is_slot else value]}

    def _simplified(self, reached: list[Conditions], node_id: str) -> Conditions:
        """One condition for all ways to a node; ways that differ in one decision are joined."""
        ways: list[Conditions] = []
        for each in reached:
            way, joined = each, True
            while joined:
                pairs = ((place, self._join(way, other)) for place, other in enumerate(ways))
                place, found = next((pair for pair in pairs if pair[1] is not None), (0, None))
                if joined := found is not None:
                    way = found
                    del ways[place]
            ways.append(way)
        if len(ways) > 1:
            self._fail(
                self._nodes[node_id].line,
                "the ways to the node {name} differ in more than one decision: repeat the node on each way",
                name=node_id,
            )
        return ways[0] if ways else {}

    def _join(self, one: Conditions, other: Conditions) -> Conditions | None:
        if one == other:
            return one
        differing = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        if len(differing) != 1 or differing[0] not in one or differing[0] not in other:
            return None
        name = differing[0]
        values = [*dict.fromkeys([*one[name], *other[name]])]
        node_id = next(node for node, reference in self._references.items() if reference == name)
        every = sum(source == node_id for source, _, _, _ in self._edges)
        rest = {key: value for key, value in one.items() if key != name}
        return rest if len(values) == every else {**rest, name: values}

    def _fail(self, line: int, reason: str, **values: object) -> NoReturn:
        raise InvalidWorkflow(self._file, line, "", reason, **values)
