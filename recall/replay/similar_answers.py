"""Compute similarity answers again.

An answer is a function of the question, the version of its rule, the event's context, the pieces of
history that were read, the sequence number up to which events count for E and C_k, and for each
piece the sequence number up to which events were settled when it was read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sql
from recall.corpora import Corpora
from recall.errors import ModelExpired
from recall.learned_models import LearnedModels
from recall.replay.outcome import ReplayResult, not_reproducible
from recall.requests import Piece, RecallEvent, SimilarQuestion, parse_question
from recall.similarity import Index, SimilarState
from sql.events import ContextGateway
from sql.recalls import RepeatableRow

# Scores that differ by less are equal.
_SCORE_TOLERANCE = 1e-9


class SimilarReplayer:
    """Computes similarity answers again: a `recall.replay.outcome.Replayer`."""

    def __init__(self, connection: sql.Connection, corpora: Corpora) -> None:
        self._connection = connection
        self._corpora = corpora
        self._learned_models = LearnedModels(connection)

    def __call__(self, row: RepeatableRow) -> ReplayResult:
        question = parse_question(row.request)
        assert isinstance(question, SimilarQuestion)
        assert row.corpus is not None
        gateway = ContextGateway(self._connection)
        stored = gateway.get(row.rule, row.version, row.eid)
        if stored is None:
            return not_reproducible("the event's context has expired")
        index = self._corpora.load_index(row.rule, row.version, question)
        event = RecallEvent.from_json(row.eid, row.event)
        try:
            make_scorer = self._learned_models.scorer_factory(row.model, event)
        except ModelExpired as error:
            return not_reproducible(f"expired: {error}")
        state = SimilarState.resume(
            index, question, event, row.corpus, stored.contexts, None, make_scorer
        )
        corpus = row.answer[0]["corpus"] if row.answer else None
        event_count = state.comparison.pinned_counts.event_count
        if corpus is not None and event_count != corpus["events"]:
            return not_reproducible(
                f"{corpus['events'] - event_count} of the {corpus['events']} events"
                " that the answer counted have expired"
            )
        _replay_reads(index, state, row, corpus)
        answer = state.build_answer(index)
        difference = describe_difference(row.answer, answer)
        return ReplayResult(answer, difference is None, difference)


def _replay_reads(
    index: Index, state: SimilarState, row: RepeatableRow, corpus: Mapping[str, Any] | None
) -> None:
    """Compare with the pieces that the answer covers, each as far as it was settled then."""
    assert row.pieces is not None and row.corpus is not None
    coverage = row.coverage
    pieces_done = coverage["by_summary"] + coverage["read"] + coverage["failed"]
    sequence_numbers: list[int] = []
    if corpus is not None:
        for piece_count, number in corpus["seen"]:
            sequence_numbers += [number] * piece_count
    # Pieces without a number of their own were read up to the number that the task pinned.
    sequence_numbers += [row.corpus] * (pieces_done - len(sequence_numbers))
    pieces = row.pieces[:pieces_done]
    for stored, number in zip(pieces, sequence_numbers, strict=False):
        state.record_pieces(1, number)
        index.score([state.comparison], [Piece.from_json(stored).range])


def describe_difference(
    before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> str | None:
    """The first difference between two lists of hits; None if they are equal."""
    if len(before) != len(now):
        return f"the stored answer has {len(before)} hits, the replayed one {len(now)}"
    for old, new in zip(before, now, strict=True):
        if old["past_eid"] != new["past_eid"]:
            return f"hit {old['rank']} was {old['past_eid']}, now it is {new['past_eid']}"
        if abs(old["score"] - new["score"]) > _SCORE_TOLERANCE:
            return f"hit {old['rank']} had the score {old['score']}, now {new['score']}"
    return None
