"""The comparison of two batches, conversation by conversation."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ...core.errors import ConfigurationError
from ...core.records import Json
from ...prompts.report import report_text
from .outcome import Outcome
from .statistics import PairedTest, paired_test
from .summary import Report


@dataclass(frozen=True)
class Change:
    """A conversation whose success is not what it was."""

    conversation_id: str
    before: Outcome
    after: Outcome

    def why(self, language: str = "en") -> str:
        """What the failing one failed by."""
        fault = (self.after if self.after.fault else self.before).fault
        if fault is None:
            return ""
        party = report_text(fault.party, language)
        return report_text("fault", language, party=party, turn=fault.turn, reason=fault.reason(language))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A batch beside an earlier one; only conversations that both hold are compared."""

    pairs: int
    worse: tuple[Change, ...]
    better: tuple[Change, ...]
    test: PairedTest | None

    @property
    def is_worse(self) -> bool:
        """Whether the new batch is worse, beyond noise."""
        return self.test is not None and self.test.exceeds_noise and self.test.worse > self.test.better

    def conclusion(self, language: str = "en") -> str:
        """One sentence on whether the batches differ."""
        test = self.test
        if test is None:
            return report_text("no_pairs", language)
        if not test.worse + test.better:
            return report_text("no_change", language, pairs=self.pairs)
        p = f"{test.p_value:.3g}"
        numbers = report_text("numbers", language, worse=test.worse, better=test.better, pairs=self.pairs, p=p)
        name = ("is_worse" if test.worse > test.better else "is_better") if test.exceeds_noise else "is_noise"
        return report_text(name, language, numbers=numbers)

    def json(self, language: str = "en") -> Json:
        """The comparison as JSON."""
        return {
            "pairs": self.pairs,
            "worse": [change.conversation_id for change in self.worse],
            "better": [change.conversation_id for change in self.better],
            "test": (asdict(self.test) | {"exceeds_noise": self.test.exceeds_noise}) if self.test else None,
            "conclusion": self.conclusion(language),
        }


def compare(before: Report, after: Report) -> Comparison:
    """Compare two batches of the same scenarios.

    Raises:
        ConfigurationError: they have no conversation in common.
    """
    pairs = list(_pairs(before, after))
    if not pairs:
        raise ConfigurationError("The two batches have no conversation in common: compare batches of one workflow.")
    grouped: dict[str, list[tuple[bool, bool]]] = {}
    for pair in pairs:
        grouped.setdefault(pair.after.scenario, []).append((bool(pair.before.success), bool(pair.after.success)))
    return Comparison(
        pairs=len(pairs),
        worse=tuple(pair for pair in pairs if pair.before.success and not pair.after.success),
        better=tuple(pair for pair in pairs if pair.after.success and not pair.before.success),
        test=paired_test(grouped),
    )


def _pairs(before: Report, after: Report) -> Iterator[Change]:
    earlier = {outcome.conversation_id: outcome for outcome in before.outcomes}
    for outcome in after.outcomes:
        other = earlier.get(outcome.conversation_id)
        if other and outcome.success is not None and other.success is not None:
            yield Change(outcome.conversation_id, other, outcome)
