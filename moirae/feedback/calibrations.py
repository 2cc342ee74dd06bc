"""Stored calibrations: the fitted models of similarity recalls."""

from typing import Any

from psycopg import Connection

import sql
from recall.similarity import Calibration

_QUERIES = sql.load("judgements")


def load_calibration(
    connection: Connection[Any], rule: str, version: str, recall: str
) -> Calibration | None:
    """The model of a recall; None if there is not enough feedback to fit one."""
    values = {"rule": rule, "version": version, "recall": recall}
    row = connection.execute(_QUERIES["calibration"], values).fetchone()
    if row is None:
        return None
    return Calibration.from_json(row[0])
