"""Records of text by the patterns of their format, many at once. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.formats import (
    REQUEST_PATTERN,
    RecordReading,
    TextPattern,
    compile_time_format,
    find_pattern,
)
from archiver.ingest.decoding.text_splitting import SPLITTERS, split_request
from archiver.ingest.decoding.time_texts import parse_time_texts
from archiver.times import Micros


@dataclass(frozen=True)
class TextFields:
    """The fields of records as texts, null where a record has none; and which records match."""

    columns: dict[str, pa.Array]
    is_match: npt.NDArray[np.bool_]


def read_texts(
    reading: RecordReading, texts: pa.Array, future: int, zone: str = "UTC"
) -> TextFields:
    """The fields of texts.

    `future`: how far a time may be after the clock, in microseconds. `zone`: of times without an
    offset; both tell the years that times leave out.
    """
    text_pattern = find_pattern(reading.format)
    assert text_pattern is not None, "a format of text"
    columns: dict[str, pa.Array] = {}
    is_match = np.zeros(len(texts), bool)
    split_fields = _split_lines(reading, texts)
    if split_fields is not None:
        is_match[:] = True
        for name, values in split_fields.items():
            columns[name] = _present(values, is_match, text_pattern.empty)
    for pattern in text_pattern.patterns:
        if is_match.all() and len(texts):
            break
        matched = pc.extract_regex(texts, f"(?s)^(?:{pattern})$")
        is_first = pc.is_valid(matched).to_numpy(zero_copy_only=False) & ~is_match
        is_match |= is_first
        for index in range(matched.type.num_fields):
            name = matched.type.field(index).name
            values = _present(matched.field(index), is_first, text_pattern.empty)
            earlier = columns.get(name)
            columns[name] = values if earlier is None else pc.coalesce(earlier, values)
    if text_pattern.times:
        now = int(np.datetime64("now", "us").astype(np.int64))
        newest = (now if reading.clock is None else reading.clock) + future
        columns["time"] = _read_times(columns["time"], text_pattern, newest, zone)
    if "request" in columns:
        columns |= _split_request(columns["request"])
    if "priority" in columns:
        columns |= _split_priority(columns["priority"])
    return TextFields(columns, is_match)


def _split_lines(reading: RecordReading, texts: pa.Array) -> dict[str, pa.Array] | None:
    """The fields of lines that are all regular, for a format that has them."""
    name = reading.format.name
    if name not in SPLITTERS or texts.null_count:
        return None
    return SPLITTERS[name](texts)


def _present(values: pa.Array, is_match: npt.NDArray[np.bool_], empty: str | None) -> pa.Array:
    is_absent = pc.equal(values, "")
    if empty is not None:
        is_absent = pc.or_(is_absent, pc.equal(values, empty))
    if not is_match.all():
        is_absent = pc.or_(pc.fill_null(is_absent, True), pa.array(~is_match))
    elif pc.any(is_absent).as_py() is not True:
        return values
    return pc.if_else(is_absent, None, values)


def _read_times(texts: pa.Array, text_pattern: TextPattern, newest: Micros, zone: str) -> pa.Array:
    """Times in the formats of the pattern as ISO 8601; other texts as they are."""
    # Lines of one second have the same text.
    encoded = texts.dictionary_encode()
    distinct = _read_distinct_times(encoded.dictionary, text_pattern, newest, zone)
    return distinct.take(encoded.indices)


def _read_distinct_times(
    texts: pa.Array, text_pattern: TextPattern, newest: Micros, zone: str
) -> pa.Array:
    for text in text_pattern.times:
        times = parse_time_texts(texts, compile_time_format(text), newest, zone)
        if not times.is_valid.any():
            continue
        moments = pa.array(times.micros).cast(pa.timestamp("us"))
        iso = pc.replace_substring(moments.cast(pa.string()), " ", "T")
        if not times.is_local:
            iso = pc.binary_join_element_wise(iso, "Z", "")
        elif times.zone_names is not None:
            iso = pc.binary_join_element_wise(iso, pa.array(times.zone_names, pa.string()), " ")
        texts = pc.if_else(pa.array(times.is_valid), iso, texts)
    return texts


def _split_request(requests: pa.Array) -> dict[str, pa.Array]:
    """The parts of requests; the whole text remains of those that have none."""
    split_fields = split_request(requests)
    if split_fields is not None:
        return {**split_fields, "request": pa.nulls(len(requests), pa.string())}
    matched = pc.extract_regex(requests, REQUEST_PATTERN)
    is_match = pc.is_valid(matched).to_numpy(zero_copy_only=False)
    parts: dict[str, pa.Array] = {}
    for index in range(matched.type.num_fields):
        name = matched.type.field(index).name
        parts[name] = _present(matched.field(index), is_match, None)
    parts["request"] = pc.if_else(pa.array(is_match), None, requests)
    return parts


def _split_priority(priorities: pa.Array) -> dict[str, pa.Array]:
    numbers = priorities.cast(pa.int64())
    return {
        "facility": pc.divide(numbers, 8).cast(pa.string()),
        "severity": pc.subtract(numbers, pc.multiply(pc.divide(numbers, 8), 8)).cast(pa.string()),
    }


def to_records(fields: TextFields) -> Sequence[dict[str, str] | None]:
    """The fields of each text, without those that it has not; None: it does not match."""
    names = list(fields.columns)
    columns = [column.to_pylist() for column in fields.columns.values()]
    records: list[dict[str, str] | None] = []
    for is_match, values in zip(fields.is_match.tolist(), zip(*columns, strict=True), strict=True):
        if not is_match:
            records.append(None)
            continue
        pairs = zip(names, values, strict=True)
        records.append({name: value for name, value in pairs if value is not None})
    return records
