"""An evaluation for people and for programs: rows of tables, JSON, a picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from archiver.times import from_micros
from recall.relevance import METRICS, Evaluation, Reliability

METRIC_TITLES = dict(zip(METRICS, ("P@1", "P@5", "P@10", "nDCG@10", "MRR@10"), strict=True))


@dataclass(frozen=True)
class EvaluationReport:
    """One set of judged queries. `own`: the measure that is in use, whose probabilities were put to the test."""

    name: str
    evaluation: Evaluation
    measure: str
    reliability: Reliability | None

    @property
    def query_count(self) -> int:
        return len(self.evaluation.queries)

    def to_json(self) -> dict[str, Any]:
        """Everything there is; times in UTC."""
        found = self.evaluation
        parts = [
            {
                "from": from_micros(p.first_ts),
                "to": from_micros(p.last_ts),
                "queries": p.queries,
                "p10": p.p10,
            }
            for p in found.periods()
            if self.query_count
        ]
        return {
            "name": self.name,
            "queries": self.query_count,
            "candidates": median(found.candidates) if found.candidates else None,
            "measure": self.measure,
            "rankers": {
                n: {m: asdict(e) for m, e in row.items()} for n, row in found.estimates().items()
            }
            if self.query_count
            else {},
            "over_time": parts,
            "comparable": None if self.reliability is None else asdict(self.reliability),
        }

    def ranker_rows(self) -> list[list[str]]:
        """A row for each ranker: its name, then each metric with its interval."""
        return [
            [name, *(f"{e.value:.3f} ({e.low:.2f}–{e.high:.2f})" for e in row.values())]
            for name, row in self.evaluation.estimates().items()
        ]

    def period_rows(self) -> tuple[list[str], list[list[str]]]:
        """P@10 in each part of the time: the heads of the columns, the rows."""
        parts = self.evaluation.periods()
        rows = [
            [
                f"{from_micros(p.first_ts):%Y-%m-%d}",
                f"{from_micros(p.last_ts):%Y-%m-%d}",
                str(p.queries),
            ]
            + [f"{value:.3f}" for value in p.p10.values()]
            for p in parts
        ]
        return ["from", "to", "queries", *self.evaluation.values], rows

    def reliability_rows(self) -> list[list[str]]:
        """How the probabilities held: what was said, how often, what was right."""
        if self.reliability is None:
            return []
        return [
            [
                f"{b.low:.0%}–{b.high:.0%}",
                str(b.cases),
                f"{b.mean_predicted:.0%}",
                f"{b.observed_share:.0%}",
            ]
            for b in self.reliability.bins
        ]


def draw_reports(reports: Sequence[EvaluationReport], path: Path) -> None:
    """A picture of all: P@10 with its intervals, and over time. The ending of `path` says in which format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6 * len(reports)), layout="constrained")
    grid = figure.subplots(len(reports), 2, squeeze=False)
    for (left, right), report in zip(grid, reports, strict=True):
        estimates = report.evaluation.estimates()
        names = list(estimates)
        p10 = [estimates[name]["p10"] for name in names]
        errors = [[e.value - e.low for e in p10], [e.high - e.value for e in p10]]
        left.barh(
            names,
            [e.value for e in p10],
            xerr=errors,
            color=[f"C{n}" for n in range(len(names))],
            capsize=3,
        )
        left.invert_yaxis()
        left.set_title(f"{report.name}: P@10, {report.query_count} judged events", fontsize=10)
        parts = report.evaluation.periods()
        ends = [from_micros(part.last_ts) for part in parts]
        for name in names:
            right.plot(
                ends, [part.p10[name] for part in parts], marker="o", markersize=3, label=name
            )
        right.set_title("P@10 over time", fontsize=10)
        right.tick_params(axis="x", rotation=30, labelsize=8)
        right.legend(fontsize=7)
    figure.savefig(path)
