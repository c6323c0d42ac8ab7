"""The report of a batch: outcomes, statistics, summary and files."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from io import StringIO
from itertools import accumulate
from math import comb, exp, lgamma, log, sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist, fmean, median, quantiles
from typing import TYPE_CHECKING, Any

from ...core.conversation import PREFIXES, Conversation, Role, Utterance, shown, spoken
from ...core.errors import ConfigurationError, MissingExtra
from ...core.models import add_costs, add_usages
from ...core.records import Json
from ...prompts.catalogue import report_text
from .batch import Manifest, log_file_of
from .simulate import read_log, replace_text

if TYPE_CHECKING:
    from jinja2 import Environment


# The outcome of one conversation: what came of it, by rule, as its log shows.

SERVER_ERROR = 500


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a scenario asks for: calls in any order, and the backend's state at the end; None is any."""

    calls: tuple[tuple[str, Json | None], ...] = ()
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The bot's calls beside the expected ones.

    A call counts as expected if it has the expected name and arguments and reached the API, whatever the API answered:
    no controller refused it, and it did not end in a server error. Each expected call counts once.
    """

    made: int = 0
    expected: int = 0
    matched: int = 0
    missing: tuple[str, ...] = ()
    """Expected calls that were not made."""
    surplus: tuple[int, ...] = ()
    """The indices of the calls that no expected one accounts for."""

    @property
    def precision(self) -> float | None:
        """The share of the bot's calls that were expected; None if it made none."""
        return self.matched / self.made if self.made else None

    @property
    def recall(self) -> float | None:
        """The share of the expected calls that were made; None if none was expected."""
        return self.matched / self.expected if self.expected else None


@dataclass(frozen=True)
class StateDifference:
    """A path at which the backend's state is not the expected one; the values are JSON."""

    path: str
    actual: str
    expected: str

    def text(self, language: str) -> str:
        """Path and values."""
        return report_text("difference", language, **vars(self))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Who a failure is attributed to (agent, user, tool or judge), in which turn and utterance, and why.

    `rule` is the text that says why, and `slots` are its values; `index` is -1 where only the turn is known.
    """

    party: str
    turn: int
    index: int
    rule: str
    slots: Mapping[str, Any] = field(default_factory=dict)

    def reason(self, language: str = "en") -> str:
        """Why, as a clause."""
        texts = {name: v.text(language) if isinstance(v, StateDifference) else v for name, v in self.slots.items()}
        return report_text(self.rule, language, **texts)

    def json(self, language: str) -> Json:
        """The form of the report."""
        form = {"party": self.party, "turn": self.turn, "index": self.index, "rule": self.rule}
        return {**form, "reason": self.reason(language)}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One conversation's row of the report."""

    conversation_id: str
    scenario: str
    trial: int
    end_reason: str
    turns: int
    calls: Calls
    state_differences: tuple[StateDifference, ...] = ()
    rule_success: bool | None = None
    """None where the scenario expects nothing."""
    judge_success: bool | None = None
    judge_reason: str = ""
    fault: Fault | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    currency: str = ""
    seconds: float = 0.0

    @property
    def success(self) -> bool | None:
        """By rule, else by the judge; None where neither decides."""
        return self.judge_success if self.rule_success is None else self.rule_success


def compare_calls(conversation: Conversation, expectation: Expectation) -> Calls:
    """Match the calls that reached the API with the expected ones, each at most once."""
    made = [utterance for utterance in conversation.utterances if utterance.is_action]
    arrived: set[int] = set()
    for result in conversation.results:
        if not result.controller and (result.status_code or 0) < SERVER_ERROR:
            before = reversed(conversation.utterances[: result.index])
            arrived.add(next(u.index for u in before if u.is_action))  # a result belongs to the call before it
    open_calls = [(name, "" if given is None else canonical(given)) for name, given in expectation.calls]
    surplus = []
    for call in made:
        fitting = [(call.action, canonical(call.action_input)), (call.action, "")]
        key = next((each for each in fitting if each in open_calls), None)
        if key and call.index in arrived:
            open_calls.remove(key)
        else:
            surplus.append(call.index)
    return Calls(
        made=len(made),
        expected=len(expectation.calls),
        matched=len(made) - len(surplus),
        missing=tuple(f"{name}({arguments})" if arguments else name for name, arguments in open_calls),
        surplus=tuple(surplus),
    )


def canonical(value: Any) -> str:
    """JSON in which equal values are equal text: keys in order, 3.0 as 3, text without space around it."""
    return json.dumps(_canonical(value), ensure_ascii=False, sort_keys=True)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.strip() if isinstance(value, str) else value


