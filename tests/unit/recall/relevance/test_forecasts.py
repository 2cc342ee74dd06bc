"""How forecasts hold on later events."""

from dataclasses import replace

import pytest

from recall.relevance.forecasts import measure_forecasts
from recall.relevance.rankers.learned_ranker import LearnedRanker
from tests.unit.recall.relevance.incidents import make_incidents

HOUR = 3_600_000_000  # microseconds


@pytest.mark.slow
def test_probabilities_hold_and_are_better_than_frequencies_and_votes() -> None:
    corpus = make_incidents(300)
    ranker = LearnedRanker(corpus.alerts, corpus.resolutions(), HOUR)
    episodes = corpus.number_episodes()
    reliability = measure_forecasts(corpus.alerts, ranker, corpus.kinds, episodes)
    assert reliability is not None
    assert reliability.queries == pytest.approx(1190, abs=5)
    assert reliability.episodes == reliability.queries
    assert len(reliability.bins) == 15
    assert reliability.calibration_error < 0.1
    assert 0.01 < reliability.perfect_calibration_error < 0.1
    assert reliability.log_loss < reliability.frequency_log_loss
    assert reliability.log_loss < reliability.vote_log_loss
    assert reliability.excess_log_loss.high < 0
    assert 0.7 < reliability.accuracy < 0.9


def test_thirty_resolutions_are_tested_and_fewer_are_not() -> None:
    corpus = make_incidents(10)
    for count, is_tested in ((30, True), (24, False)):
        alerts = list(corpus.alerts)[:count]
        kinds = {alert.event_id: corpus.kinds[alert.event_id] for alert in alerts}
        part = replace(corpus, alerts=alerts, kinds=kinds)
        ranker = LearnedRanker(alerts, part.resolutions(), HOUR)
        reliability = measure_forecasts(alerts, ranker, kinds, part.number_episodes())
        assert (reliability is not None) is is_tested
