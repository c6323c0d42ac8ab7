"""Where the arguments of a call come from, as a person reads it."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from ...core.provenance import Source
from ...prompts.catalogue import sentence
from .sanitize import one_line


def origin_line(call: Mapping[str, Any], argument: str, language: str) -> Text | None:
    """What an argument of a question came from; None where the question does not say."""
    found = [Source.of(source) for source in call.get("sources", {}).get(argument, ())]
    if not found:
        return None
    others = [_named(source, language) for source in found if not source.trusted]
    if not others:
        names = dict.fromkeys(_named(source, language) for source in found)
        return Text(sentence("from_trusted", language, source=_listed(names, language)), style="dim")
    mixed = any(source.kind == "user" and source.trusted for source in found)
    name = "from_others_too" if mixed else "from_others"
    return Text(sentence(name, language, source=_listed(dict.fromkeys(others), language)), style="red")


def flow_line(call: Mapping[str, Any], language: str) -> str:
    """The choice to allow what flows where in a call always."""
    arguments = _listed(dict.fromkeys(one_line(name) for name in call["doubted"]), language)
    found = [Source.of(source) for name in call["doubted"] for source in call["sources"][name]]
    names = dict.fromkeys(sentence(_flow_name(of), language, name=one_line(of.name)) for of in found if not of.trusted)
    return sentence("choose_flow", language, arguments=arguments, source=_listed(names, language))


def _flow_name(source: Source) -> str:
    """The sentence for a source whichever of its calls it is."""
    kind = {"user": "imported", "tool": "any_tool", "mcp": "any_tool"}.get(source.kind, source.kind)
    return f"source_{kind.replace('-', '_')}"


def _named(source: Source, language: str) -> str:
    name = {"user": "imported", "tool": "tool", "mcp": "tool"}.get(source.kind, source.kind)
    if source.kind == "user" and source.trusted:
        name = "user"
    if name == "tool" and not source.call:
        name = "tool_before"
    return sentence(f"source_{name.replace('-', '_')}", language, name=one_line(source.name), call=source.call)


def _listed(names: Mapping[str, None], language: str) -> str:
    return ("、" if language == "zh" else ", ").join(names)