def differences(actual: Any, expected: Any, path: str = "") -> Iterable[StateDifference]:
    """The paths at which two JSON values differ."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in sorted({*actual, *expected}, key=str):
            yield from differences(actual.get(key), expected.get(key), f"{path}.{key}" if path else str(key))
    elif _canonical(actual) != _canonical(expected):
        yield StateDifference(path, json.dumps(actual, ensure_ascii=False), json.dumps(expected, ensure_ascii=False))


def rule_success(calls: Calls, state_differences: Iterable[StateDifference], expectation: Expectation) -> bool | None:
    """Success by rule: every expected call was made and the state is the expected one; None if nothing is expected."""
    if not expectation.calls and expectation.state is None:
        return None
    return not calls.missing and not tuple(state_differences)


@dataclass(frozen=True, kw_only=True)
class Used:
    """Tokens, and cost where that of each call is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    currency: str = ""


def used_by(conversation: Conversation) -> Used:
    """What all models of the conversation used."""
    usages = [u.usage for u in conversation.utterances if u.usage]
    total = add_usages(usages)
    return Used(
        input_tokens=total.get("input", 0),
        output_tokens=total.get("output", 0),
        cost=total.get("cost"),
        currency=total.get("currency", ""),
    )


# Rates with confidence intervals, pass^k, and tests of whether two batches differ.
#
# pass^k is the estimator of tau-bench (https://arxiv.org/abs/2406.12045): C(c, k) / C(n, k), averaged over the
# scenarios.

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
    enough = [(sum(results), len(results)) for results in trials.values() if len(results) >= k]
    if not enough:
        return None
    passes = {n: [comb(successes, k) / comb(n, k) for successes in range(n + 1)] for _, n in enough}
    chances = {pair: [*accumulate(_binomial(*pair))] for pair in enough}
    generator, means = Random(0), list[float]()
    for _ in range(RESAMPLES):
        total = 0.0
        for pair, times in Counter(generator.choices(enough, k=len(enough))).items():
            total += sum(generator.choices(passes[pair[1]], cum_weights=chances[pair], k=times))
        means.append(total / len(enough))
    return _interval_estimate(fmean(passes[n][successes] for successes, n in enough), means)


def _binomial(successes: int, trials: int) -> list[float]:
    """How probable each number of successes is, if the share of them is that of these trials."""
    share = successes / trials
    if share in (0, 1):
        return [float(number == successes) for number in range(trials + 1)]
    logs = [
        lgamma(trials + 1) - lgamma(n + 1) - lgamma(trials - n + 1) + n * log(share) + (trials - n) * log(1 - share)
        for n in range(trials + 1)
    ]
    return [exp(each) for each in logs]


def _interval_estimate(value: float, resampled: Sequence[float]) -> Estimate:
    cuts = quantiles(resampled, n=round(2 / (1 - CONFIDENCE)), method="inclusive")
    return Estimate(value, cuts[0], cuts[-1])


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
    better, worse = every.count((False, True)), every.count((True, False))
    return PairedTest(len(every), better, worse, mcnemar(better, worse), _difference(list(pairs.values()), every))


def mcnemar(better: int, worse: int) -> float:
    """The p-value of McNemar's exact test: of so many pairs that changed, in one direction and in the other."""
    changed = better + worse
    tail = sum(comb(changed, fewer) for fewer in range(min(better, worse) + 1))
    return min(2 * tail / float(2**changed), 1.0)


def _difference(scenarios: Sequence[Sequence[tuple[bool, bool]]], every: Sequence[tuple[bool, bool]]) -> Estimate:
    gains = [[int(after) - int(before) for before, after in listed] for listed in scenarios]
    generator, differences = Random(0), list[float]()
    for _ in range(RESAMPLES):
        chosen = generator.choices(gains, k=len(gains))
        drawn = sum(sum(generator.choices(listed, k=len(listed))) for listed in chosen)
        differences.append(drawn / sum(map(len, chosen)))
    value = (sum(after for _, after in every) - sum(before for before, _ in every)) / len(every)
    return _interval_estimate(value, differences)


# The figures of a batch, and the comparison of two batches.

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


# The report's files: JSON, Markdown, and one page of HTML with charts and transcripts.


@dataclass(frozen=True)
class Line:
    """One utterance as the page shows it; `note` says what the text does not: a status code or a controller."""

    index: int
    turn: int
    role: str
    prefix: str
    text: str
    note: str
    action: bool
    cited: bool


