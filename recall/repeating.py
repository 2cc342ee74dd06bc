"""Answers of similarity recalls, computed again from what was stored with them: the same, or it is known why not.

An answer follows from the question, the version of its rule, the event's context, the pieces of history that were read,
the number of the corpus that E and C_k count, and for each piece the number up to which events were known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from recall.corpora import Corpora
from recall.request import Asked, SimilarQuestion, question
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index

_RECALLS, _CONTEXTS = sql.load("recalls"), sql.load("contexts")
# Scores are equal when they are this near.
_EQUAL = 1e-9


@dataclass(frozen=True)
class Repeated:
    """What came of it. `version` of the rule, `corpus`: the number that E and C_k count; `equal`: None where what is
    needed has expired; `why`: what has expired, or where the answers differ."""

    task: UUID
    recall: str
    rule: str
    version: str
    corpus: int
    revision: int
    equal: bool | None
    why: str | None
    answer: Sequence[Mapping[str, Any]]


def repeat(connection: Connection[Any], corpora: Corpora, number: UUID) -> Iterator[Repeated]:
    """The last answers of an event's similarity recalls, or of the one recall with this id, again."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_RECALLS["to_repeat"], {"id": number}).fetchall()
    for row in rows:
        answer, why, expired = _again(connection, corpora, row)
        equal = None if expired else why is None
        about = row["id"], row["recall"], row["rule"], row["version"], row["corpus"], row["number"]
        yield Repeated(*about, equal, why, answer)


def _again(
    connection: Connection[Any], corpora: Corpora, row: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], str | None, bool]:
    """The answer, what is wrong with it, and whether that is because something has expired."""
    asking = question(row["request"])
    assert isinstance(asking, SimilarQuestion)
    found = connection.execute(_CONTEXTS["context"], {"eids": [row["eid"]]}).fetchall()
    contexts = [one[4] for one in found if (one[0], one[1]) == (row["rule"], row["version"])]
    if not contexts:
        return [], "the event's context has expired", True
    index = corpora.index(row["rule"], row["version"], asking)
    asked = Asked.from_json(row["eid"], row["event"])
    state = SimilarState.of(index, asking, asked, row["corpus"], contexts[0], None)
    counted = row["answer"][0]["corpus"] if row["answer"] else None
    if counted is not None and state.comparison.pinned.events != counted["events"]:
        now = state.comparison.pinned.events
        return [], f"of {counted['events']} events that were counted {now} are left: the others have expired", True
    _read(index, state, row, counted)
    answer = state.answer(index)
    return answer, _difference(row["answer"], answer), False


def _read(index: Index, state: SimilarState, row: Mapping[str, Any], counted: Mapping[str, Any] | None) -> None:
    done = row["coverage"]["read"] + row["coverage"]["failed"]
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
