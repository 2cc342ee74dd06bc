"""Records decoded again under another declaration."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from archiver.delta.schema import StreamSchema
from archiver.formats import CSV, JSONL, RecordReading
from archiver.ingest.decoding.block_decoder import decode_blocks
from archiver.ingest.decoding.raw_records import decode_raw, select_raw
from archiver.ingest.decoding.table_decoder import decode_table

MOMENT = datetime(2026, 1, 31, tzinfo=UTC)


def declare(**columns: str) -> StreamSchema:
    none = timedelta(0)
    return StreamSchema("s", {"ts": "timestamp", **columns}, "ts", None, (), none, none)


def test_selected_lines_are_decoded_under_another_declaration() -> None:
    lines = [b'{"ts": 0, "v": 1}', b'{"ts": 1, "v": 2.5}', b'{"ts": 2, "v": 3}']
    raw = decode_blocks(declare(v="double"), RecordReading(JSONL), lines, 1).raw
    decoded = decode_raw(declare(v="bigint"), select_raw(raw, [1, 2]), RecordReading(JSONL))
    assert decoded.table["v"].to_pylist() == [3]
    assert decoded.line_numbers.tolist() == [1]


def test_csv_lines_keep_the_fields_of_their_header() -> None:
    raw = decode_blocks(declare(), RecordReading(CSV, ("ts", "v")), [b"2026-01-31,7"], 1).raw
    decoded = decode_raw(declare(v="int"), raw, RecordReading(CSV, ("ts", "v")))
    assert decoded.table["v"].to_pylist() == [7]


def test_rows_of_a_table_are_decoded_from_their_types() -> None:
    table = pa.table({"ts": pa.array([MOMENT] * 3, pa.timestamp("us", "UTC")), "v": [1, 2, 3]})
    raw = select_raw(decode_table(declare(v="double"), table, 1).raw, [0, 2])
    decoded = decode_raw(declare(v="int"), raw, RecordReading(JSONL))
    assert decoded.table["v"].to_pylist() == [1, 3]
    assert decode_raw(declare(), raw, RecordReading(JSONL)).table["_extra"].to_pylist() == [
        '{"v":1}',
        '{"v":3}',
    ]


def test_table_whose_types_do_not_fit_has_no_rows() -> None:
    table = pa.table({"ts": pa.array([MOMENT], pa.timestamp("us", "UTC")), "v": ["x"]})
    raw = decode_table(declare(v="string"), table, 1).raw
    assert len(decode_raw(declare(v="int"), raw, RecordReading(JSONL)).table) == 0
