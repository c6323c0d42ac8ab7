"""Files of workflows: what is shipped is valid, and each fault is named with its file, line and field."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from segue.cli.main import app as cli
from segue.core.errors import ConfigurationError, InvalidWorkflow, UnknownScenario, UnknownWorkflow
from segue.prompts.catalogue import error_text
from segue.testing.rehearsal.participants import (
    Questions,
    Scenario,
    backend_of,
    find_scenario,
    load_scenarios,
    load_workflow,
    shipped_names,
    workflow_file,
)
from tests.cases import cases
from tests.rehearsal.workflows.talks import Talk, replayed

WORKFLOW = """\
---
name: lending
description: Lend a book.
slots:
  title:
    description: the book's title
    ask: Which book?
    keywords: [which book]
apis:
  find_book:
    description: Find a book.
    parameters: {type: object, properties: {title: {type: string}}, required: [title]}
  lend_book:
    description: Lend a book.
    requires: [find_book]
procedure:
  - name: find
    description: Find the book.
    call: find_book
    failures:
      404: {answer: unknown, ask: [title]}
  - name: lend
    description: Lend it.
    call: lend_book
    answer: lent
answers:
  unknown: There is no {title}.
  lent: Here it is.
  failed: That did not work.
  closing: Anything else?
---

Be brief.
"""


SECOND_SLOT = """slots:
  card:
    description: the number of the reader's card
    ask: Which card?
"""


def written(folder: Path, text: str, name: str = "lending.md") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_workflow_is_markdown_with_front_matter(tmp_path: Path) -> None:
    workflow = load_workflow(written(tmp_path, WORKFLOW))
    assert (workflow.name, workflow.policy) == ("lending", "Be brief.")
    assert workflow.apis["lend_book"].requires == ("find_book",)
    assert load_scenarios(str(tmp_path / "lending.md")) == ()


def test_or_plain_yaml(tmp_path: Path) -> None:
    front = WORKFLOW.split("---\n")[1]
    assert load_workflow(written(tmp_path, front + "policy: Be brief.\n", "lending.yaml")) == load_workflow(
        written(tmp_path, WORKFLOW)
    )


def test_keywords_may_be_left_out(tmp_path: Path) -> None:
    without = WORKFLOW.replace("    keywords: [which book]\n", "").replace("slots:\n", SECOND_SLOT, 1)
    questions = Questions(load_workflow(written(tmp_path, without)))
    assert questions.asked("What is the title of the book?") == ["title"]
    assert questions.asked("May I have your card's number?") == ["card"]


def test_a_workflow_without_scenarios_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"lending\.md has no scenarios: .* --user llm_profile"):
        find_scenario(written(tmp_path, WORKFLOW), "")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    name = written(tmp_path, WORKFLOW)
    assert load_workflow(name).policy == "Be brief."
    written(tmp_path, WORKFLOW.replace("Be brief.", "Take your time."))
    assert load_workflow(name).policy == "Take your time."


@cases(
    "old, new, said",
    [
        ("    ask: Which book?\n", "", "line 5, slots.title.ask: field required"),
        ("requires: [find_book]", "requires: [find]", "line 15, apis.lend_book.requires: 'find' is not a known API"),
        ("requires: [find_book]", "requires: [lend_book]", "line 15, apis.lend_book.requires: 'lend_book' cannot"),
        (
            "call: lend_book",
            "call: lend",
            "line 24, procedure.1.call: 'lend' is not a known API; use one of: find_book",
        ),
        ("answer: lent", "answer: sold", "line 25, procedure.1.answer: 'sold' is not a known answer"),
        ("ask: [title]", "ask: [author]", "line 21, procedure.0.failures.404: 'author' is not a known slot"),
        ("call: lend_book", "when: {shelf: 1}", "line 24, procedure.1.when: 'shelf' is not a known slot or API"),
        (
            "call: lend_book",
            "arguments: {a: 1}\n    call: find_book",
            "line 24, procedure.1.arguments: 'a' is not a known param",
        ),
        ("call: lend_book", "cal: lend_book", "line 24, procedure.1.cal: extra inputs are not permitted"),
        ("name: lend\n", "name: find\n", "line 22, procedure.1.name: there are two steps 'find'"),
        ("properties: {title: {type: string}}", "properties: 3", "line 12, apis.find_book.parameters: not a JSON"),
        ("    keywords:", "    pattern: '['\n    keywords:", "line 8, slots.title.pattern: should be a regular"),
        ("  closing: Anything else?\n", "", "line 26, answers: the answer 'closing' is missing"),
        ("  lent: Here it is.\n", "  lent: Here.\n  lent: There.\n", "line 29, answers.lent: this key is repeated"),
        (
            "Which book?",
            "Which book, {reader}?",
            "line 7, slots.title.ask: 'reader' is not a known slot or API; use one of: title",
        ),
        ("There is no {title}.", "No {find.x|title}.", "line 27, answers.unknown: 'find' is not a known slot or API"),
        (
            "call: lend_book",
            "arguments: {title: '{book}'}\n    call: find_book",
            "line 24, procedure.1.arguments.title: 'book' is not a known slot or API",
        ),
        (
            "    keywords: [which book]",
            "    replies: ['{it}']\n    keywords: [which book]",
            "line 8, slots.title.replies: 'it' is not a known slot or API; use one of: value",
        ),
        ("slots:\n", "slots: [\n", "this is not valid YAML"),
        ("---\n\nBe brief.\n", "", "line 1: the front matter should end with a line with '---'"),
    ],
)
def test_a_fault_is_named_with_its_line_and_field(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert WORKFLOW.count(old) == 1
    with pytest.raises(InvalidWorkflow) as fault:
        load_workflow(written(tmp_path, WORKFLOW.replace(old, new)))
    assert "lending.md, line " in str(fault.value) and said in str(fault.value)
    assert error_text(fault.value, "zh").startswith("工作流无效：lending.md 第 ")


def test_faults_of_scenarios_are_named_alike(tmp_path: Path) -> None:
    workflow = written(tmp_path, WORKFLOW.replace("slots:", "scenarios: readers.yaml\nslots:", 1))
    one = "  - name: one\n    persona: {profile: A reader., goal: A book., opening: [Hello.]}\n"
    written(tmp_path, f"scenarios:\n{one}", "readers.yaml")
    assert [scenario.name for scenario in load_scenarios(workflow)] == ["one"]
    written(tmp_path, f"scenarios:\n{one}{one}", "readers.yaml")
    with pytest.raises(InvalidWorkflow, match=r"readers\.yaml, line 4, scenarios\.1\.name: there are two"):
        load_scenarios(workflow)
    written(tmp_path, f"scenarios:\n{one}    changes: 3\n", "readers.yaml")
    with pytest.raises(InvalidWorkflow, match=r"readers\.yaml, line 4, scenarios\.0\.changes: "):
        load_scenarios(workflow)
    (tmp_path / "readers.yaml").unlink()
    with pytest.raises(InvalidWorkflow, match="cannot be read"):
        load_scenarios(workflow)


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(UnknownWorkflow, match="clinic_appointment, device_return, travel_change"):
        load_workflow("travel")
    with pytest.raises(UnknownScenario, match="too_late"):
        find_scenario("device_return", "late")


def test_a_copy_of_a_shipped_workflow_keeps_its_scenarios(tmp_path: Path) -> None:
    for name in shipped_names():
        copy = written(tmp_path, workflow_file(name).read_text(encoding="utf-8"), "mine.md")
        assert load_workflow(copy) == load_workflow(name)
        assert load_scenarios(copy) == load_scenarios(name)


def test_dates_and_yes_are_text() -> None:
    facts = find_scenario("travel_change", "change_without_fee").persona.facts
    assert (facts["birth_date"], facts["agreed_change"]) == ("1984-03-12", "yes")


OWN_BACKEND = """\
from segue.testing.rehearsal.participants import Backend

