"""Every shipped scenario can be solved by the deterministic participants, with any seed."""

from jsonschema import Draft202012Validator

from segue.testing.rehearsal.participants import (
    Scenario,
    backend_of,
    find_scenario,
    load_scenarios,
    load_workflow,
    shipped_names,
)
from tests.cases import cases
from tests.rehearsal.workflows.talks import Talk, replayed

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
