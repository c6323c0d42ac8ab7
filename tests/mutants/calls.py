"""The faults of approvals and of calls whose outcome nobody knows."""

from tests.mutants.mutants import Mutant

RUNNER, EXECUTOR, APPROVAL = "nodes/calls.py", "tools/calls.py", "nodes/permission.py"
APPROVALS = "tests/runtime/test_approvals.py::test_a_call_waits_and_is_what_the_person_decides"
SETTLED = "tests/runtime/test_unknown_outcomes.py::test_an_interrupted_call_is_settled_or_made_again_with_its_key"
UNKNOWN = (
    "tests/runtime/test_unknown_outcomes.py::test_a_call_like_one_of_unknown_outcome_is_made_by_a_persons_decision_only"
)

CALLS = (
    Mutant("an edited call keeps its arguments", APPROVAL, "arguments=verdict.arguments or {}, ", "", APPROVALS),
    Mutant("a rejected call is made", RUNNER, "if isinstance(call.state, Rejected):\n", "if False:\n", APPROVALS),
    Mutant(
        "a permission covers a call that may have taken effect",
        RUNNER,
        "if scope and name_and_arguments(call) not in unknown:",
        "if scope:",
        UNKNOWN,
    ),
    Mutant(
        "a question is silent about an earlier call like it",
        RUNNER,
        "if name_and_arguments(call) in unknown else asked",
        "if False else asked",
        UNKNOWN,
    ),
    Mutant(
        "a call like one that may have taken effect is made",
        EXECUTOR,
        'if claim.state == "doubtful" and not',
        "if False and not",
        UNKNOWN,
    ),
    Mutant(
        "an interrupted call is made again",
        EXECUTOR,
        "if settled is not NOT_DONE and not",
        "if False and not",
        UNKNOWN,
    ),
    Mutant(
        "the check of an interrupted call is not asked",
        EXECUTOR,
        "None if claim.moved else await _ask_check(tool, execution)",
        "None",
        SETTLED,
    ),
    Mutant(
        "a second attempt is called the first",
        EXECUTOR,
        'attempt=2 if execution.claim.state == "interrupted" else 1',
        "attempt=1",
        SETTLED,
    ),
)
