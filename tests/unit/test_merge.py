"""Merging partial answers of values that are no plain numbers."""

import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

from recall.engines import merge as merging
from recall.engines.answers import to_json_value
from recall.engines.template import Template
from recall.operators.kinds import MERGE_FUNCTIONS
from recall.requests import RecallEvent, SqlQuestion

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


def test_nested_values_are_written_as_json() -> None:
    found = to_json_value({"ts": EARLY, "all": [math.nan, math.inf, {"t": LATE}]})
    assert found == {
        "ts": "2026-01-01T00:00:00.000000Z",
        "all": ["NaN", "Infinity", {"t": "2026-01-02T00:00:00.000000Z"}],
    }


@pytest.mark.parametrize(("counted", "found"), [(2, [1.25]), (0, None)])
def test_a_quotient_of_quotients_is_sparks_to_say_where_one_divides_by_zero(
    counted: int, found: Any
) -> None:
    sql = "SELECT sum(s.v) / count(s.v) / 2 AS half FROM s"
    template = Template(SqlQuestion(None, 0.0, "newest", sql, {"s": "ts"}, (), {}, {}, {}, {}))
    assert merging.is_portable(template)
    asked = RecallEvent(UUID(int=1), 1, {}, {})
    values = {
        a.value_column: [5.0 if a.kind == "sum" else counted] for a in template.split.aggregates
    }
    merged = pa.table({"_eid": [str(asked.eid)], **values})
    rows = merging.run_merge(
        duckdb.connect(), merging.to_duckdb_sql(template), template, [asked], merged
    )
    assert (rows if rows is None else [row["half"] for row in rows[str(asked.eid)]]) == found
