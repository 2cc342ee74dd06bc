"""The values of columns that can match in queries about events."""

from uuid import UUID

from recall.engines.attribute_values import find_values, join_values
from recall.query import PhysicalTables, Tables
from recall.query.lift import EventScope, LiftedQuery, TableBindings, lift_query
from recall.requests import RecallEvent

_COLUMNS = {"ts": "timestamp", "host": "string", "slice": "string", "cpu": "double"}
_ATTRIBUTES = {"host": "string", "cpu": "double", "slice": "string"}


def _lift(condition: str) -> LiftedQuery:
    return lift_query(
        f"SELECT host FROM cpu WHERE {condition}",
        EventScope(Tables({"cpu": "ts"}), tuple(_ATTRIBUTES)),
        TableBindings(PhysicalTables({"cpu": "rows"}), PhysicalTables({}), "pending"),
    )


def _event(number: int, **attributes: object) -> RecallEvent:
    return RecallEvent(UUID(int=number), number, {}, attributes)


def test_values_are_those_of_the_attributes_that_text_columns_equal() -> None:
    events = [_event(1, host="b", cpu=1.0), _event(2, host="a"), _event(3, host=None)]
    query = _lift("host = event.host AND cpu = event.cpu")
    assert find_values(query, "cpu", _COLUMNS, _ATTRIBUTES, events) == {"host": ["a", "b"]}
    assert find_values(query, "other", _COLUMNS, _ATTRIBUTES, events) == {}


def test_several_queries_have_the_values_of_all_for_the_columns_of_each() -> None:
    assert join_values([{"host": ["b"], "slice": ["x"]}, {"host": ["a", "b"]}]) == {
        "host": ["a", "b"]
    }
    assert join_values([{"host": ["a"]}, {}]) == {}
