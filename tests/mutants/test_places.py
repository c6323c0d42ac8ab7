"""Each known fault names code and a test that are there."""

from pathlib import Path

from tests.cases import cases

from .calls import CALLS
from .cassettes import CASSETTES
from .conversations import CONVERSATIONS
from .mutants import ALL, Mutant

ROOT = Path(__file__).parents[2]


@cases("mutant", [*ALL, *CALLS, *CONVERSATIONS, *CASSETTES])
def test_a_fault_can_be_put_in_and_its_test_exists(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    file, _, name = mutant.tests.partition("::")
    assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")