@dataclass(frozen=True)
class Transcript:
    """A failed conversation."""

    outcome: Outcome
    log: str
    """The log's path, from the report's folder."""
    lines: Sequence[Line]


def transcripts_of(report: Report, folder: Path) -> list[Transcript]:
    """The transcripts of a report's failures, from the logs in the batch's folder."""
    found = []
    for outcome in report.failures:
        assert outcome.fault
        file = log_file_of(folder, outcome.conversation_id)
        lines = _lines(read_log(file), outcome.fault)
        found.append(Transcript(outcome, file.relative_to(folder).as_posix(), lines))
    return found


def _lines(conversation: Conversation, fault: Fault) -> list[Line]:
    # The line to show is the cited utterance or, where it has no words, the last one before it.
    said = list(shown(conversation))
    until = [u for u in said if (u.turn <= fault.turn if fault.index < 0 else u.index <= fault.index)]
    cited = (until or said[:1] or [Utterance(index=-1, turn=0, role=Role.USER)])[-1].index
    return [
        Line(u.index, u.turn, u.role.value, PREFIXES[u.role], spoken(u), _note(u), u.is_action, u.index == cited)
        for u in said
    ]


def _note(utterance: Utterance) -> str:
    code = "" if utterance.status_code is None else str(utterance.status_code)
    return " ".join(part for part in (code, utterance.controller, utterance.error) if part)


TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    report: Report, folder: Path, comparison: Comparison | None = None, language: str = "en"
) -> list[Path]:
    """Write report.json, report.md and report.html into a batch's folder; returns their paths.

    Raises:
        MissingExtra: the plotting library is not installed.
    """
    transcripts = transcripts_of(report, folder)
    form = report.json(language) | ({"comparison": comparison.json(language)} if comparison else {})
    texts = {
        "report.json": json.dumps(form, ensure_ascii=False, indent=2) + "\n",
        "report.md": _rendered("report.md.j2", report, comparison, language, transcripts=transcripts),
        "report.html": _page(report, comparison, language, transcripts),
    }
    return [replace_text(folder / name, text) for name, text in texts.items()]


def _page(report: Report, comparison: Comparison | None, language: str, transcripts: Sequence[Transcript]) -> str:
    """The report as one page of HTML that loads nothing, with the transcripts of failed conversations."""
    try:
        charts = charts_of(report, language)
    except ImportError as error:
        raise MissingExtra("A report with charts", "rehearsal") from error
    return _rendered("report.html.j2", report, comparison, language, charts=charts, transcripts=transcripts)


def _rendered(template: str, report: Report, comparison: Comparison | None, language: str, **values: Any) -> str:
    def listed(counts: Mapping[str, int]) -> str:
        return _listed(counts, language)

    say = partial(_said, language)
    shared = {"report": report, "comparison": comparison, "language": language, "say": say, "listed": listed}
    return environment().get_template(template).render(**shared, rows=figures(report, language), **values)


def _said(language: str, name: str, /, **slots: object) -> str:
    return report_text(name, language, **slots)


