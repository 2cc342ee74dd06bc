"""Simple guesses at the past events most alike, beside which a measure has to prove itself."""

from zlib import crc32

import numpy as np

from recall.similarity.corpus import Floats
from recall.similarity.run import Question, Ranker


def recency(question: Question) -> Floats:
    """The candidates nearest in time."""
    times = np.array(question.past.corpus.times[: question.size], dtype=np.int64)
    nearness: Floats = 1 / (1 + np.abs(times - question.alert.ts))
    return nearness


def same_place(question: Question) -> Floats:
    """The candidates of the same place, then the others; the nearest in time first."""
    here = [alert.place is not None and alert.place == question.alert.place for alert in question.candidates]
    return recency(question) + np.array(here, dtype=np.float64)


def chance(question: Question) -> Floats:
    """Any order, the same whenever it is asked for."""
    order = np.random.default_rng(crc32(question.alert.event_id.encode()))
    scores: Floats = order.random(question.size) + 1e-9
    return scores


BASELINES: dict[str, Ranker] = {"recency": recency, "same place": same_place, "chance": chance}
