"""Workflows from PDL and from Mermaid flowcharts, and the lines of what cannot be converted."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import segue
from segue.cli import app as command_line
from segue.core.errors import ConfigurationError, InvalidWorkflow
from segue.testing.rehearsal import ConversationConfig, Role, converse
from segue.testing.rehearsal.converter import convert_text
from tests.server.serving import Served

PDL = """Name: Library
Desc: Lend a book.
SLOTs:
- {name: title, desc: the title of the book}
- {name: member, desc: your member number}
APIs:
- {name: find_book, desc: Find a book., request: [title], response: [there]}
- {name: lend, desc: Lend it., request: [title, card], precondition: [find_book]}
ANSWERs:
- {name: gone, desc: It is not there.}
- {name: lent, desc: Here it is.}
PDL: |
  # the book first
  ANSWER.ask('title')
  [there] = API.find_book([title])
  if there == True:
      while True:
          API.lend(title, member)
          break
      ANSWER.lent()
  else:
      ANSWER.gone()
"""
CHART = """%% returns
flowchart TD
    start([Start]) --> order[/the order number/]
    order --> find[[find_order(order)]]
    find --> ok{find_order.delivered}
    ok -->|true| kind{Refund or exchange?}
    ok -->|false| wait[Please wait.]
    kind -- refund --> pay[[refund(order)]]
    kind -->|exchange| swap[[exchange(order)]]
    pay --> done[Your return is open.]
    swap --> done
    wait --> finish([End])
    done --> finish