def stamp(state, number):
    state["stamped"] = number
    return {"number": number}

PERMITS = Backend("permits", lambda seed: {"stamped": ""}, {"stamp": stamp})
"""
OWN_WORKFLOW = """\
name: permit
description: Stamp a permit.
backend: permit_office:PERMITS
scenarios: permit_people.yaml
slots: {number: {description: the number, ask: Which number?, pattern: '(\\\\d+)'}}
apis:
  stamp:
    description: Stamp it.
    parameters: {type: object, properties: {number: {type: string}}, required: [number]}
procedure: [{name: stamp, description: Stamp it., call: stamp, answer: stamped}]
answers: {stamped: It is stamped., failed: '{error}', closing: Anything else?}
"""
OWN_SCENARIO = """\
scenarios:
  - name: someone
    persona: {profile: Someone., goal: A stamp., opening: [Hello.], facts: {number: "17"}}
    expected_calls: [{name: stamp}]
    changes: {stamped: "17"}
"""


@pytest.mark.slow
def test_a_backend_of_ones_own_beside_the_workflow_is_reached_from_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written(tmp_path, OWN_BACKEND, "permit_office.py")
    written(tmp_path, OWN_SCENARIO, "permit_people.yaml")
    workflow = written(tmp_path, OWN_WORKFLOW.replace("\\\\", "\\"), "permit.yaml")
    folder = tmp_path / "batch"
    ran = CliRunner().invoke(cli, ["simulate", "--workflow", workflow, "--n", "1", "--out", str(folder)])
    assert ran.exit_code == 0, ran.output
    assert CliRunner().invoke(cli, ["report", str(folder)]).exit_code == 0
    summary = json.loads((folder / "report.json").read_text(encoding="utf-8"))["summary"]
    assert (summary["by_rule"]["value"], summary["precision"], summary["recall"]) == (1, 1, 1)


def test_a_name_that_is_no_backend_says_what_one_is(tmp_path: Path) -> None:
    workflow = written(tmp_path, OWN_WORKFLOW.replace("permit_office:PERMITS", "json:dumps"), "permit.yaml")
    with pytest.raises(ConfigurationError, match=r"'json:dumps' is no backend: make it a Backend"):
        backend_of(load_workflow(workflow))


# The deterministic policy: what it reads from the user, and that it follows the file and nothing else.


@cases(
    "workflow, slot, text, value",
    [
        ("travel_change", "reference", "it is kx4821, I think", "KX4821"),
        ("travel_change", "reference", "I do not have it here", None),
        ("travel_change", "surname", "The surname is Keller.", "Keller"),
        ("travel_change", "agreed_change", "No, that is too much", "no"),
        ("travel_change", "agreed_change", "I know, yes", "yes"),
        ("travel_change", "request", "cancel it", "cancel"),
        ("clinic_appointment", "request", "我要取消预约", "cancel"),
        ("clinic_appointment", "request", "我要预约", "book"),
        ("clinic_appointment", "department", "我咳嗽得厉害", "内科"),
        ("clinic_appointment", "agreed_cancellation", "不取消了", "no"),
        ("device_return", "reason", "It does not work any more", "defective"),
    ],
)
def test_a_slot_is_read_from_what_the_user_says(workflow: str, slot: str, text: str, value: str | None) -> None:
    assert load_workflow(workflow).slots[slot].value_in(text) == value


def test_a_worsened_copy_is_followed_as_it_stands(tmp_path: Path) -> None:
    """Without its step, nobody's identity is verified: a stranger's cancellation goes through."""
    scenario = find_scenario("travel_change", "somebody_else")
    text = workflow_file("travel_change").read_text(encoding="utf-8")
    start, end = text.index("  - name: verify\n"), text.index("  - name: request\n")
    copy = tmp_path / "worse.md"
    copy.write_text(text[:start] + text[end:], encoding="utf-8")

    shipped, worse = Talk("travel_change", scenario).run(), Talk(str(copy), scenario).run()

    assert shipped.state == scenario.expected_state(shipped.backend.initial(0)) != worse.state
    assert "verify_passenger" not in [name for name, _ in worse.calls]


# Every shipped scenario can be solved by the deterministic participants, with any seed.


SHIPPED = [(name, one) for name in shipped_names() for one in load_scenarios(name)]


def solved(talk: Talk, scenario: Scenario, seed: int) -> None:
    assert talk.utterances[-1].ends
    assert talk.calls == [(call.name, call.arguments) for call in scenario.expected_calls]
    assert talk.state == scenario.expected_state(talk.backend.initial(seed))


@cases("name, scenario", SHIPPED)
def test_a_scenario_is_solved_with_its_persona_and_with_its_script(name: str, scenario: Scenario) -> None:
    for seed in (0, 7):
        solved(Talk(name, scenario, seed).run(), scenario, seed)
    assert scenario.persona.script[-1] == "[END]"
    solved(Talk(name, scenario, script=scenario.persona.script).run(), scenario, 0)


@cases("name, scenario", SHIPPED)
def test_a_scenario_names_what_its_workflow_has(name: str, scenario: Scenario) -> None:
    workflow = load_workflow(name)
    assert {*scenario.persona.facts, *scenario.persona.volunteers} <= workflow.slots.keys()
    for call in scenario.expected_calls:
        Draft202012Validator(workflow.apis[call.name].parameters).validate(call.arguments)


@cases("name, scenario", SHIPPED)
def test_the_expected_calls_make_the_expected_state(name: str, scenario: Scenario) -> None:
    """The two are written down apart; a scenario without changes expects the state untouched."""
    backend = backend_of(load_workflow(name))
    calls = [(call.name, call.arguments) for call in scenario.expected_calls]
    assert replayed(backend, 3, calls) == scenario.expected_state(backend.initial(3))


def test_conversations_differ_by_seed_and_repeat_with_it() -> None:
    scenario = find_scenario("travel_change", "change_with_fee")
    said = [Talk("travel_change", scenario, seed).run().user_said for seed in range(6)]
    assert len({tuple(texts) for texts in said}) > 1
    assert Talk("travel_change", scenario, 4).run().user_said == said[4]


def test_a_persona_that_does_not_know_gives_up() -> None:
    scenario = find_scenario("travel_change", "change_with_fee")
    persona = scenario.persona.model_copy(update={"facts": {}, "volunteers": ()})
    talk = Talk("travel_change", scenario.model_copy(update={"persona": persona})).run()
    assert talk.user_said[1:] == ["I do not know that.", "I do not know that.", "Never mind then."]
    assert talk.utterances[-1].ends and talk.calls == []
