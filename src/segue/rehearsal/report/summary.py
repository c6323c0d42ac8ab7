"""The figures of a batch, and the comparison of two batches."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from ...core.errors import ConfigurationError
from ...core.records import Json
from ...core.usage import add_costs
from ...prompts.catalogue import report_text
from ..batch import Manifest
from .outcome import Outcome
from .statistics import Estimate, PairedTest, paired_test, pass_hat, rate

MOST_K = 8
"""pass^k is given for k up to this, and up to the number of trials that every scenario has."""

TESTED = ("workflow", *(f"{role}_{what}" for role in ("bot", "user", "api") for what in ("mode", "agent", "model")))
"""Settings that a report names."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The figures of a set of outcomes; a rate is None where nothing is measured by it."""

    conversations: int
    success: Estimate | None
    by_rule: Estimate | None
    by_judge: Estimate | None
    judge_agreement: Estimate | None
    """How often rule and judge agree, of the conversations that have both."""
    precision: float | None
    """Of all calls together, as recall."""
    recall: float | None
    calls: int
    turns_mean: float
    turns_median: float
    input_tokens: int
    output_tokens: int
    cost: float | None
    currency: str
    seconds_mean: float
    seconds_median: float
    end_reasons: Mapping[str, int]
    faults: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that the report's files show."""

    manifest: Manifest
    outcomes: tuple[Outcome, ...]
    summary: Summary
    scenarios: Mapping[str, Summary]
    pass_hat: Mapping[int, Estimate]
    """pass^k by k."""
    judge: str = ""

    @property
    def tested(self) -> Mapping[str, str]:
        """What the batch tested: the settings that tell it from another one, by name."""
        config = next(self.manifest.conversations()).config
        named = {name: str(value) for name in TESTED if (value := getattr(config, name))}
        return named | ({"judge": self.judge} if self.judge else {})

    @property
    def missing(self) -> int:
        """Conversations of the batch that have not ended."""
        return self.manifest.n - len(self.outcomes)

    @property
    def failures(self) -> list[Outcome]:
        """The conversations with a fault."""
        return [outcome for outcome in self.outcomes if outcome.fault]

    def json(self, language: str = "en") -> Json:
        """The report as JSON; why conversations failed is said in that language."""
        return {
            "batch": asdict(self.manifest),
            "judge": self.judge,
            "missing": self.missing,
            "summary": asdict(self.summary),
            "pass_hat": {str(k): asdict(estimate) for k, estimate in self.pass_hat.items()},
            "scenarios": {name: asdict(summary) for name, summary in self.scenarios.items()},
            "conversations": [outcome_json(outcome, language) for outcome in self.outcomes],
        }


def outcome_json(outcome: Outcome, language: str) -> Json:
    """One outcome as JSON, with what follows from its fields."""
    calls = asdict(outcome.calls) | {"precision": outcome.calls.precision, "recall": outcome.calls.recall}
    fault = outcome.fault.json(language) if outcome.fault else None
    return asdict(outcome) | {"success": outcome.success, "calls": calls, "fault": fault}


def report_of(manifest: Manifest, outcomes: Sequence[Outcome], judge: str = "") -> Report:
    """Sum up a batch's outcomes."""
    trials = by_scenario(outcomes, lambda outcome: outcome.success)
    most = min(min(map(len, trials.values()), default=0), MOST_K)
    powers = {k: estimate for k in range(1, most + 1) if (estimate := pass_hat(k, trials))}
    names = dict.fromkeys(outcome.scenario for outcome in outcomes if outcome.scenario)
    return Report(
        manifest=manifest,
        outcomes=tuple(outcomes),
        summary=summary_of(outcomes),
        scenarios={name: summary_of([o for o in outcomes if o.scenario == name]) for name in names},
        pass_hat=powers,
        judge=judge,
    )


def by_scenario(outcomes: Iterable[Outcome], value: Callable[[Outcome], bool | None]) -> dict[str, list[bool]]:
    """The values that are known, by scenario."""
    found: dict[str, list[bool]] = {}
    for outcome in outcomes:
        if (known := value(outcome)) is not None:
            found.setdefault(outcome.scenario, []).append(known)
    return found


def summary_of(outcomes: Sequence[Outcome]) -> Summary:
    """The figures of these outcomes."""
    made = sum(outcome.calls.made for outcome in outcomes)
    expected = sum(outcome.calls.expected for outcome in outcomes)
    matched = sum(outcome.calls.matched for outcome in outcomes)
    cost = add_costs((outcome.cost, outcome.currency) for outcome in outcomes)
    both = [o.rule_success == o.judge_success for o in outcomes if None not in (o.rule_success, o.judge_success)]
    return Summary(
        conversations=len(outcomes),
        success=_rate(outcome.success for outcome in outcomes),
        by_rule=_rate(outcome.rule_success for outcome in outcomes),
        by_judge=_rate(outcome.judge_success for outcome in outcomes),
        judge_agreement=_rate(both),
        precision=matched / made if made and expected else None,
        recall=matched / expected if expected else None,
        calls=made,
        turns_mean=_or_zero(fmean, [outcome.turns for outcome in outcomes]),
        turns_median=_or_zero(median, [outcome.turns for outcome in outcomes]),
        input_tokens=sum(outcome.input_tokens for outcome in outcomes),
        output_tokens=sum(outcome.output_tokens for outcome in outcomes),
        cost=cost["cost"],
        currency=cost.get("currency", ""),
        seconds_mean=_or_zero(fmean, [outcome.seconds for outcome in outcomes]),
        seconds_median=_or_zero(median, [outcome.seconds for outcome in outcomes]),
        end_reasons=dict(Counter(outcome.end_reason for outcome in outcomes).most_common()),
        faults=dict(Counter(outcome.fault.party for outcome in outcomes if outcome.fault).most_common()),
    )


def _rate(values: Iterable[bool | None]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return rate(sum(known), len(known))


def _or_zero(of: Callable[[Any], float], values: Sequence[float]) -> float:
    return float(of(values)) if values else 0.0


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
