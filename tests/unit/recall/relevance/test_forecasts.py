"""How forecasts hold on later events."""

import pytest

from recall.relevance.forecasts import measure_forecasts
from recall.relevance.rankers.learned_ranker import LearnedRanker
from tests.unit.recall.relevance.incidents import make_incidents

HOUR = 3_600_000_000  # microseconds


def test_probabilities_hold_and_are_better_than_frequencies_and_votes() -> None:
    corpus = make_incidents(300)
    ranker = LearnedRanker(corpus.alerts, corpus.resolutions(), HOUR)
    reliability = measure_forecasts(corpus.alerts, ranker, corpus.kinds)
    assert reliability is not None
    assert reliability.queries == pytest.approx(700, abs=5)
    assert len(reliability.bins) == 15
    assert reliability.calibration_error < 0.1
    assert reliability.log_loss < reliability.frequency_log_loss
    assert reliability.log_loss < reliability.vote_log_loss
    assert 0.7 < reliability.accuracy < 0.9


def test_too_few_resolutions_are_not_tested() -> None:
    corpus = make_incidents(20)
    ranker = LearnedRanker(corpus.alerts, corpus.resolutions(), HOUR)
    assert measure_forecasts(corpus.alerts, ranker, corpus.kinds) is None
