"""Reports of evaluations: rows of tables, JSON and charts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from archiver.times import from_micros
from moirae.errors import MoiraeError
from recall.relevance import (
    FIRST_RESOLUTIONS,
    METRICS,
    MIN_QUERIES,
    Evaluation,
    ForecastReliability,
    LearningStage,
    MetricEstimate,
    OutcomeReliability,
    Reliability,
)
from recall.similarity.measures import LEARNED_MEASURE

METRIC_TITLES = dict(zip(METRICS, ("P@1", "P@5", "P@10", "nDCG@10", "MRR@10"), strict=True))
_REPORT_HEIGHT = 3.6  # inches
# With fewer episodes, intervals are too wide to compare rankings.
_MIN_EPISODES = 20


@dataclass(frozen=True)
class EvaluationReport:
    """The evaluation of one set of judged queries.

    `measure`: the measure in use, which `reliability` is about. `reliability`: None if it was not
    tested.
    """

    name: str
    evaluation: Evaluation
    measure: str
    reliability: Reliability | None
    forecasts: ForecastReliability | None = None
    leave_one_out: bool = False

    @property
    def query_count(self) -> int:
        return len(self.evaluation.queries)

    def to_json(self) -> dict[str, Any]:
        """All figures. Times are in UTC."""
        rankers = {}
        candidates = None
        ceilings = {}
        if self.query_count:
            ceilings = self.evaluation.ceilings()
            candidates = median(self.evaluation.candidates)
            for name, estimates in self.evaluation.estimates().items():
                rankers[name] = {metric: asdict(value) for metric, value in estimates.items()}
        periods = []
        for period in self.evaluation.periods():
            periods.append(
                {
                    "from": from_micros(period.first_ts),
                    "to": from_micros(period.last_ts),
                    "queries": period.queries,
                    "p10": period.p10,
                }
            )
        reliability = None
        if self.reliability is not None:
            reliability = asdict(self.reliability)
        return {
            "name": self.name,
            "queries": self.query_count,
            "episodes": self.evaluation.episode_count,
            "candidates": candidates,
            "ceilings": ceilings,
            "warnings": self.warnings(),
            "measure": self.measure,
            "rankers": rankers,
            "over_time": periods,
            "by_resolutions": [asdict(stage) for stage in self._stages()],
            "reliability": reliability,
            "forecasts": None if self.forecasts is None else asdict(self.forecasts),
        }

    def ranker_rows(self) -> list[list[str]]:
        """A row for each ranker: its name, and each metric with its confidence interval."""
        rows = []
        for name, estimates in self.evaluation.estimates().items():
            rows.append([name, *map(_format_estimate, estimates.values())])
        ceilings = self.evaluation.ceilings() if rows else {}
        rows.append(["ceiling", *(f"{value:.3f}" for value in ceilings.values())])
        return rows

    def warnings(self) -> list[str]:
        """What the figures do not say, and what they say against the measure; sentences."""
        sentences = []
        if self.query_count and self.evaluation.episode_count < _MIN_EPISODES:
            sentences.append(
                f"Too little to say which ranking is better: the judged events are of "
                f"{self.evaluation.episode_count} episodes, and at least {_MIN_EPISODES} are needed."
            )
        learned = self.evaluation.values.get(LEARNED_MEASURE)
        if learned and self.forecasts is None and not self.leave_one_out:
            sentences.append(
                f"Too little to say how probabilities of resolutions held: at least {MIN_QUERIES} "
                f"events of known tag after the first {FIRST_RESOLUTIONS} are needed."
            )
        if self.forecasts is not None and self.forecasts.excess_log_loss.low > 0:
            sentences.append(
                "The probabilities of resolutions are worse than the past frequencies of tags: "
                "their log loss is higher by "
                f"{_format_estimate(self.forecasts.excess_log_loss)}."
            )
        if self.measure != LEARNED_MEASURE and self.reliability is None and not self.leave_one_out:
            sentences.append(
                "Too few judged events to learn how probable it is that the best hit is relevant "
                f"({self.measure})."
            )
        return sentences

    def period_rows(self) -> tuple[list[str], list[list[str]]]:
        """The mean P@10 in each period, as column titles and rows."""
        rows = []
        for period in self.evaluation.periods():
            first = f"{from_micros(period.first_ts):%Y-%m-%d}"
            last = f"{from_micros(period.last_ts):%Y-%m-%d}"
            values = [f"{value:.3f}" for value in period.p10.values()]
            rows.append([first, last, str(period.queries), *values])
        return ["from", "to", "queries", *self.evaluation.values], rows

    def _stages(self) -> list[LearningStage]:
        return self.evaluation.learning_stages() if self.evaluation.resolutions else []

    def stage_rows(self) -> tuple[list[str], list[list[str]]]:
        """P@10 by the number of known tags, as column titles and rows."""
        rows = []
        for stage in self._stages():
            span = f"{stage.low:,} or more"
            if stage.high is not None:
                span = f"{stage.low:,}–{stage.high - 1:,}"
            rows.append([span, str(stage.queries), *map(_format_estimate, stage.p10.values())])
        return ["known tags", "queries", *self.evaluation.values], rows

    def forecast_rows(self) -> list[list[str]]:
        """Bins of equal size: mean probability of the best tag, events, share that had it."""
        rows = []
        if self.forecasts is not None:
            for part in self.forecasts.bins:
                share = f"{part.observed_share:.0%}"
                rows.append([f"{part.mean_predicted:.0%}", str(part.queries), share])
        return rows

    def reliability_rows(self) -> list[list[str]]:
        """Predicted probabilities of a match, then of nothing comparable: what is predicted, range,
        number of episodes, mean, share in which it came true.
        """
        rows: list[list[str]] = []
        if self.reliability is not None:
            rows += _bin_rows("match", self.reliability.match)
            rows += _bin_rows("nothing comparable", self.reliability.nothing_comparable)
        return rows


def _bin_rows(outcome: str, reliability: OutcomeReliability | None) -> list[list[str]]:
    rows = []
    for row in reliability.bins if reliability is not None else ():
        interval = f"{row.low:.0%}–{row.high:.0%}"
        shares = f"{row.mean_predicted:.0%}", f"{row.observed_share:.0%}"
        rows.append([outcome, interval, str(row.cases), *shares])
    return rows


def _format_estimate(estimate: MetricEstimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.2f}–{estimate.high:.2f})"


def draw_reports(reports: Sequence[EvaluationReport], path: Path) -> None:
    """Draw P@10 of each report, with confidence intervals and over time.

    The suffix of `path` determines the format. Raises `OSError`, and `MoiraeError` if matplotlib
    is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MoiraeError(
            "a chart requires matplotlib, which is not installed: pip install matplotlib"
        ) from error

    figure = Figure(figsize=(18, _REPORT_HEIGHT * len(reports)), layout="constrained")
    grid = figure.subplots(len(reports), 3, squeeze=False)
    for (estimates_axes, periods_axes, stages_axes), report in zip(grid, reports, strict=True):
        _draw_estimates(estimates_axes, report)
        _draw_periods(periods_axes, report)
        _draw_stages(stages_axes, report)
    figure.savefig(path)


