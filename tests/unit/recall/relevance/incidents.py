"""A generated corpus of incidents of known kind, for tests of evaluation and calibration."""

from datetime import timedelta

import numpy as np

from moirae.feedback.judgements import JudgedCorpus
from recall.relevance.rankers.ready_contexts import AlertContext

DAY = 86_400_000_000  # microseconds
_KINDS = ("disk", "cpu", "net")


def make_incidents(days: int, seed: int = 1) -> JudgedCorpus:
    """Four incidents a day of three kinds. Most contexts have a message of the incident's kind."""
    rng = np.random.default_rng(seed)
    alerts, kinds = [], {}
    for number in range(days * 4):
        kind = _KINDS[int(rng.integers(3))]
        message = kind if rng.random() < 0.7 else _KINDS[int(rng.integers(3))]
        term_counts = {
            f"msg={message}{int(rng.integers(3))}": 1,
            f"host=n{int(rng.integers(5))}": 1,
            "all=1": 1,
        }
        event_id, location = f"e{number}", f"n{number % 5}"
        alerts.append(
            AlertContext(event_id, "t", number * DAY // 4, term_counts, location=location)
        )
        kinds[event_id] = kind
    return JudgedCorpus("incidents", alerts, kinds, gap=timedelta(hours=1))
