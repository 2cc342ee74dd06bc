"""Queries about one event: their text, and the values of their parameters."""

from uuid import UUID

import pytest

from recall.engines.duckdb.one_event import write_one_event_query
from recall.engines.template import Template
from recall.requests import Piece, RecallEvent, SqlQuestion

EVENT = RecallEvent(UUID(int=1), 50, {}, {"host": "d'", "limit": "NaN", "unused": 1})


def make_template(sql: str) -> Template:
    attributes = {"host": "string", "limit": "double", "unused": "bigint"}
    return Template(SqlQuestion(None, 1.0, "newest", sql, {"s": "ts"}, (), {}, attributes, {}, {}))


def test_only_what_the_text_names_is_bound() -> None:
    template = make_template("SELECT count(*) AS n FROM s WHERE s.host = event.host")
    query = write_one_event_query(template, rows_in_range=False)
    assert query is not None
    assert "d'" not in query.text
    assert query.bind(EVENT, Piece(0, 10, 40)) == {
        "_eid": str(EVENT.eid),
        "_attribute_0": "d'",
        "_low": 10,
        "_high": 40,
    }
    in_range = write_one_event_query(template, rows_in_range=True)
    assert in_range is not None
    assert in_range.bind(EVENT, Piece(0, 10, 40)).keys() == {"_eid", "_attribute_0"}


def test_values_have_the_types_of_attributes() -> None:
    template = make_template("SELECT sum(s.v - event.limit) AS x, max(event.ts) AS t FROM s")
    query = write_one_event_query(template, rows_in_range=True)
    assert query is not None
    values = query.bind(EVENT, Piece(0, None, 40))
    assert values["_event_ts"] == 50
    assert values["_attribute_1"] != values["_attribute_1"]  # NaN as a number


@pytest.mark.parametrize("sql", ["SELECT s.v FROM s LIMIT 3", "SELECT DISTINCT s.v FROM s"])
def test_rows_and_groups_without_aggregates_are_read_like_those_of_several_events(sql: str) -> None:
    assert write_one_event_query(make_template(sql), rows_in_range=True) is None
