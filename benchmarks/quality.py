"""Q: relevance of each similarity measure on scenarios of judged alerts, and its calibration.

Measures are compared with simple baselines. The scenarios are in a folder next to the checkout, or
in that of the environment variable MOIRAE_DATA. Nothing is tuned: measures have no parameters.
"""

import csv
import gzip
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from archiver.times import duration_to_micros
from benchmarks.results import BenchmarkResult, make_result, replace_section
from benchmarks.timing import time_noise_kernel
from moirae.feedback import (
    JudgedCorpus,
    build_training_cases,
    read_alerts,
    read_groups,
    read_judgements,
)
from recall.learning import Resolution
from recall.relevance import (
    Evaluation,
    Gains,
    MetricEstimate,
    Reliability,
    evaluate,
    measure_reliability,
)
from recall.relevance.rankers import (
    BASELINES,
    AlertContext,
    CandidateSet,
    Ranker,
    make_learned_ranker,
    rank_by,
)
from recall.similarity.measures import LEARNED_MEASURE, MEASURES

_DEFAULT_DATA_FOLDER = Path(__file__).parents[2] / "shared" / "data"
SCENARIO_FOLDER = Path(os.environ.get("MOIRAE_DATA") or _DEFAULT_DATA_FOLDER) / "scenarios"
_DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "quality.md"
_BEGIN_MARK = "<!-- quality: begin -->"
_END_MARK = "<!-- quality: end -->"
_OWN_MEASURE = "attributes"
_COMPARED_MEASURES = ("tfidf", "binary")
# The scenarios by which `learned` is judged, and those on which it is tested with wrong tags.
LEARNED_SCENARIOS = (
    "bgl_incident",
    "lanl_nodefail",
    "itsm_opened",
    "petshop_slo",
    "nezha_incident",
)
_ROBUSTNESS_SCENARIOS = ("bgl_incident", "lanl_nodefail", "itsm_opened")
_WRONG_SHARE = 0.1
_METRIC_TITLES = {"p10": "P@10", "ndcg10": "nDCG@10"}

# The metrics of a scenario, by ranker and metric.
Estimates = dict[str, dict[str, MetricEstimate]]
# Makes other tags of the tags by event ID and all event IDs in time order.
TagChange = Callable[[dict[str, str], Sequence[str]], dict[str, str]]


@dataclass(frozen=True)
class Scenario:
    """How a scenario is evaluated.

    `gap`: how much older past events must be; None: leave-one-out over incidents. `alerts`: the
    scenario whose alerts are used; None: its own. `kind`: columns of the labels that make the kind
    of an alert. `control`: no measure can be better than chance.
    """

    gap: timedelta | None
    alerts: str | None = None
    kind: tuple[str, ...] = ()
    control: bool = False


SCENARIOS = {
    "bgl_incident": Scenario(timedelta(hours=6), kind=("failure_class",)),
    "itsm_opened": Scenario(timedelta(hours=1), kind=("closed_code", "resolved_by")),
    "itsm_problem": Scenario(
        timedelta(hours=1), alerts="itsm_opened", kind=("closed_code", "resolved_by")
    ),
    "lanl_nodefail": Scenario(timedelta(hours=6), kind=("cause", "cause_detail")),
    "petshop_slo": Scenario(None, kind=("root_cause", "kind")),
    "nezha_incident": Scenario(None, kind=("fault_service", "fault_type")),
    "nezha_incident_metrics_only": Scenario(None, kind=("fault_service", "fault_type")),
    "nezha_pod": Scenario(None, kind=("fault_type", "fault_service"), control=True),
}


def run() -> list[BenchmarkResult]:
    """Measure P@10 and nDCG@10; write all metrics to `docs/reference/quality.md`."""
    noise = [time_noise_kernel()]
    estimates_by_scenario = {name: _evaluate_scenario(name) for name in SCENARIOS}
    robustness = _measure_robustness(estimates_by_scenario)
    noise.append(time_noise_kernel())
    _write_document(estimates_by_scenario, robustness)
    results = [_make_learned_result(estimates_by_scenario, noise)]
    for metric in _METRIC_TITLES:
        results.append(_make_result(estimates_by_scenario, metric, noise))
    return results