def _draw_estimates(axes: Any, report: EvaluationReport) -> None:
    """`axes`: `matplotlib.axes.Axes`."""
    names, colors, values, errors = [], [], [], []
    for number, (name, estimates) in enumerate(report.evaluation.estimates().items()):
        p10 = estimates["p10"]
        names.append(name)
        colors.append(f"C{number}")
        values.append(p10.value)
        errors.append((p10.value - p10.low, p10.high - p10.value))
    axes.barh(names, values, xerr=list(zip(*errors, strict=True)), color=colors, capsize=3)
    axes.invert_yaxis()
    axes.set_title(f"{report.name}: P@10, {report.query_count} judged events", fontsize=10)


def _draw_periods(axes: Any, report: EvaluationReport) -> None:
    periods = report.evaluation.periods()
    end_times = [from_micros(period.last_ts) for period in periods]
    for name in report.evaluation.values:
        values = [period.p10[name] for period in periods]
        axes.plot(end_times, values, marker="o", markersize=3, label=name)
    axes.set_title("P@10 over time", fontsize=10)
    axes.tick_params(axis="x", rotation=30, labelsize=8)
    axes.legend(fontsize=7)


def _draw_stages(axes: Any, report: EvaluationReport) -> None:
    """The learning curve: P@10 by the number of known tags."""
    stages = report.evaluation.learning_stages() if report.evaluation.resolutions else []
    lows = [f"{stage.low:,}+" for stage in stages]
    for name in report.evaluation.values:
        values = [stage.p10[name].value for stage in stages]
        axes.plot(lows, values, marker="o", markersize=3, label=name)
    axes.set_title("P@10 by known tags", fontsize=10)
    axes.tick_params(labelsize=8)
