"""Similarity answers computed again.

An answer follows from the question, the version of its rule, the event's context, the pieces of history that were read,
the number of the corpus that E and C_k count, and for each piece the number up to which events were known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

import sql
from recall.corpora import Corpora
from recall.repeating import Again, lost
from recall.request import Asked, SimilarQuestion, question
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index

_CONTEXTS = sql.load("contexts")
# Scores are equal when they are this near.
_EQUAL = 1e-9


class SimilarAgain:
    """See `recall.repeating.Asks`."""

    def __init__(self, connection: Connection[Any], corpora: Corpora) -> None:
        self._connection = connection
        self._corpora = corpora

    def __call__(self, row: Mapping[str, Any]) -> Again:
        asking = question(row["request"])
        assert isinstance(asking, SimilarQuestion)
        found = self._connection.execute(_CONTEXTS["context"], {"eids": [row["eid"]]}).fetchall()
        contexts = [one[4] for one in found if (one[0], one[1]) == (row["rule"], row["version"])]
        if not contexts:
            return lost("the event's context has expired")
        index = self._corpora.index(row["rule"], row["version"], asking)
        asked = Asked.from_json(row["eid"], row["event"])
        state = SimilarState.of(index, asking, asked, row["corpus"], contexts[0], None)
        counted = row["answer"][0]["corpus"] if row["answer"] else None
        if counted is not None and state.comparison.pinned.events != counted["events"]:
            now = state.comparison.pinned.events
            return lost(f"of {counted['events']} events that were counted {now} are left: the others have expired")
        _read(index, state, row, counted)
        answer = state.answer(index)
        why = _difference(row["answer"], answer)
        return Again(answer, why is None, why)


def _read(index: Index, state: SimilarState, row: Mapping[str, Any], counted: Mapping[str, Any] | None) -> None:
    done = sum(row["coverage"][part] for part in ("by_summary", "read", "failed"))
    seen = [number for pieces, number in (counted["seen"] if counted else ()) for _ in range(pieces)]
    for place, (_, low, high) in enumerate(row["pieces"][:done]):
        state.see(seen[place] if place < len(seen) else row["corpus"])
        index.score([state.comparison], [(low, high)])


def _difference(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str | None:
    if len(before) != len(now):
        return f"there were {len(before)} hits, now there are {len(now)}"
    for old, new in zip(before, now, strict=True):
        if old["past_eid"] != new["past_eid"]:
            return f"hit {old['rank']} was {old['past_eid']}, now it is {new['past_eid']}"
        if abs(old["score"] - new["score"]) > _EQUAL:
            return f"hit {old['rank']} scored {old['score']}, now {new['score']}"
    return None