def _make_result(
    estimates_by_scenario: dict[str, Estimates], metric: str, noise: Sequence[float]
) -> BenchmarkResult:
    """The mean of a metric over all scenarios but controls."""
    values_by_ranker: dict[str, list[float]] = {}
    scenarios_below = 0
    for name, estimates in estimates_by_scenario.items():
        if SCENARIOS[name].control:
            continue
        for ranker, estimate in estimates.items():
            values_by_ranker.setdefault(ranker, []).append(estimate[metric].value)
        compared = [estimates[measure][metric] for measure in _COMPARED_MEASURES]
        best_compared = max(compared, key=lambda estimate: estimate.value)
        scenarios_below += estimates[_OWN_MEASURE][metric].value < best_compared.low
    means: dict[str, float] = {}
    for ranker, values in values_by_ranker.items():
        means[ranker] = round(sum(values) / len(values), 4)
    own_mean = means.pop(_OWN_MEASURE)
    scenario_count = len(values_by_ranker[_OWN_MEASURE])
    return make_result(
        "Q",
        f"mean {_METRIC_TITLES[metric]} of `{_OWN_MEASURE}` over {scenario_count} scenarios",
        [own_mean],
        target="> tfidf, > binary, below neither's interval",
        details={**means, "scenarios_below": float(scenarios_below)},
        noise=noise,
    )


def _make_learned_result(
    estimates_by_scenario: dict[str, Estimates], noise: Sequence[float]
) -> BenchmarkResult:
    """The mean P@10 of `learned`, divided by the largest mean of the other measures."""
    scenarios = [estimates_by_scenario[name] for name in LEARNED_SCENARIOS]
    means = {}
    for measure in (LEARNED_MEASURE, *MEASURES):
        values = [estimates[measure]["p10"].value for estimates in scenarios]
        means[measure] = round(sum(values) / len(values), 4)
    scenarios_below = 0
    for estimates in scenarios:
        best = max((estimates[measure]["p10"] for measure in MEASURES), key=_estimate_value)
        scenarios_below += estimates[LEARNED_MEASURE]["p10"].value < best.low
    ratio = means[LEARNED_MEASURE] / max(means[measure] for measure in MEASURES)
    return make_result(
        "Q",
        f"mean P@10 of `learned` ÷ the best other measure's, {len(scenarios)} scenarios",
        [round(ratio, 3)],
        target="≥ 1.25",
        details={**means, "scenarios_below": float(scenarios_below)},
        noise=noise,
    )


def _estimate_value(estimate: MetricEstimate) -> float:
    return estimate.value


def _measure_robustness(estimates_by_scenario: dict[str, Estimates]) -> list[list[str]]:
    """Rows of P@10 of `learned` with wrong tags: scenario, tags, P@10, P@10 of other measures."""
    rows = []
    for name in _ROBUSTNESS_SCENARIOS:
        without_tags = [estimates_by_scenario[name][measure]["p10"] for measure in MEASURES]
        for title, change in _TAG_CHANGES.items():
            estimate = measure_with_wrong_tags(name, change)
            rows.append([name, title, *map(_format_interval, [estimate, *without_tags])])
    return rows


def measure_with_wrong_tags(name: str, change: TagChange) -> MetricEstimate:
    """P@10 of `learned` on a scenario if it learns from changed tags."""
    tags = read_kinds(name)
    changed = change(tags, [alert.event_id for alert in _read_alerts(name)])
    estimates = _evaluate_scenario(name, changed, only_learned=True)
    return estimates[LEARNED_MEASURE]["p10"]


