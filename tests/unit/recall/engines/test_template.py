"""Prepared queries: parameters, limits and rows by event."""

import pyarrow as pa
import pytest

from recall.engines.template import Template, relabel_event, row_limit, split_by_event
from recall.errors import LimitExceeded
from recall.requests import SqlQuestion


def template(sql: str, **own: dict[str, str]) -> Template:
    types = {"host": "string", "cpu": "double", "slice": "string"}
    return Template(SqlQuestion(None, 1.0, "newest", sql, {"past": "ts"}, (), {}, types, own, {}))


def test_parameters_are_the_attributes_that_a_partial_answer_depends_on() -> None:
    by_attributes = "SELECT count(*) AS n FROM past h WHERE h.host = event.host AND h.v < event.cpu"
    assert template(by_attributes).parameters == ("cpu", "host")
    assert template("SELECT count(*) AS n FROM past h").parameters == ()


def test_query_that_depends_on_the_event_time_has_no_parameters() -> None:
    by_time = "SELECT count(*) AS n FROM past h WHERE h.ts > event.ts - INTERVAL '1 hour'"
    assert template(by_time).parameters is None


def test_query_that_reads_a_context_has_no_parameters() -> None:
    joined = "SELECT count(*) AS n FROM past h JOIN near c ON c.host = h.host"
    with_context = template(joined, near={"host": "string"})
    assert with_context.parameters is None and with_context.reads_event_tables


def test_rows_are_split_and_relabelled_by_event() -> None:
    rows = pa.table({"_eid": ["a", "b", "a"], "_a0_0": [1, 2, 3]})
    count = template("SELECT count(*) AS n FROM past h")
    tables = split_by_event(count, rows, 2)
    assert tables["a"]["_a0_0"].to_pylist() == [1, 3]
    assert relabel_event("c", tables["b"]).to_pylist() == [{"_eid": "c", "_a0_0": 2}]


def test_too_many_rows_exceed_the_limit() -> None:
    rows = pa.table({"_eid": ["a"] * row_limit(1)})
    with pytest.raises(LimitExceeded, match="narrow the query with WHERE"):
        split_by_event(template("SELECT count(*) AS n FROM past h"), rows, 1)
