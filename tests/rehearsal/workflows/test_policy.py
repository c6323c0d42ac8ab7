"""The deterministic policy: what it reads from the user, and that it follows the file and nothing else."""

from pathlib import Path

from segue.testing.rehearsal.participants import find_scenario, load_workflow, workflow_file
from tests.cases import cases
from tests.rehearsal.workflows.talks import Talk


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
