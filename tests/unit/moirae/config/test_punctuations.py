"""The key `punctuation` of streams: a field of JSON records that no column reads."""

from typing import Any

import pytest
from pydantic import ValidationError

from moirae.config.streams import Stream
from moirae.config.table_schemas import stream_schema


def declare(**keys: Any) -> Stream:
    declared = {
        "columns": {"ts": "timestamp", "host": {"type": "string", "from": ["name", "node"]}},
        "time": "ts",
        "source": {"http": True},
        "punctuation": "closed",
    }
    return Stream.model_validate({**declared, **keys})


def test_field_is_part_of_the_schema_of_the_archive() -> None:
    assert stream_schema("cpu", declare()).punctuation == "closed"
    assert stream_schema("cpu", declare(punctuation=None)).punctuation is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"punctuation": "ts"}, "is read by column ts"),
        ({"punctuation": "host"}, "is read by column host"),
        ({"punctuation": "node"}, "is read by column host"),
        ({"punctuation": "name"}, "is read by column host"),
        ({"source": {"files": "*.csv"}}, "only records in format jsonl"),
        ({"time": {"column": "ts", "fields": ["date", "time"]}}, "read from one field"),
        ({"columns": {"ts": {"type": "timestamp", "from": "event.time"}}}, "a plain field"),
    ],
)
def test_other_fields_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        declare(**keys)
