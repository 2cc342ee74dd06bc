"""Similarity answers computed again.

An answer follows from the question, the version of its rule, the event's context, the pieces of history that were read,
the number of the corpus that E and C_k count, and for each piece the number up to which events were known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

import sql
from recall.corpora import Corpora
from recall.replay.outcome import ReplayResult, not_reproducible
from recall.requests import RecallEvent, SimilarQuestion, parse_question
from recall.similarity import Index, SimilarState

_CONTEXTS = sql.load("contexts")
# Scores are equal when they are this near.
_SCORE_TOLERANCE = 1e-9


class SimilarReplayer:
    """See `recall.replay.outcome.Asks`."""

    def __init__(self, connection: Connection[Any], corpora: Corpora) -> None:
        self._connection = connection
        self._corpora = corpora

    def __call__(self, row: Mapping[str, Any]) -> ReplayResult:
        asking = parse_question(row["request"])
        assert isinstance(asking, SimilarQuestion)
        found = self._connection.execute(_CONTEXTS["context"], {"eids": [row["eid"]]}).fetchall()
        contexts = [one[4] for one in found if (one[0], one[1]) == (row["rule"], row["version"])]
        if not contexts:
            return not_reproducible("the event's context has expired")
        index = self._corpora.load_index(row["rule"], row["version"], asking)
        asked = RecallEvent.from_json(row["eid"], row["event"])
        state = SimilarState.resume(index, asking, asked, row["corpus"], contexts[0], None)
        counted = row["answer"][0]["corpus"] if row["answer"] else None
        if counted is not None and state.comparison.pinned_counts.event_count != counted["events"]:
            now = state.comparison.pinned_counts.event_count
            return not_reproducible(
                f"of {counted['events']} events that were counted {now} are left: the others have expired"
            )
        _replay_reads(index, state, row, counted)
        answer = state.build_answer(index)
        why = _describe_difference(row["answer"], answer)
        return ReplayResult(answer, why is None, why)


def _replay_reads(
    index: Index, state: SimilarState, row: Mapping[str, Any], counted: Mapping[str, Any] | None
) -> None:
    done = sum(row["coverage"][part] for part in ("by_summary", "read", "failed"))
    seen = [
        number for pieces, number in (counted["seen"] if counted else ()) for _ in range(pieces)
    ]
    for place, (_, low, high) in enumerate(row["pieces"][:done]):
        state.record_piece(seen[place] if place < len(seen) else row["corpus"])
        index.score([state.comparison], [(low, high)])


def _describe_difference(
    before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> str | None:
    if len(before) != len(now):
        return f"there were {len(before)} hits, now there are {len(now)}"
    for old, new in zip(before, now, strict=True):
        if old["past_eid"] != new["past_eid"]:
            return f"hit {old['rank']} was {old['past_eid']}, now it is {new['past_eid']}"
        if abs(old["score"] - new["score"]) > _SCORE_TOLERANCE:
            return f"hit {old['rank']} scored {old['score']}, now {new['score']}"
    return None
