"""The final step of a recall in DuckDB, and merging of partial answers."""

import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from recall.engines.duckdb import merge as merging
from recall.engines.template import Template
from recall.errors import SparkRequired
from recall.operators.kinds import MERGE_FUNCTIONS
from recall.requests import RecallEvent, SqlQuestion
from recall.statements.duckdb_statements import DuckDBStatements

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ({"ts": EARLY, "v": 9.0}, {"ts": LATE, "v": 1.0}),
        ({"ts": None, "v": 9.0}, {"ts": EARLY, "v": 1.0}),
        ({"ts": EARLY, "v": 9.0}, {"ts": EARLY, "v": math.nan}),
        ([1, 2], [1, 2, None]),
        ([{"a": 1}], [{"a": 2}]),
        (5.0, math.nan),
    ],
)
def test_structs_and_arrays_are_ordered_as_spark_orders_them(smaller: Any, larger: Any) -> None:
    for pair in (((smaller,), (larger,)), ((larger,), (smaller,))):
        assert MERGE_FUNCTIONS["min"](*pair) == (smaller,)
        assert MERGE_FUNCTIONS["max"](*pair)[0] is larger


@pytest.mark.parametrize(("count", "expected"), [(2, [1.25]), (0, None)])
def test_division_by_zero_is_left_to_spark(count: int, expected: Any) -> None:
    sql = "SELECT sum(s.v) / count(s.v) / 2 AS half FROM s"
    template = Template(SqlQuestion(None, 0.0, "newest", sql, {"s": "ts"}, (), {}, {}, {}, {}))
    assert merging.is_portable(template)
    event = RecallEvent(UUID(int=1), 1, {}, {})
    values = {
        aggregate.value_column: [5.0 if aggregate.kind == "sum" else count]
        for aggregate in template.split.aggregates
    }
    merged = pa.table({"_eid": [str(event.eid)], **values})
    statement = merging.write_merge(template)
    engine = DuckDBStatements()
    if expected is None:
        with pytest.raises(SparkRequired, match="division by zero"):
            merging.run_merge(engine, statement, template, [event], merged)
    else:
        answers = merging.run_merge(engine, statement, template, [event], merged)
        assert [row["half"] for row in answers[str(event.eid)]] == expected
