"""Records of a recorded session, and their YAML file."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from ...core.errors import ConfigurationError
from ...core.records import Json

VERSION: Final = 1
"""The version of the format."""


def canonical(arguments: Mapping[str, Any]) -> str:
    """One text per value, whatever the order of its keys."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


class Record(BaseModel):
    """A part of a cassette."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FunctionCall(Record):
    """A function call as the model wrote it."""

    id: str
    name: str
    arguments: str


class Reply(Record):
    """What the model replied; `error` is how it refused.

    `streamed` says that text which calls follow was shown as the answer before they arrived.
    """

    reasoning: str = ""
    text: str = ""
    tool_calls: tuple[FunctionCall, ...] = ()
    finish_reason: str = ""
    streamed: bool = False
    error: str = ""


class ModelCall(Record):
    """A call of the model: the request with its digest, and the reply with its tokens.

    `at` is seconds of work since the task began. `request` is empty where the agent has changed since.
    """

    purpose: str
    model: str
    at: float
    digest: str
    request: str = ""
    reply: Reply
    input: int = 0
    output: int = 0


class ToolCall(Record):
    """A tool call with its outcome, {"success": value} or {"error": text}; None if the task was cancelled before."""

    name: str
    arguments: Json
    at: float
    outcome: Json | None = None

    @property
    def text(self) -> str:
        """The call on one line."""
        return f"{self.name}({canonical(self.arguments)})"


class TakenNotes(Record):
    """The first `count` notes reached the agent after so many model and tool calls."""

    count: int
    model_calls: int
    tool_calls: int


class Answer(Record):
    """A person's answer, and what they were asked: a question, or the calls to approve."""

    asked: str
    value: Json


def asked_of(question: Json) -> str:
    """What a person is asked, as a text: the question, or one line for each call."""
    calls = (ToolCall(name=call["name"], arguments=call["arguments"], at=0.0) for call in question.get("calls", ()))
    return str(question.get("question") or "\n".join(call.text for call in calls))


class Turn(Record):
    """A message and its task.

    `model` is one that took the place of the agent's own. `failure` is the error that ended a task without a result,
    `partial` what a cancelled one had streamed of its answer.
    """

    message: str
    task_id: str
    agent: str
    mode: str
    model: str = ""
    language: Literal["zh", "en", ""] = ""
    user: str = "default"
    created_at: float
    trace_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    taken_notes: tuple[TakenNotes, ...] = ()
    answers: tuple[Answer, ...] = ()
    permitted: tuple[str, ...] = ()
    """Tools that ran without a question, because a person had allowed them."""
    model_calls: tuple[ModelCall, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    status: Literal["done", "error", "cancelled"]
    answer: str = ""
    error: str = ""
    failure: str = ""
    partial: str = ""


class ServedTool(Record):
    """A tool of an MCP server as it was described: its specification in OpenAI's format, and its marks.

    `foreign`: nobody trusted the description.
    """

    spec: Json
    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False
    foreign: bool = False


class Cassette(Record):
    """A session. `messages` is its history in OpenAI's format, `served` the tools of each agent's MCP servers."""

    version: Literal[1] = VERSION
    session: str
    served: dict[str, tuple[ServedTool, ...]] = {}
    turns: tuple[Turn, ...]
    messages: tuple[dict[str, Any], ...]


_Edit = dict[str, Any]
"""{"line", "removed"?, "added"?}: what takes the place of lines, which count from 1 in the text before."""


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """Writes a text of several lines as a block."""


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def write_cassette(cassette: Cassette, path: str | Path) -> None:
    """Write the file, in place of an earlier one.

    Raises:
        ConfigurationError: it cannot be written; an earlier one is as it was.
    """
    file = Path(path)
    beside = file.with_name(f".{file.name}.new")
    try:
        with suppress(FileExistsError):  # a file, which writing tells of as "Not a directory"
            file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(dump(cassette), encoding="utf-8")
        os.replace(beside, file)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise ConfigurationError(
            "The cassette {file} cannot be written: {reason}.", file=path, reason=error.strerror or str(error)
        ) from error


def read_cassette(path: str | Path) -> Cassette:
    """Read a file that `write_cassette` wrote.

    Raises:
        ConfigurationError: it cannot be read, or is not a cassette of this version.
    """
    try:
        return load(Path(path).read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
    raise ConfigurationError(
        "The cassette {file} cannot be read: {reason}.",
        file=path,
        reason=reason,
    )


def dump(cassette: Cassette) -> str:
    """The cassette as YAML."""
    form = cassette.model_dump(mode="json", exclude_defaults=True)
    form = {"version": VERSION, **form}
    _each_request(form, _edits)
    return str(yaml.dump(form, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20))


def load(text: str) -> Cassette:
    """The cassette of a YAML text."""
    form = yaml.load(text, Loader=_Loader)
    if not isinstance(form, dict) or form.get("version") != VERSION:
        raise ValueError(f"it is not a cassette of version {VERSION}")
    _each_request(form, _edited)
    return Cassette.model_validate(form)


def _each_request(form: Json, convert: Callable[[str, Any], Any]) -> None:
    """Put each request in its other form; `convert` is also given the text of the last one of its purpose."""
    last: dict[str, str] = {}
    for turn in form["turns"]:
        for call in turn.get("model_calls", ()):
            if given := call.get("request"):
                call["request"] = convert(last.get(call["purpose"], ""), given)
                last[call["purpose"]] = given if isinstance(given, str) else call["request"]


def _edits(before: str, text: str) -> str | list[_Edit]:
    if not before:
        return text
    old, new = before.split("\n"), text.split("\n")
    found = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    edits = [(first, last - first, new[start:end]) for tag, first, last, start, end in found if tag != "equal"]
    return [
        {"line": first + 1, **({"removed": removed} if removed else {}), **({"added": added} if added else {})}
        for first, removed, added in edits
    ] or [{"line": 1}]


def _edited(before: str, given: str | list[_Edit]) -> str:
    if isinstance(given, str):
        return given
    lines = before.split("\n")
    for edit in reversed(given):
        first = edit["line"] - 1
        lines[first : first + edit.get("removed", 0)] = edit.get("added", ())
    return "\n".join(lines)
