"""What the scores of similarity recalls are worth, as it was learned from resolved alerts."""

from typing import Any

from psycopg import Connection

import sql
from recall.similarity import Calibration

_QUERIES = sql.load("judgements")


def load_calibration(
    connection: Connection[Any], rule: str, version: str, recall: str
) -> Calibration | None:
    """What was learned for a recall, if anything."""
    values = {"rule": rule, "version": version, "recall": recall}
    row = connection.execute(_QUERIES["calibration"], values).fetchone()
    return None if row is None else Calibration.from_json(row[0])
