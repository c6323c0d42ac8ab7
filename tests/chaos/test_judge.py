from typing import Any

from segue import tool
from segue.testing.chaos.hunt import Judge
from segue.testing.chaos.runs import Run
from segue.testing.chaos.traps import Planned, Step
from segue.testing.chaos.world import Outside
from segue.tools.adapters.functions import bind_function


class Accounts:
    """Accounts whose balances have the same sum."""

    def snapshot(self) -> object:
        return {}

    def check(self, before: Any, after: Any, effects: Any) -> str | None:
        return None if sum(before.values()) == sum(after.values()) else "the sum differs"


@tool(idempotent=True)
def call() -> None:
    """Do something."""


def test_an_invariant_that_breaks_without_a_fault_is_of_the_call_that_breaks_it_and_of_no_other() -> None:
    begun = [{"moment": "start", "name": name, "arguments": {}} for name in ("look", "debit", "mail")]
    before, after = {"a": 100, "b": 0}, {"a": 70, "b": 0}
    run = Run(Outside(Accounts()), "", before, after, begun, {})
    ends = {"look#1": before, "debit#1": after, "mail#1": after}
    steps = [Step(label, label[:-2], after=end) for label, end in ends.items()]
    judge = Judge(
        dict.fromkeys(("look", "debit", "mail"), bind_function(call)), lambda planned, **_: run, "segue chaos"
    )
    judge.learn(run)
    (found,) = judge.undisturbed(steps, run, run)
    assert (found.tool, found.kind, found.fault) == ("debit", "invariant", "none")
    assert found.repeat == "segue chaos --repeat debit/none"
    assert [*judge.of_run(Planned("mail#1", "kill-after-call"), run)] == []
