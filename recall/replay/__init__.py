"""Replay: compute the stored answers of recalls again from the inputs recorded with them."""

from recall.replay.outcome import ReplayedAnswer, Replayer, replay
from recall.replay.similar_answers import SimilarReplayer
from recall.replay.sql_answers import SqlReplayer

__all__ = [
    "ReplayedAnswer",
    "Replayer",
    "SimilarReplayer",
    "SqlReplayer",
    "replay",
]
