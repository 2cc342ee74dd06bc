"""Notices that tags have changed their meaning: confident predictions fail one after the other. No I/O."""

from collections import deque

import numpy as np

# How many of the newest predictions are tested.
_WINDOW = 20
# Predictions of changed tags are right less often than expected by so many standard deviations,
_MIN_DEVIATIONS = 4.0
# and at most this share of them is right.
_MAX_CORRECT_SHARE = 0.3


class ChangeDetector:
    """Compares how often the most probable tag was right with how often it should have been.

    If predictions are calibrated and independent, the number of right ones has a mean of Σp and a
    variance of Σp(1 - p). Predictions of one outage are not independent: they are made before the
    tag of its first event is known. So a prediction is tested only if it was made after the one
    that was tested last was known to be right or wrong.
    """

    def __init__(self) -> None:
        # The probability of the most probable tag, and whether it was right.
        self._newest: deque[tuple[float, bool]] = deque(maxlen=_WINDOW)
        self._rows: deque[int] = deque(maxlen=_WINDOW)
        self._tested_at = 0

    def add(
        self, row: int, best_probability: float, correct: bool, *, predicted_at: int, known_at: int
    ) -> bool:
        """Add the outcome of a prediction. Returns whether the tags have changed their meaning.

        `predicted_at`, `known_at`: how many events were learned then.
        """
        if predicted_at < self._tested_at:
            return False
        self._tested_at = known_at + 1
        self._newest.append((best_probability, correct))
        self._rows.append(row)
        if len(self._newest) < _WINDOW:
            return False
        probabilities = np.array([probability for probability, _ in self._newest])
        correct_count = sum(is_correct for _, is_correct in self._newest)
        deviation = np.sqrt(max((probabilities * (1 - probabilities)).sum(), 1.0))
        missing = float(probabilities.sum()) - correct_count
        return bool(
            missing > _MIN_DEVIATIONS * deviation and correct_count <= _MAX_CORRECT_SHARE * _WINDOW
        )

    def reset(self) -> int:
        """Forget all outcomes. Returns the row of the oldest of them."""
        first_row = min(self._rows)
        self._newest.clear()
        self._rows.clear()
        self._tested_at = 0
        return first_row
