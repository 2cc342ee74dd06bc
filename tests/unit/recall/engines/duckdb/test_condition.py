"""Conditions evaluated with DuckDB."""

from typing import Any
from uuid import UUID

import pytest

from recall.engines.duckdb.condition import evaluate_condition
from recall.errors import SparkRequired
from recall.event_plans import Condition
from recall.requests import RecallEvent
from recall.statements import DuckDBStatements

EVENT = RecallEvent(UUID(int=1), 0, {}, {"cpu": 5.0})


def evaluate(where: str, rows: list[dict[str, Any]]) -> bool | None:
    columns = {"n": "bigint", "at": "date"}
    condition = Condition(where=where, judged={"norm": columns}, attributes={"cpu": "double"})
    return evaluate_condition(condition, EVENT, {"norm": (rows, columns)}, DuckDBStatements())


def test_condition_holds_if_any_row_satisfies_it() -> None:
    assert evaluate("event.cpu > norm.n", [{"n": 9}, {"n": 4}]) is True
    assert evaluate("event.cpu > norm.n", [{"n": 9}]) is False


def test_condition_without_history_has_no_verdict() -> None:
    assert evaluate("event.cpu > norm.n", []) is None


def test_column_of_another_type_needs_spark() -> None:
    with pytest.raises(SparkRequired, match="column at of an unsupported type"):
        evaluate("norm.at IS NULL", [{"n": 1}])