"""


def steps(text: str) -> list[tuple[str, object]]:
    return [(step["name"], step.get("when")) for step in yaml.safe_load(text)["procedure"]]


def test_pdl_becomes_slots_calls_conditions_and_answers() -> None:
    found = convert_text("library.yaml", PDL)
    assert steps(found.text) == [
        ("ask_title", None),
        ("call_find_book", None),
        ("call_lend", {"find_book.there": True}),
        ("tell_lent", {"find_book.there": True}),
        ("tell_gone", {"find_book.there": False}),
    ]
    assert yaml.safe_load(found.text)["procedure"][2]["arguments"] == {"card": "{member}"}
    assert yaml.safe_load(found.text)["apis"]["lend"]["requires"] == ["find_book"]
    assert found.warnings == ("library.yaml:17: The loop was converted as one pass.",)


def test_a_flowchart_joins_the_ways_to_a_node() -> None:
    assert steps(convert_text("returns.mmd", CHART).text) == [
        ("ask_order", None),
        ("call_find_order", None),
        ("ask_kind", {"find_order.delivered": True}),
        ("tell_wait", {"find_order.delivered": False}),
        ("call_refund", {"find_order.delivered": True, "kind": "refund"}),
        ("call_exchange", {"find_order.delivered": True, "kind": "exchange"}),
        ("tell_done", {"find_order.delivered": True}),
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "line", "why"),
    [
        ("a.yaml", "API.lend(title, member)", "API.lose(title)", 18, "there is no API 'lose'"),
        ("a.yaml", "if there == True:", "if there == 1j:", 16, "'1j' is no value"),
        ("a.yaml", "if there == True:", "if there == ...:", 16, "'...' is no value"),
        ("a.yaml", "if there == True:", "if there > 3:", 16, "cannot be converted: use NAME"),
        ("a.yaml", "if there == True:", "if missing:", 16, "neither a slot nor the result"),
        ("a.yaml", "ANSWER.gone()", "ANSWER.nothing()", 22, "there is no answer 'nothing'"),
        ("a.yaml", "ANSWER.lent()", "lent!", 20, "'lent!' cannot be converted"),
        ("a.yaml", "if there == True:", "if there in ['a', 'b']:", 21, "'else' is unclear"),
        ("a.yaml", "- {name: gone,", "- {nom: gone,", 10, "should have a name"),
        ("a.mmd", "swap --> done", "done --> order", 4, "lead in a circle"),
        ("a.mmd", "ok -->|false| wait", "ok --> wait", 7, "needs a label"),
        ("a.mmd", "find_order(order)]]", "find_order(nobody)]]", 4, "'nobody' is no slot above"),
        ("a.mmd", "pay --> done", "pay ~~> done", 10, "is no arrow"),
        ("a.mmd", "flowchart TD", "pie", 2, "begins with 'flowchart TD'"),
        ("a.mmd", "wait --> finish([End])", "wait --> done\n    kind --> pay", 13, "needs a label"),
    ],
)
def test_a_fault_has_its_line(name: str, old: str, new: str, line: int, why: str) -> None:
    text = PDL if name.endswith("yaml") else CHART
    assert text.count(old) == 1
    with pytest.raises(InvalidWorkflow) as raised:
        convert_text(name, text.replace(old, new))
    assert why in str(raised.value) and f"{name}:{line}" in str(raised.value).replace(", line ", ":"), str(raised.value)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(60))
MANY_WAYS = "".join(f"q{n}{{q}} -->|a| q{n + 1}\nq{n} -->|b| r{n}[r] --> end_[x]\n" for n in range(300))


@pytest.mark.parametrize(
    ("name", "text", "line", "why"),
    [
        ("a.mmd", f"flowchart TD\nA --{' ' * 150_000}x", 2, "is no arrow"),
        ("a.mmd", f"flowchart TD\nA -- {' x' * 1_900}", 2, "is no arrow"),
        ("a.mmd", f"flowchart TD\nA[{'x' * 150_000}] --> B", 2, "at most 4000 characters"),
        ("a.mmd", "graph TD\n" + "".join(f"n{n} --> n{n + 1}\n" for n in range(12_000)), 201, "at most 200 nodes"),
        ("a.mmd", "graph TD\n" + "A[x] --> B[y]\n" * 10_000, 402, "400 arrows"),
        ("a.mmd", "graph TD\n" + MANY_WAYS, 200, "at most 200 nodes"),
        ("a.yaml", BOMB, 2, r"an alias (*a0) cannot be used"),
        ("a.yaml", "a: &a [*a]", 1, r"an alias (*a) cannot be used"),
        ("a.yaml", "a:\n- " + "[" * 100_000, 2, "nested 50 deep at most"),
        ("a.yaml", f"a: {'9' * 9_000}", 1, "not valid YAML"),
        ("a.yaml", "a: !!bool maybe", 1, "not valid YAML"),
        ("a.yaml", "a: !!timestamp maybe", 1, "not valid YAML"),
        ("a.yaml", PDL + "  ANSWER.gone()\n" * 9_000, 12, "a procedure has at most 1000 lines"),
        ("a.yaml", PDL + f"  if {'there and ' * 9_000}there:\n", 23, "at most 4000 characters"),
    ],
    ids=lambda given: str(given)[:20],
)
def test_a_text_that_would_take_long_is_refused_at_once(name: str, text: str, line: int, why: str) -> None:
    with pytest.raises(InvalidWorkflow) as raised:
        convert_text(name, text)
    assert why in str(raised.value) and f"{name}, line {line}" in str(raised.value), str(raised.value)[:200]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("request: [title], response", "request: 5, response", "APIs.0.request"),
        ("request: [title], response", "request: title, response", "APIs.0.request"),
        ("precondition: [find_book]", "precondition: 5", "APIs.1.precondition"),
        ("precondition: [find_book]", "preconditions: {a: b}", "APIs.1.preconditions"),
    ],
)
def test_what_should_be_a_list_is_named_with_its_line(old: str, new: str, field: str) -> None:
    with pytest.raises(InvalidWorkflow, match=rf"line [78], {field}: should be a list"):
        convert_text("a.yaml", PDL.replace(old, new))


def test_a_name_need_be_no_file_name() -> None:
    for name in ("a\0.mmd", "图" * 95 + ".mmd", "../" * 20 + "returns.mmd"):
        assert steps(convert_text(name, CHART).text) == steps(convert_text("returns.mmd", CHART).text)
    with Served() as served, served.client() as client:
        for name, why in (
            ("..", "cannot be converted"),
            ("a\0.mmd", "begins with"),
            ("图" * 95 + ".mmd", "begins with"),
        ):
            given = client.post("/api/workflows/import", json={"name": name, "text": "pie"})
            assert given.status_code in (400, 422) and why in given.text, given.text


def test_another_kind_of_file_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"name a PDL file \(.yaml\) or a Mermaid flowchart"):
        convert_text("a.txt", "x")


async def test_what_was_converted_can_be_rehearsed(tmp_path: Path) -> None:
    file = tmp_path / "greet.yaml"
    file.write_text(convert_text("greet.mmd", "graph LR\n a[/your name/] --> b[Welcome.]").text, encoding="utf-8")
    async with segue.open(":memory:") as app:
        who = {"user_mode": "scripted_user", "api_mode": "dummy_api", "script": ("Hello.", "Ann"), "controllers": ()}
        talk = await converse(app, ConversationConfig(workflow=str(file), **who))
    assert [each.text for each in talk.utterances if each.role is Role.BOT] == [
        "Please tell me: your name.",
        "Welcome.",
    ]


def test_it_is_converted_in_the_terminal_and_over_http(tmp_path: Path) -> None:
    file = tmp_path / "library.yaml"
    file.write_text(PDL, encoding="utf-8")
    shown = CliRunner().invoke(command_line, ["workflows", "--import", str(file)])
    assert shown.stdout == convert_text("library.yaml", PDL).text and "one pass" in shown.stderr
    with Served() as served, served.client() as client:
        body = {"name": "returns.mmd", "text": CHART}
        assert client.post("/api/workflows/import", json=body).json()["text"] == convert_text("returns.mmd", CHART).text
        wrong = client.post("/api/workflows/import", json={**body, "text": "pie"}, headers={"Accept-Language": "zh"})
        assert wrong.status_code == 422 and "开头" in wrong.text
