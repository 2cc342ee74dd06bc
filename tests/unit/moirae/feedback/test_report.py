"""Reports of evaluations as JSON, table rows and charts."""

import sys
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest

from moirae.errors import MoiraeError
from moirae.feedback.report import EvaluationReport, draw_reports
from recall.relevance.calibration import OutcomeReliability, Reliability, ReliabilityBin
from recall.relevance.forecasts import ForecastBin, ForecastReliability
from recall.relevance.quality import METRICS, Evaluation, MetricEstimate, evaluate
from recall.relevance.rankers.baselines import BASELINES
from recall.relevance.rankers.ready_contexts import rank_by
from recall.similarity.measures import MEASURES
from tests.unit.recall.relevance.incidents import make_incidents

MATCH = OutcomeReliability(
    100, 0.2, 0.1, 0.2, 0.05, 0.04, [ReliabilityBin(0.9, 1.0, 30, 0.95, 0.9)]
)
RELIABILITY = Reliability(MATCH, None)


def make_forecasts(excess_log_loss: MetricEstimate) -> ForecastReliability:
    return ForecastReliability(
        queries=40,
        episodes=30,
        calibration_error=0.05,
        perfect_calibration_error=0.04,
        accuracy=0.6,
        log_loss=1.0,
        frequency_log_loss=2.0,
        vote_log_loss=1.5,
        excess_log_loss=excess_log_loss,
        bins=[ForecastBin(20, 0.4, 0.35), ForecastBin(20, 0.8, 0.9)],
        withheld_share=0.25,
    )


@pytest.fixture(name="report", scope="module")
def _report() -> EvaluationReport:
    corpus = make_incidents(10)
    rankers = {"tfidf": rank_by(MEASURES["tfidf"]), "recency": BASELINES["recency"]}
    evaluation = evaluate(corpus.alerts, corpus.gains_of, rankers, corpus.gap)
    return EvaluationReport("incidents", evaluation, "tfidf", RELIABILITY)


def test_json_has_all_figures(report: EvaluationReport) -> None:
    figures = report.to_json()
    assert figures["queries"] == report.query_count > 30
    assert figures["rankers"].keys() == {"tfidf", "recency"}
    assert tuple(figures["rankers"]["tfidf"]) == METRICS
    assert figures["rankers"]["tfidf"]["p10"].keys() == {"value", "low", "high"}
    assert [period.keys() for period in figures["over_time"]] == [
        {"from", "to", "queries", "p10"}
    ] * len(report.evaluation.periods())
    assert figures["reliability"] == {"match": asdict(MATCH), "nothing_comparable": None}


def test_json_of_an_evaluation_without_judged_events_is_empty() -> None:
    corpus = make_incidents(1)
    evaluation = evaluate(corpus.alerts, lambda _: {}, {}, timedelta(0))
    assert EvaluationReport("none", evaluation, "tfidf", None).to_json() == {
        "name": "none",
        "queries": 0,
        "episodes": 0,
        "candidates": None,
        "ceilings": {},
        "warnings": [
            "Too few judged events to learn how probable it is that the best hit is relevant (tfidf)."
        ],
        "measure": "tfidf",
        "rankers": {},
        "over_time": [],
        "by_resolutions": [],
        "reliability": None,
        "forecasts": None,
    }


def test_learning_stages_and_forecasts_have_rows() -> None:
    corpus = make_incidents(1)
    evaluation = evaluate(
        corpus.alerts,
        lambda candidates: {"e0": 1} if candidates.candidate_count else {},
        {"tfidf": rank_by(MEASURES["tfidf"])},
        timedelta(0),
        count_resolutions=lambda candidates: candidates.candidate_count * 30,
    )
    forecasts = make_forecasts(MetricEstimate(-1.0, -1.2, -0.8))
    report = EvaluationReport("file", evaluation, "learned", None, forecasts)
    titles, rows = report.stage_rows()
    assert titles == ["known tags", "queries", "tfidf"]
    assert [row[:2] for row in rows] == [["10–49", "1"], ["50–199", "2"]]
    assert report.forecast_rows() == [["40%", "20", "35%"], ["80%", "20", "90%"]]
    assert report.to_json()["forecasts"]["calibration_error"] == 0.05


def test_rows_are_formatted_for_tables(report: EvaluationReport) -> None:
    names = [row[0] for row in report.ranker_rows()]
    assert names == ["tfidf", "recency", "ceiling"]
    assert all(len(row) == 1 + len(METRICS) for row in report.ranker_rows())
    titles, rows = report.period_rows()
    assert titles == ["from", "to", "queries", "tfidf", "recency"]
    assert rows[0][0] == "1970-01-01"
    assert report.reliability_rows() == [["match", "90%–100%", "30", "95%", "90%"]]


def test_untested_probabilities_have_no_rows() -> None:
    assert EvaluationReport("none", Evaluation(), "tfidf", None).reliability_rows() == []


@pytest.mark.slow
def test_chart_is_written_in_the_format_of_its_suffix(
    report: EvaluationReport, tmp_path: Path
) -> None:
    path = tmp_path / "report.svg"
    draw_reports([report], path)
    assert b"<svg" in path.read_bytes()


def test_missing_matplotlib_is_reported(
    report: EvaluationReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MoiraeError, match="pip install matplotlib"):
        draw_reports([report], tmp_path / "report.svg")


def test_forecasts_worse_than_frequencies_are_a_warning(report: EvaluationReport) -> None:
    forecasts = make_forecasts(MetricEstimate(0.5, 0.1, 0.9))
    warning = replace(report, forecasts=forecasts).warnings()[-1]
    assert "worse than the past frequencies" in warning and "0.500 (0.10–0.90)" in warning
    better = make_forecasts(MetricEstimate(-0.5, -0.9, -0.1))
    assert warning not in replace(report, forecasts=better).warnings()


def test_few_episodes_and_untested_probabilities_are_a_warning(report: EvaluationReport) -> None:
    one_episode = dict.fromkeys((alert.event_id for alert in report.evaluation.queries), 0)
    values = {**report.evaluation.values, "learned": report.evaluation.values["tfidf"]}
    evaluation = replace(report.evaluation, episodes=one_episode, values=values)
    texts = " ".join(EvaluationReport("few", evaluation, "tfidf", None).warnings())
    assert "are of 1 episodes, and at least 20 are needed" in texts
    assert "how probabilities of resolutions held" in texts
    assert "Too few judged events to learn" in texts
