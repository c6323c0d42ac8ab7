"""The terminal and the page say the same of what a value came from."""

import json
import subprocess
from typing import Any

import pytest

from segue.cli.views.console import origin_line
from segue.server.app import PAGE
from tests.node import command

PROGRAM = """
const [language, page, cases] = process.argv.slice(1);
Object.defineProperty(globalThis, "navigator", { value: { language } });
globalThis.localStorage = { getItem: () => null, setItem() {}, removeItem() {} };
globalThis.document = {
  documentElement: { lang: "" },
  addEventListener() {},
  createElement: () => ({ style: {} }),
  head: { append: (link) => link.onload() },
};
globalThis.window = globalThis;
globalThis.addEventListener ??= () => {};
const { originOf } = await import(`${page}/components/argument-list.js`);
console.log(JSON.stringify(JSON.parse(cases).map((sources) => originOf(sources))));
"""


def source(kind: str, name: str = "", call: int = 0, trusted: bool = False) -> dict[str, Any]:
    return {"kind": kind, "name": name, "call": call, "trusted": trusted}


CASES = [
    [],
    [source("user", trusted=True)],
    [source("user")],
    [source("agent", trusted=True), source("user", trusted=True)],
    [source("tool", "read_mail", 3)],
    [source("tool", "read_mail")],
    [source("mcp", "search", 1), source("mcp", "search", 1), source("model")],
    [source("user", trusted=True), source("tool", "read_mail", 2)],
    [source("memory"), source("file", "notes {call}.txt"), source("agent-other", "clerk")],
    [source("tool", "contacts", 2, trusted=True)],
]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_terminal_and_page_say_the_same_of_sources(language: str) -> None:
    arguments = ("--input-type=module", "-e", PROGRAM, language, PAGE.as_uri(), json.dumps(CASES))
    said = json.loads(subprocess.run(command(*arguments), capture_output=True, check=True, text=True).stdout)
    calls = ({"sources": {"to": sources}} for sources in CASES)
    lines = [line.plain if (line := origin_line(call, "to", language)) else "" for call in calls]
    assert [text.replace("’", "'") for text in said] == lines
