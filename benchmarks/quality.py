"""Recall quality: each measure on all scenarios of judged alerts, beside simple guesses, and how
probabilities hold.

The scenarios lie beside the checkout, or where MOIRAE_DATA says. Nothing is tuned here: measures
have no parameters.
"""

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from moirae.feedback import (
    JudgedCorpus,
    build_training_cases,
    read_alerts,
    read_groups,
    read_judgements,
)
from recall.relevance import (
    BASELINES,
    AlertContext,
    MetricEstimate,
    evaluate,
    measure_reliability,
    rank_by,
)
from recall.similarity import MEASURES

SCENARIO_FOLDER = (
    Path(os.environ.get("MOIRAE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    / "scenarios"
)
_DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "quality.md"
_BEGIN_MARK, _END_MARK = "<!-- quality: begin -->", "<!-- quality: end -->"
_OWN_MEASURE = "attributes"


@dataclass(frozen=True)
class Scenario:
    """How a scenario is asked: its gap, or None for leave-one-out over incidents; the columns of
    its labels that make an alert's kind; `control`: where no measure can be better than chance.
    """

    gap: timedelta | None
    alerts: str | None = None
    kind: tuple[str, ...] = ()
    control: bool = False


SCENARIOS = {
    "bgl_incident": Scenario(timedelta(hours=6), kind=("failure_class",)),
    "itsm_opened": Scenario(timedelta(hours=1), kind=("closed_code", "resolved_by")),
    "itsm_problem": Scenario(timedelta(hours=1), alerts="itsm_opened"),
    "lanl_nodefail": Scenario(timedelta(hours=6), kind=("cause", "cause_detail")),
    "petshop_slo": Scenario(None),
    "nezha_incident": Scenario(None),
    "nezha_incident_metrics_only": Scenario(None),
    "nezha_pod": Scenario(None, control=True),
}


def run() -> list[BenchmarkResult]:
    """Rows for P@10 and nDCG@10; the whole tables go to `docs/reference/quality.md`."""
    noise = [time_noise_kernel()]
    found = {name: _evaluate_scenario(name) for name in SCENARIOS}
    noise.append(time_noise_kernel())
    _write_document(found, _reliability_table())
    counted = [rows for name, rows in found.items() if not SCENARIOS[name].control]
    return [
        _result_row(counted, metric, title, noise)
        for metric, title in (("p10", "P@10"), ("ndcg10", "nDCG@10"))
    ]


def _result_row(
    counted: Sequence[dict[str, dict[str, MetricEstimate]]],
    metric: str,
    title: str,
    noise: Sequence[float],
) -> BenchmarkResult:
    means = {n: sum(rows[n][metric].value for rows in counted) / len(counted) for n in counted[0]}
    below = sum(
        rows[_OWN_MEASURE][metric].value
        < max((rows["tfidf"][metric], rows["binary"][metric]), key=lambda e: e.value).low
        for rows in counted
    )
    beside = {
        **{n: round(value, 4) for n, value in means.items() if n != _OWN_MEASURE},
        "scenarios_below": float(below),
    }
    what = f"mean {title} of `{_OWN_MEASURE}` over {len(counted)} scenarios"
    return make_result(
        "Q",
        what,
        [round(means[_OWN_MEASURE], 4)],
        "> tfidf, > binary, below neither's interval",
        beside,
        noise,
    )


def _read_alerts(name: str) -> list[AlertContext]:
    scenario = SCENARIOS[name]
    folder = SCENARIO_FOLDER / (scenario.alerts or name)
    groups = read_groups(folder / "labels.csv.gz") if scenario.gap is None else {}
    return [
        replace(alert, group=groups.get(alert.event_id))
        for alert in read_alerts(folder / "alerts.jsonl.gz")
    ]


def _evaluate_scenario(name: str) -> dict[str, dict[str, MetricEstimate]]:
    scenario = SCENARIOS[name]
    gains = read_judgements(SCENARIO_FOLDER / name / "qrels.csv.gz")
    rankers = {**{n: rank_by(measure) for n, measure in MEASURES.items()}, **BASELINES}
    leave_one_out, gap = scenario.gap is None, scenario.gap or timedelta(0)
    found = evaluate(
        _read_alerts(name),
        lambda asked: gains.get(asked.alert.event_id, {}),
        rankers,
        gap,
        leave_one_out,
    )
    print(f"{name}: {len(found.queries)} judged", flush=True)
    return found.estimates()


def _reliability_table() -> list[str]:
    lines = [
        "| scenario | trained on | tested on | Brier score | Brier score of the mean "
        "| predicted → observed (events) |",
        "|" + "---|" * 6,
    ]
    for name, scenario in SCENARIOS.items():
        if not scenario.kind or scenario.gap is None:
            continue
        with gzip.open(SCENARIO_FOLDER / name / "labels.csv.gz", "rt", newline="") as rows:
            kinds = {
                row["event_id"]: " ".join(row[column] for column in scenario.kind)
                for row in csv.DictReader(rows)
                if all(row[column] for column in scenario.kind)
            }
        tested = measure_reliability(
            build_training_cases(
                JudgedCorpus(
                    name, _read_alerts(name), kinds, gap=scenario.gap, measure=_OWN_MEASURE
                )
            )
        )
        if tested is not None:
            bins = ", ".join(
                f"{b.mean_predicted:.0%} → {b.observed_share:.0%} ({b.cases})" for b in tested.bins
            )
            lines.append(
                f"| {name} | {tested.training_cases} | {tested.test_cases} "
                f"| {tested.brier_score:.3f} | {tested.baseline_brier_score:.3f} | {bins} |"
            )
    return lines


def _write_document(
    found: dict[str, dict[str, dict[str, MetricEstimate]]], probabilities: list[str]
) -> None:
    lines = ["| scenario | | P@1 | P@5 | P@10 (95 %) | nDCG@10 (95 %) | MRR@10 |", "|" + "---|" * 7]
    for name, rows in found.items():
        shown = f"{name} (control)" if SCENARIOS[name].control else name
        for ranker, e in rows.items():
            intervals = (
                f"{e[m].value:.3f} ({e[m].low:.2f}–{e[m].high:.2f})" for m in ("p10", "ndcg10")
            )
            p10, ndcg = intervals
            lines.append(
                f"| {shown} | {ranker} | {e['p1'].value:.3f} | {e['p5'].value:.3f} | {p10} | "
                f"{ndcg} "
                f"| {e['mrr10'].value:.3f} |"
            )
            shown = ""
    text = _DOCUMENT.read_text()
    before, after = text.split(_BEGIN_MARK)[0], text.split(_END_MARK)[1]
    tables = "\n".join(
        [
            *lines,
            "",
            "Calibration of the probabilities, on the latest 30 % of the alerts:",
            "",
            *probabilities,
        ]
    )
    _DOCUMENT.write_text(f"{before}{_BEGIN_MARK}\n{tables}\n{_END_MARK}{after}")
