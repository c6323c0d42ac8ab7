"""What a backtest comes to, in a sentence."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ..core.records import Json
from ..prompts.catalogue import backtest_text
from ..rehearsal.report.statistics import SIGNIFICANT, mcnemar
from .comparison import Verdict


@dataclass(frozen=True)
class Change:
    """Of paired tasks, how many got worse and better, and the p-value of McNemar's exact test."""

    worse: int
    better: int

    @property
    def p_value(self) -> float:
        return mcnemar(self.better, self.worse)

    @property
    def exceeds_noise(self) -> bool:
        """Whether so much worse would be rare between two equal agents."""
        return self.worse > self.better and self.p_value < SIGNIFICANT

    def json(self) -> Json:
        """{"worse", "better", "p_value", "exceeds_noise"}."""
        return {**asdict(self), "p_value": self.p_value, "exceeds_noise": self.exceeds_noise}

    def describe(self, language: str) -> str:
        """Whether more changes than with the baseline."""
        name = "exceeds_noise" if self.exceeds_noise else "is_noise"
        return backtest_text(name, language, worse=self.worse, better=self.better, p=f"{self.p_value:.3g}")


def conclusion(summary: Mapping[str, int], change: Change | None, language: str) -> str:
    """What came out: how many tasks have each verdict, and with a baseline whether that is more than chance."""
    total, found = sum(summary.values()), [verdict for verdict in Verdict if summary.get(verdict)]
    one = "_one" if total == 1 else ""
    if not found:
        return backtest_text("nothing_compared", language)
    if found == [Verdict.SAME]:
        head = backtest_text(f"all_same{one}", language, n=total)
    else:
        parts = [backtest_text(f"would_{verdict}", language, n=summary[verdict]) for verdict in found]
        listed = ("，" if language == "zh" else ", ").join(parts)
        head = backtest_text(f"of_tasks{one}", language, n=total, parts=listed)
    return " ".join([head, *([change.describe(language)] if change else [])])
