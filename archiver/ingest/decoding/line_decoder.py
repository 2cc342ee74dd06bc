"""Decode records of any format to typed columns, refusing each invalid one separately. No I/O."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import StreamSchema
from archiver.formats import DEFAULT_TIME_READING, RecordReading
from archiver.ingest.decoding.event_times import TimeReader
from archiver.ingest.decoding.field_values import column_values, extra_fields, value_field
from archiver.ingest.decoding.json_records import to_json
from archiver.ingest.decoding.numbers import needs_text, number_in_json
from archiver.ingest.decoding.record_parsers import parse_records
from archiver.ingest.decoding.records import MAX_LINE_BYTES, DecodedRows, RefusedLine
from archiver.ingest.decoding.value_conversion import convert_one_by_one, convert_with_arrow
from archiver.times import duration_to_micros

_PLAIN_TIMES = TimeReader(DEFAULT_TIME_READING)


def decode_lines(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes], first: int
) -> DecodedRows:
    """Decode the non-blank records of one unit, numbered from `first`."""
    future = duration_to_micros(schema.future)
    zone, has_positions = schema.time_reading.zone, schema.has_positions
    parsed = parse_records(reading, lines, future, zone, has_positions=has_positions)
    refused: list[RefusedLine] = []
    rows: list[dict[str, Any]] = []
    raw: list[bytes] = []
    positions: list[int] = []
    for position, record in enumerate(parsed):
        if isinstance(record, str):
            refused_bytes = lines[position][:MAX_LINE_BYTES]
            refused.append(RefusedLine(first + position, "malformed", record, refused_bytes))
            continue
        rows.append(record)
        raw.append(lines[position])
        positions.append(position)
    numbers = first + np.array(positions, np.int64)
    columns, errors = _RowConverter(schema, reading).convert(rows, raw)
    table = pa.table({**columns, "_extra": _extra_column(schema, rows)})
    if errors:
        for index, detail in errors.items():
            refused.append(RefusedLine(int(numbers[index]), "malformed", detail, raw[index]))
        valid = [index for index in range(len(rows)) if index not in errors]
        table = table.take(pa.array(valid, pa.int64()))
        numbers = numbers[valid]
        raw = list(map(raw.__getitem__, valid))
    return DecodedRows(table, numbers, raw, sorted(refused, key=attrgetter("line")))


def time_reader(schema: StreamSchema, name: str, reading: RecordReading) -> TimeReader:
    """Reads the values of a timestamp column."""
    if name != schema.time:
        return _PLAIN_TIMES
    return TimeReader(
        schema.time_reading,
        column=name,
        clock=reading.clock,
        future=duration_to_micros(schema.future),
    )


def _extra_column(schema: StreamSchema, rows: list[dict[str, Any]]) -> pa.Array:
    extra = [extra_fields(schema, row) for row in rows]
    return pa.array([to_json(fields) if fields else None for fields in extra], pa.string())


class _RowConverter:
    """The declared columns of parsed records."""

    def __init__(self, schema: StreamSchema, reading: RecordReading) -> None:
        self._schema = schema
        self._reading = reading

    def convert(
        self, rows: list[dict[str, Any]], lines: Sequence[bytes]
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The declared columns by name, and the first error of each invalid row by index.

        `lines`: those of the rows, where JSON numbers have all their digits.
        """
        schema = self._schema
        columns: dict[str, pa.Array] = {}
        errors: dict[int, str] = {}
        for name, kind in schema.columns.items():
            times = time_reader(schema, name, self._reading)
            values = with_decimal_points(column_values(schema, name, rows), kind, self._reading)
            array = convert_with_arrow(values, kind, times)
            column_errors: dict[int, str] = {}
            if array is None:
                self._restore_digits(name, kind, values, rows, lines)
                array, column_errors = convert_one_by_one(values, kind, times)
            columns[name] = array
            for index, detail in column_errors.items():
                errors.setdefault(index, f"column {name}: {detail}")
            if name == schema.time:
                for index in pc.indices_nonzero(pc.is_null(columns[name])).to_pylist():
                    errors.setdefault(index, f"column {name}: event time is missing")
        return columns, errors

    def _restore_digits(
        self,
        name: str,
        kind: str,
        values: list[Any],
        rows: list[dict[str, Any]],
        lines: Sequence[bytes],
    ) -> None:
        """Replace numbers that the JSON parser has rounded by their texts."""
        if self._reading.format.name not in ("jsonl", "json", "docker"):
            return
        for index, value in enumerate(values):
            if needs_text(value, kind):
                field = value_field(self._schema, name, rows[index])
                assert field is not None
                values[index] = number_in_json(lines[index], field)


def with_decimal_points(values: list[Any], kind: str, reading: RecordReading) -> list[Any]:
    """Values with a point as decimal sign, if their format has another one."""
    decimal = reading.format.csv.decimal
    if decimal == "." or kind not in ("float", "double"):
        return values
    # A point is then no decimal sign: it may divide thousands.
    signs = str.maketrans({decimal: ".", ".": decimal})
    return [value.translate(signs) if isinstance(value, str) else value for value in values]
