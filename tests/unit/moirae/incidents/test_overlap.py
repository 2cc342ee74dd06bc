"""Overlaps: rare features weigh more, old alerts less, and what is old is forgotten."""

from uuid import UUID

import pytest

from moirae.incidents import overlap
from moirae.incidents.alert_features import AlertFeatures
from moirae.incidents.overlap import HISTORY, Overlaps

HALF_LIFE = 300_000_000
INCIDENT = UUID(int=1)


def make_alert(start: int, *terms: str) -> AlertFeatures:
    return AlertFeatures(UUID(int=start), "", start, {"context": dict.fromkeys(terms, 1.0)})


def compare(overlaps: Overlaps, alert: AlertFeatures) -> float:
    overlaps.count(alert)
    found = overlaps.compare(overlaps.weigh(alert), alert.start, HALF_LIFE)
    return found.get(INCIDENT, {}).get("context", 0.0)


def add(overlaps: Overlaps, alert: AlertFeatures) -> None:
    overlaps.count(alert)
    overlaps.add(INCIDENT, alert.start, overlaps.weigh(alert))


def test_overlap_is_the_mean_of_cosines() -> None:
    overlaps = Overlaps(HALF_LIFE)
    for terms in (("a", "b"), ("c", "d")):
        add(overlaps, make_alert(0, *terms))
    # Counts change while alerts are added: by symmetry each cosine is of equal weights.
    assert compare(overlaps, make_alert(0, "a", "b")) == pytest.approx(0.5, abs=0.01)


def test_older_alerts_count_half_for_each_half_life() -> None:
    overlaps = Overlaps(HALF_LIFE)
    add(overlaps, make_alert(0, "a"))
    add(overlaps, make_alert(HALF_LIFE, "b"))
    assert compare(overlaps, make_alert(HALF_LIFE, "a")) == pytest.approx(1 / 3)
    assert compare(overlaps, make_alert(HALF_LIFE, "b")) == pytest.approx(2 / 3)


def test_rare_terms_weigh_more() -> None:
    overlaps = Overlaps(HALF_LIFE)
    for number in range(50):
        overlaps.count(make_alert(0, "common", f"x{number}"))
    add(overlaps, make_alert(0, "common", "rare", "other"))
    shares_rare = compare(overlaps, make_alert(1, "rare", "y"))
    assert shares_rare > 5 * compare(overlaps, make_alert(1, "common", "z"))


def test_features_of_old_alerts_count_while_there_are_few_newer_ones() -> None:
    overlaps = Overlaps(HALF_LIFE)
    for _ in range(20):
        overlaps.count(make_alert(0, "a"))
    newest = make_alert(HISTORY + 1, "a", "b")
    overlaps.count(newest)
    weights = overlaps.weigh(newest)["context"]
    assert weights["b"] > 20 * weights["a"]


def test_features_of_old_alerts_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MIN_COUNTED", 1)
    overlaps = Overlaps(HALF_LIFE)
    for _ in range(20):
        overlaps.count(make_alert(0, "a"))
    newest = make_alert(HISTORY + 1, "a", "b")
    overlaps.count(newest)
    weights = overlaps.weigh(newest)["context"]
    assert weights["a"] == weights["b"]


def test_forgotten_incidents_are_not_compared() -> None:
    overlaps = Overlaps(HALF_LIFE)
    add(overlaps, make_alert(0, "a"))
    overlaps.forget(1)
    assert overlaps.last(INCIDENT) is None
    assert compare(overlaps, make_alert(0, "a")) == 0.0


def test_late_alert_is_compared_with_the_newest() -> None:
    overlaps = Overlaps(HALF_LIFE)
    add(overlaps, make_alert(HALF_LIFE, "a"))
    assert compare(overlaps, make_alert(1, "a")) == pytest.approx(1.0)
    add(overlaps, make_alert(1, "a"))
    assert overlaps.last(INCIDENT) == HALF_LIFE
