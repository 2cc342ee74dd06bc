"""Schemas of stream tables."""

from datetime import timedelta

from archiver.delta.schema import ADDED_COLUMNS, StreamSchema

SCHEMA = StreamSchema(
    "s", {"host": "string", "ts": "timestamp"}, "ts", None, (), timedelta(0), timedelta(0)
)


def test_time_is_the_first_column_and_added_columns_are_last() -> None:
    schema = SCHEMA.arrow_schema()
    assert schema.names == ["ts", "host", *ADDED_COLUMNS]
    assert str(schema.field("ts").type) == "timestamp[us, tz=UTC]"


def test_ddl_quotes_names_and_appends_requested_columns() -> None:
    assert SCHEMA.ddl() == "`host` string, `ts` timestamp"
    assert SCHEMA.ddl(["_late"]) == "`host` string, `ts` timestamp, `_late` boolean"