def _shuffle_some(tags: dict[str, str], event_ids: Sequence[str]) -> dict[str, str]:
    """A tenth of the tags are those of other events."""
    rng = np.random.default_rng(1)
    events = [event for event in event_ids if event in tags]
    chosen = rng.choice(len(events), int(len(events) * _WRONG_SHARE), replace=False)
    sources = rng.permutation(chosen)
    changed = dict(tags)
    for position, source in zip(chosen.tolist(), sources.tolist(), strict=True):
        changed[events[position]] = tags[events[source]]
    return changed


def _rename_later(tags: dict[str, str], event_ids: Sequence[str]) -> dict[str, str]:
    """From the middle on, each tag has another name."""
    middle = len(event_ids) // 2
    later = set(event_ids[middle:])
    return {event: f"new {tag}" if event in later else tag for event, tag in tags.items()}


def _tag_alike(tags: dict[str, str], event_ids: Sequence[str]) -> dict[str, str]:
    """All events have the same tag."""
    return dict.fromkeys(tags, "done")


def _swap_later(tags: dict[str, str], event_ids: Sequence[str]) -> dict[str, str]:
    """From the middle on, each tag has the meaning of the next one."""
    names = sorted(set(tags.values()))
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    later = set(event_ids[len(event_ids) // 2 :])
    return {event: following[tag] if event in later else tag for event, tag in tags.items()}


_TAG_CHANGES: dict[str, TagChange] = {
    "10 % shuffled": _shuffle_some,
    "all alike": _tag_alike,
    "renamed in the middle": _rename_later,
    "other meaning from the middle on": _swap_later,
}


def _read_alerts(name: str) -> list[AlertContext]:
    """The alerts of a scenario; with their incidents, if these are left out one by one."""
    scenario = SCENARIOS[name]
    folder = SCENARIO_FOLDER / (scenario.alerts or name)
    alerts = read_alerts(folder / "alerts.jsonl.gz")
    if scenario.gap is not None:
        return [replace(alert, group=None) for alert in alerts]
    groups = read_groups(folder / "labels.csv.gz")
    return [replace(alert, group=groups.get(alert.event_id)) for alert in alerts]


def _evaluate_scenario(
    name: str, tags: Mapping[str, str] | None = None, *, only_learned: bool = False
) -> Estimates:
    """`tags`: what `learned` learns from; None: the kinds of the scenario.

    `only_learned`: whether no other measures are evaluated.
    """
    rankers = {LEARNED_MEASURE: make_learned(name, tags)}
    if not only_learned:
        own_rankers = {measure_name: rank_by(measure) for measure_name, measure in MEASURES.items()}
        rankers = {**own_rankers, **rankers, **BASELINES}
    return evaluate_scenario(name, rankers).estimates()


def make_learned(name: str, tags: Mapping[str, str] | None = None) -> Ranker:
    """The measure `learned` for a scenario. `tags`: None: the kinds of its alerts."""
    scenario = SCENARIOS[name]
    alerts = _read_alerts(name)
    gap = duration_to_micros(scenario.gap or timedelta(0))
    if tags is None:
        tags = read_kinds(name)
    resolutions = [
        Resolution(alert.event_id, tags[alert.event_id], alert.ts + gap)
        for alert in alerts
        if alert.event_id in tags
    ]
    return make_learned_ranker(alerts, resolutions, gap, scenario.gap is None)


def evaluate_scenario(name: str, rankers: Mapping[str, Ranker]) -> Evaluation:
    """Rank the candidates of each judged alert of a scenario."""
    scenario = SCENARIOS[name]
    alerts = _read_alerts(name)
    gains_by_event = read_judgements(SCENARIO_FOLDER / name / "qrels.csv.gz")

    def gains_of(candidates: CandidateSet) -> Gains:
        return gains_by_event.get(candidates.alert.event_id, {})

    gap = scenario.gap or timedelta(0)
    evaluation = evaluate(alerts, gains_of, rankers, gap=gap, leave_one_out=scenario.gap is None)
    corpus = JudgedCorpus(name, alerts, kinds=read_kinds(name), gap=gap)
    evaluation.episodes = corpus.number_episodes()
    print(f"{name}: {len(evaluation.queries)} judged alerts", flush=True)
    return evaluation


def _write_document(
    estimates_by_scenario: dict[str, Estimates], robustness: Sequence[Sequence[str]]
) -> None:
    lines = [
        *_format_estimates(estimates_by_scenario),
        "",
        "Calibration of the probabilities of a match, each from what was known before:",
        "",
        *_format_reliability(),
        "",
        "P@10 with wrong tags:",
        "",
        "| scenario | tags | " + " | ".join([LEARNED_MEASURE, *MEASURES]) + " |",
        "|" + "---|" * (3 + len(MEASURES)),
        *(f"| {' | '.join(row)} |" for row in robustness),
    ]
    replace_section(_DOCUMENT, _BEGIN_MARK, _END_MARK, lines)


def _format_estimates(estimates_by_scenario: dict[str, Estimates]) -> list[str]:
    """A Markdown table of all metrics by scenario and ranker."""
    lines = ["| scenario | | P@1 | P@5 | P@10 (95 %) | nDCG@10 (95 %) | MRR@10 |", "|" + "---|" * 7]
    for name, estimates in estimates_by_scenario.items():
        title = name
        if SCENARIOS[name].control:
            title = f"{name} (control)"
        for ranker, metrics in estimates.items():
            cells = (
                title,
                ranker,
                f"{metrics['p1'].value:.3f}",
                f"{metrics['p5'].value:.3f}",
                _format_interval(metrics["p10"]),
                _format_interval(metrics["ndcg10"]),
                f"{metrics['mrr10'].value:.3f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
            title = ""
    return lines


def _format_interval(estimate: MetricEstimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.2f}–{estimate.high:.2f})"


def _format_reliability() -> list[str]:
    """A Markdown table of the scenarios whose alerts have kinds."""
    lines = [
        "| scenario | episodes | without numbers | Brier score | of the past share | calibration "
        "error | of a perfect model | predicted → observed (episodes) |",
        "|" + "---|" * 8,
    ]
    for name, scenario in SCENARIOS.items():
        reliability = _measure_scenario_reliability(name, scenario)
        if reliability is None or reliability.match is None:
            continue
        match = reliability.match
        bins = []
        for part in match.bins:
            bins.append(f"{part.mean_predicted:.0%} → {part.observed_share:.0%} ({part.cases})")
        lines.append(
            f"| {name} | {match.episodes} | {match.withheld_share:.0%} "
            f"| {match.brier_score:.3f} | {match.baseline_brier_score:.3f} "
            f"| {match.calibration_error:.3f} | {match.perfect_calibration_error:.3f} "
            f"| {', '.join(bins)} |"
        )
    return lines


def _measure_scenario_reliability(name: str, scenario: Scenario) -> Reliability | None:
    """None if the scenario's alerts have no kinds, too few have one, or are those of another."""
    if not scenario.kind or scenario.gap is None or scenario.alerts is not None:
        return None
    corpus = JudgedCorpus(
        name,
        _read_alerts(name),
        kinds=read_kinds(name),
        gap=scenario.gap,
        measure=_OWN_MEASURE,
    )
    return measure_reliability(build_training_cases(corpus))


def read_kinds(name: str) -> dict[str, str]:
    """The kinds of a scenario by event ID, of alerts that have a value in each of its columns."""
    scenario = SCENARIOS[name]
    kinds = {}
    labels = SCENARIO_FOLDER / (scenario.alerts or name) / "labels.csv.gz"
    with gzip.open(labels, "rt", newline="") as rows:
        for row in csv.DictReader(rows):
            values = list(map(row.__getitem__, scenario.kind))
            if all(values):
                kinds[row["event_id"]] = " ".join(values)
    return kinds
