"""Rates with confidence intervals, pass^k, and tests of whether two batches differ.

pass^k is the estimator of tau-bench (https://arxiv.org/abs/2406.12045): C(c, k) / C(n, k), averaged over the scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Integers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
RESAMPLES = 2_000
SIGNIFICANT = 0.05
"""Below this p-value a difference exceeds noise."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval; all three between 0 and 1, or differences of such."""

    value: float
    low: float
    high: float


def rate(successes: int, trials: int) -> Estimate | None:
    """A rate with its Wilson interval; None without trials."""
    if not trials:
        return None
    share, unit = successes / trials, _Z**2 / trials
    centre = (share + unit / 2) / (1 + unit)
    half = sqrt(share * (1 - share) * unit + unit**2 / 4) / (1 + unit)
    return Estimate(share, max(centre - half, 0.0), min(centre + half, 1.0))


def pass_hat(k: int, trials: Mapping[str, Sequence[bool]]) -> Estimate | None:
    """The probability that k trials of a scenario all succeed, averaged over the scenarios with k trials or more.

    The interval is a percentile bootstrap over scenarios and, within each, over its trials. None if no scenario has k.
    """
    import numpy as np

    enough = [(sum(results), len(results)) for results in trials.values() if len(results) >= k]
    if not enough:
        return None
    successes, sizes = np.array(enough).T
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(enough), (RESAMPLES, len(enough)))
    drawn = generator.binomial(sizes[chosen], (successes / sizes)[chosen])
    means = (_combinations(drawn, k) / _combinations(sizes[chosen], k)).mean(axis=1)
    return _estimate(float((_combinations(successes, k) / _combinations(sizes, k)).mean()), means)


def _combinations(sizes: "Integers", k: int) -> "Floats":
    """How many sets of k each size has."""
    import numpy as np

    return np.array([comb(size, k) for size in range(sizes.max() + 1)], np.float64)[sizes]


def _estimate(value: float, resampled: "Floats") -> Estimate:
    import numpy as np

    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value, float(low), float(high))


@dataclass(frozen=True)
class PairedTest:
    """Two batches compared conversation by conversation.

    `p_value` is that of McNemar's exact test on the conversations whose success changed; `difference` is that of the
    success rates, its interval a bootstrap over scenarios.
    """

    pairs: int
    better: int
    worse: int
    p_value: float
    difference: Estimate

    @property
    def points(self) -> Mapping[str, str]:
        """The difference and its interval in percentage points, with their signs."""
        return {name: f"{value * 100:+.1f}" for name, value in vars(self.difference).items()}

    @property
    def exceeds_noise(self) -> bool:
        """Whether a difference this large would be rare between two equal agents."""
        return self.p_value < SIGNIFICANT


def paired_test(pairs: Mapping[str, Sequence[tuple[bool, bool]]]) -> PairedTest | None:
    """Compare pairs of (before, after), by scenario; None without pairs."""
    every = [pair for listed in pairs.values() for pair in listed]
    if not every:
        return None
    better = sum(after and not before for before, after in every)
    worse = sum(before and not after for before, after in every)
    return PairedTest(len(every), better, worse, mcnemar(better, worse), _difference(list(pairs.values()), every))


def mcnemar(better: int, worse: int) -> float:
    """The p-value of McNemar's exact test: of so many pairs that changed, in one direction and in the other."""
    changed = better + worse
    tail = sum(comb(changed, fewer) for fewer in range(min(better, worse) + 1))
    return min(2 * tail / float(2**changed), 1.0)


def _difference(scenarios: Sequence[Sequence[tuple[bool, bool]]], every: Sequence[tuple[bool, bool]]) -> Estimate:
    import numpy as np

    gains = [[int(after) - int(before) for before, after in listed] for listed in scenarios]
    shares = np.array([[listed.count(gain) / len(listed) for gain in (-1, 0, 1)] for listed in gains])
    sizes = np.array([len(listed) for listed in gains])
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(gains), (RESAMPLES, len(gains)))
    drawn = generator.multinomial(sizes[chosen], shares[chosen]).sum(axis=1)
    value = (sum(after for _, after in every) - sum(before for before, _ in every)) / len(every)
    return _estimate(value, (drawn[:, 2] - drawn[:, 0]) / drawn.sum(axis=1))
