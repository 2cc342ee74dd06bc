"""What the scores of similarity recalls are worth, as it was learned from resolved alerts."""

from recall.confidence import load_calibration as known

__all__ = ["known"]