@cache
def environment(*folders: Path) -> "Environment":
    """The templates' engine, for the templates of these folders and of reports.

    Raises:
        MissingExtra: its library is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    except ImportError as error:
        raise MissingExtra("A report", "rehearsal") from error
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"estimate": _format_estimate, "share": _share, "cell": _cell, "code": _code}
    return made


def figures(report: Report, language: str = "en") -> list[tuple[str, str]]:
    """The summary as names and values, for a person."""
    say, summary = partial(_said, language), report.summary
    precision, recall = _share(summary.precision), _share(summary.recall)
    turns = say("mean_median", mean=f"{summary.turns_mean:.1f}", median=f"{summary.turns_median:g}")
    seconds = say("mean_median", mean=f"{summary.seconds_mean:.1f}", median=f"{summary.seconds_median:.1f}")
    judged = [
        (say("by_judge", judge=report.judge), _format_estimate(summary.by_judge)),
        (say("agreement"), _format_estimate(summary.judge_agreement)),
    ]
    return [
        (f"{say('success')} ({say('interval')})", _format_estimate(summary.success)),
        (say("by_rule"), _format_estimate(summary.by_rule)),
        *(judged if report.judge else ()),
        (say("calls"), f"{summary.calls}, {say('precision')} {precision}, {say('recall')} {recall}"),
        (say("turns"), turns),
        (say("tokens"), say("read_written", read=summary.input_tokens, written=summary.output_tokens)),
        (say("cost"), "–" if summary.cost is None else f"{summary.cost:.4f} {summary.currency}"),
        (say("seconds"), seconds),
        (say("ended_by"), _listed(summary.end_reasons, language)),
        (say("failures_of"), _listed(summary.faults, language)),
    ]


def _listed(counts: Mapping[str, int], language: str) -> str:
    return ", ".join(f"{report_text(name, language)} {count}" for name, count in counts.items()) or "–"


def _format_estimate(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.1%} ({estimate.low:.1%} – {estimate.high:.1%})"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


_MARKS = re.compile(r"[\\`*\[\]|]")
_TICKS = re.compile("`+")


def _cell(value: Any) -> str:
    """Text for Markdown, in one line: no link, image, code or HTML of its own, and no cell of a table."""
    line = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(r"\\\g<0>", line)


def _code(value: Any) -> str:
    """Text for Markdown as code, in one line, whatever backticks it has."""
    line = " ".join(str(value).split()).replace("|", "\\|")
    ticks = "`" * (max(map(len, _TICKS.findall(line)), default=0) + 1)
    pad = " " if "`" in (line[:1], line[-1:]) else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


SUCCESS, FAILURE, NEUTRAL = "#2a7f62", "#b5483a", "#44618f"
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "segue",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
}


def charts_of(report: Report, language: str = "en") -> dict[str, str]:
    """SVG elements by title; a chart with nothing to show is left out."""

    def say(name: str) -> str:
        return report_text(name, language)

    def said(counts: Mapping[str, int]) -> dict[str, int]:
        return {say(name): count for name, count in counts.items()}

    summary = report.summary
    rates = {name: inner.success for name, inner in report.scenarios.items() if inner.success}
    found = {
        say("chart_scenarios"): _chart(_rates(rates), height=1.2 + 0.34 * len(rates)) if rates else "",
        "pass^k": _chart(_powers(report.pass_hat)) if len(report.pass_hat) > 1 else "",
        say("chart_turns"): _chart(_turns(report, say)) if report.outcomes else "",
        say("chart_ends"): _chart(_counts(said(summary.end_reasons), NEUTRAL), height=1.8),
        say("chart_faults"): _chart(_counts(said(summary.faults), FAILURE), height=1.8) if summary.faults else "",
    }
    return {title: svg for title, svg in found.items() if svg}


def _chart(draw: Callable[[Any], None], height: float = 2.6) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the browser has its own fonts
        figure = Figure(figsize=(6, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def _rates(rates: Mapping[str, Estimate]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        names, values = list(rates)[::-1], list(rates.values())[::-1]
        below = [max(v.value - v.low, 0) for v in values]
        above = [max(v.high - v.value, 0) for v in values]
        axes.barh(names, [v.value for v in values], color=SUCCESS, alpha=0.75, height=0.6)
        axes.errorbar([v.value for v in values], names, xerr=[below, above], fmt="none", ecolor="#222", capsize=3)
        axes.set_xlim(0, 1.02)

    return draw


def _powers(powers: Mapping[int, Estimate]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        places, values = list(powers), list(powers.values())
        axes.plot(places, [v.value for v in values], color=SUCCESS, marker="o")
        axes.fill_between(places, [v.low for v in values], [v.high for v in values], color=SUCCESS, alpha=0.2)
        axes.set_ylim(0, 1.02)
        axes.set_xticks(places)
        axes.set_xlabel("k")

    return draw


def _turns(report: Report, say: Callable[[str], str]) -> Callable[[Any], None]:
    groups = {True: (say("succeeded"), SUCCESS), False: (say("failed"), FAILURE), None: (say("not_graded"), NEUTRAL)}

    def draw(axes: Any) -> None:
        turns = {key: [o.turns for o in report.outcomes if o.success is key] for key in groups}
        shown = {key: values for key, values in turns.items() if values}
        counts = [outcome.turns for outcome in report.outcomes]
        edges = [place - 0.5 for place in range(min(1, *counts), max(counts) + 2)]
        labels, colours = zip(*(groups[key] for key in shown), strict=True)
        axes.hist(list(shown.values()), bins=edges, stacked=True, label=labels, color=colours, rwidth=0.9)
        axes.legend(frameon=False)

    return draw


def _counts(counts: Mapping[str, int], colour: str) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        bars = axes.barh(list(counts)[::-1], list(counts.values())[::-1], color=colour, alpha=0.75, height=0.6)
        axes.bar_label(bars, padding=3)
        axes.set_ylim(-0.5, max(len(counts), 3) - 0.5)

    return draw
