"""Noticing that tags have changed their meaning."""

import numpy as np

from recall.learning.change_detector import ChangeDetector


def test_calibrated_predictions_are_no_change() -> None:
    rng = np.random.default_rng(2)
    detector = ChangeDetector()
    for row in range(2000):
        probability = float(rng.uniform(0.2, 0.95))
        correct = bool(rng.random() < probability)
        assert not detector.add(row, probability, correct, predicted_at=row, known_at=row)


def test_confident_predictions_that_fail_in_a_row_are_a_change() -> None:
    detector = ChangeDetector()
    changed_rows = []
    for row in range(100):
        if detector.add(row, 0.9, row < 60, predicted_at=row, known_at=row):
            changed_rows.append(row)
            assert detector.reset() == row - 19
    assert changed_rows and 70 <= changed_rows[0] < 80


def test_events_of_one_outage_count_once() -> None:
    """All are predicted before the tag of the first is known."""
    detector = ChangeDetector()
    for row in range(40):
        assert not detector.add(row, 0.9, True, predicted_at=row, known_at=row)
    for row in range(40, 140):
        assert not detector.add(row, 0.9, False, predicted_at=40, known_at=row)
