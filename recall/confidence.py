"""How likely the best hit of a similarity answer is of the same kind as its event, as it was known at a time.

What is learned from resolved alerts changes, and so do the tags of the hits. The probability of a final answer is
therefore stored with it. See `recall.similarity.comparable` for how it is computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from psycopg import Connection

import sql
from recall.similarity import Calibration, answer_features

_QUERIES = sql.load("judgements")
_LOG = structlog.get_logger()


def learned(
    connection: Connection[Any], rule: str, version: str, recall: str
) -> Calibration | None:
    """What was learned for a recall, if anything."""
    values = {"rule": rule, "version": version, "recall": recall}
    row = connection.execute(_QUERIES["calibration"], values).fetchone()
    return None if row is None else Calibration.from_json(row[0])


def probability(
    connection: Connection[Any],
    rule: str,
    version: str,
    recall: str,
    hits: Sequence[Mapping[str, Any]],
) -> float | None:
    """Of a similarity answer, its hits best first, by what is known now. None: there is no hit, or too little was
    learned."""
    if not hits:
        return None
    try:
        model = learned(connection, rule, version, recall)
        if model is None:
            return None
        tags = dict(
            connection.execute(
                _QUERIES["kinds"], {"eids": [hit["past_eid"] for hit in hits]}
            ).fetchall()
        )
        kinds = [tags.get(hit["past_eid"]) for hit in hits]
        return model.probability(
            answer_features([hit["score"] for hit in hits], kinds, hits[0]["corpus"]["events"])
        )
    except (KeyError, TypeError, ValueError) as error:
        # An answer is worth more than what is said about it.
        _LOG.warning(
            "no probability",
            action="confidence_failed",
            rule=rule,
            recall=recall,
            error=repr(error),
        )
        return None
