"""Which context queries are filters of rows, and what becomes of a row for which one fails."""

from collections.abc import Sequence
from uuid import UUID

import pyarrow as pa
import pytest

from moirae.evaluation.contexts.local import LocalContexts
from moirae.evaluation.contexts.queries import ContextQueries, LiftedContextQuery
from moirae.evaluation.contexts.shared_queries import SharedQuery
from moirae.evaluation.contexts.spark_expressions import ExpressionContexts, pair_query
from recall.engines import FilterResult
from recall.errors import SparkRequired
from recall.requests import RecallEvent
from tests.unit.moirae.evaluation.contexts.builders import COLUMNS, make_rule

SECOND = 1_000_000  # microseconds
ROWS = pa.table(
    {
        "ts": pa.array([0, SECOND, 99 * SECOND], pa.timestamp("us", "UTC")),
        "host": ["h1", "h2", "h1"],
        "cpu": [1.0, 2.0, 3.0],
    }
)


class FixedFilters:
    """In place of Spark's JVM: says the same of all rows."""

    def __init__(self, result: FilterResult | None, number: int | None = 1) -> None:
        self._result = result
        self._number = number
        self.rows: list[pa.Table] = []

    def compile(self, view: str, columns: pa.Schema, queries: Sequence[str]) -> list[int | None]:
        """See `RowFilters`."""
        return [self._number]

    def evaluate(
        self, rows: pa.Table, numbers: Sequence[int], row_limit: float, limit: float
    ) -> list[FilterResult | None]:
        """See `RowFilters`."""
        self.rows.append(rows)
        return [self._result]


def _lift(sql: str) -> LiftedContextQuery:
    return ContextQueries.lift(make_rule(sql)).queries[0]


def _run(filters: FixedFilters) -> list[tuple[str, str]]:
    query = _lift("SELECT upper(c.host) AS host FROM cpu c WHERE c.host = event.host")
    shared = SharedQuery(query)
    event = RecallEvent(UUID(int=1), 10 * SECOND, {"host": "h1"}, {"host": "h1", "tags": ["x"]})
    shared.add(make_rule(), query, [event])
    contexts = ExpressionContexts(filters, LocalContexts().joins)  # type: ignore[arg-type]
    return contexts.run(shared, COLUMNS, ROWS)


@pytest.mark.parametrize(
    ("sql", "is_filter"),
    [
        ("SELECT upper(c.host) AS host FROM cpu c", True),
        ("SELECT c.host FROM cpu c WHERE round(c.cpu, -1) > 0", True),
        ("SELECT DISTINCT c.host FROM cpu c", False),
        ("SELECT max(c.host) AS host FROM cpu c GROUP BY c.cpu", False),
        ("SELECT c.host FROM cpu c WHERE array_contains(event.tags, c.host)", False),
        ("SELECT a.host FROM cpu a JOIN cpu b ON a.ts = b.ts", False),
        ("SELECT q.host FROM (SELECT c.host FROM cpu c) q", False),
        ("SELECT c.host FROM cpu c WHERE EXISTS (SELECT 1 FROM cpu b WHERE b.ts < c.ts)", False),
        ("SELECT (SELECT max(b.cpu) FROM cpu b) AS top FROM cpu c", False),
    ],
)
def test_filters_and_projections_of_one_stream_are_evaluated_by_expressions(
    sql: str, is_filter: bool
) -> None:
    assert (pair_query(_lift(sql), COLUMNS) is not None) is is_filter


def test_rows_are_paired_with_events_by_time_and_equal_attributes() -> None:
    filters = FixedFilters(FilterResult([], [], None, 0.0))
    assert _run(filters) == []
    (pairs,) = filters.rows
    assert pairs["cpu"].to_pylist() == [1.0], "not the row of another host, or of a later time"
    assert pairs["_eid"].to_pylist() == [0], "the position of the event"


@pytest.mark.parametrize(
    "filters",
    [
        FixedFilters(None),
        FixedFilters(FilterResult([], [(0, "too slow")], None, 0.0)),  # type: ignore[list-item]
        FixedFilters(FilterResult([], [], (0, "fails"), 0.0)),  # type: ignore[arg-type]
        FixedFilters(None, number=None),
    ],
)
def test_what_fails_is_left_to_a_statement(filters: FixedFilters) -> None:
    with pytest.raises(SparkRequired):
        _run(filters)
