"""Recall quality: each measure on all scenarios of judged alerts, beside simple guesses, and how probabilities hold.

The scenarios lie beside the checkout, or where MOIRAE_DATA says. Nothing is tuned here: measures have no parameters.
"""

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from benchmarks.results import Result, kernel, result
from moirae.evaluation.cases import cases
from moirae.evaluation.files import read_alerts, read_groups, read_judgements
from moirae.evaluation.judged import Judged
from recall.similarity.baselines import BASELINES
from recall.similarity.calibration import reliability
from recall.similarity.measure import MEASURES
from recall.similarity.quality import Estimate, evaluate
from recall.similarity.run import Alert, by

DATA = Path(os.environ.get("MOIRAE_DATA") or Path(__file__).parents[2] / "shared" / "data") / "scenarios"
_DOCUMENT = Path(__file__).parents[1] / "docs" / "similarity.md"
_BEGIN, _END = "<!-- quality: begin -->", "<!-- quality: end -->"
_OWN = "attributes"


@dataclass(frozen=True)
class Scenario:
    """How a scenario is asked: its gap, or None for leave-one-out over incidents; the columns of its labels that make
    an alert's kind; `control`: where no measure can be better than chance."""

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


def run() -> list[Result]:
    """Rows for P@10 and nDCG@10; the whole tables go to `docs/similarity.md`."""
    noise = [kernel()]
    found = {name: _evaluated(name) for name in SCENARIOS}
    noise.append(kernel())
    _write(found, _reliability())
    counted = [rows for name, rows in found.items() if not SCENARIOS[name].control]
    return [_row(counted, metric, title, noise) for metric, title in (("p10", "P@10"), ("ndcg10", "nDCG@10"))]


def _row(counted: Sequence[dict[str, dict[str, Estimate]]], metric: str, title: str, noise: Sequence[float]) -> Result:
    means = {n: sum(rows[n][metric].value for rows in counted) / len(counted) for n in counted[0]}
    below = sum(
        rows[_OWN][metric].value < max((rows["tfidf"][metric], rows["binary"][metric]), key=lambda e: e.value).low
        for rows in counted
    )
    beside = {**{n: round(value, 4) for n, value in means.items() if n != _OWN}, "scenarios_below": float(below)}
    what = f"mean {title} of `{_OWN}` over {len(counted)} scenarios"
    return result("Q", what, [round(means[_OWN], 4)], "> tfidf, > binary, below neither's interval", beside, noise)


def _alerts(name: str) -> list[Alert]:
    scenario = SCENARIOS[name]
    folder = DATA / (scenario.alerts or name)
    groups = read_groups(folder / "labels.csv.gz") if scenario.gap is None else {}
    return [replace(alert, group=groups.get(alert.event_id)) for alert in read_alerts(folder / "alerts.jsonl.gz")]


def _evaluated(name: str) -> dict[str, dict[str, Estimate]]:
    scenario = SCENARIOS[name]
    gains = read_judgements(DATA / name / "qrels.csv.gz")
    rankers = {**{n: by(measure) for n, measure in MEASURES.items()}, **BASELINES}
    leave_one_out, gap = scenario.gap is None, scenario.gap or timedelta(0)
    found = evaluate(_alerts(name), lambda asked: gains.get(asked.alert.event_id, {}), rankers, gap, leave_one_out)
    print(f"{name}: {len(found.queries)} judged", flush=True)
    return found.estimates()


def _reliability() -> list[str]:
    lines = [
        "| scenario | learned from | tested on | Brier score | of the mean | said → was right (events) |",
        "|" + "---|" * 6,
    ]
    for name, scenario in SCENARIOS.items():
        if not scenario.kind or scenario.gap is None:
            continue
        with gzip.open(DATA / name / "labels.csv.gz", "rt", newline="") as rows:
            kinds = {
                row["event_id"]: " ".join(row[column] for column in scenario.kind)
                for row in csv.DictReader(rows)
                if all(row[column] for column in scenario.kind)
            }
        tested = reliability(cases(Judged(name, _alerts(name), kinds, gap=scenario.gap, measure=_OWN)))
        if tested is not None:
            bins = ", ".join(f"{b.said:.0%} → {b.right:.0%} ({b.cases})" for b in tested.bins)
            lines.append(
                f"| {name} | {tested.learned} | {tested.tested} | {tested.brier:.3f} | {tested.plain:.3f} | {bins} |"
            )
    return lines


def _write(found: dict[str, dict[str, dict[str, Estimate]]], probabilities: list[str]) -> None:
    lines = ["| scenario | | P@1 | P@5 | P@10 (95 %) | nDCG@10 (95 %) | MRR@10 |", "|" + "---|" * 7]
    for name, rows in found.items():
        shown = f"{name} (control)" if SCENARIOS[name].control else name
        for ranker, e in rows.items():
            intervals = (f"{e[m].value:.3f} ({e[m].low:.2f}–{e[m].high:.2f})" for m in ("p10", "ndcg10"))
            p10, ndcg = intervals
            lines.append(
                f"| {shown} | {ranker} | {e['p1'].value:.3f} | {e['p5'].value:.3f} | {p10} | {ndcg} "
                f"| {e['mrr10'].value:.3f} |"
            )
            shown = ""
    text = _DOCUMENT.read_text()
    before, after = text.split(_BEGIN)[0], text.split(_END)[1]
    tables = "\n".join([*lines, "", "How the probabilities held, on the later 30 % of the alerts:", "", *probabilities])
    _DOCUMENT.write_text(f"{before}{_BEGIN}\n{tables}\n{_END}{after}")
