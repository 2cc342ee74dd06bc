"""Sums over turns that estimates need, stored with the merged partial answers.

Each sum, count and average has a sum over turns of squares (see `recall.operators.estimate`) as a
column of the table of partial answers. The number of turns, their length, and how many chunks
summaries have answered are in the table's metadata. No I/O.
"""

import orjson
import pyarrow as pa

from recall.operators.estimate import Sample
from recall.query.split import Split, SplitAggregate

_SAMPLE_KEY = b"turns"
_SUMMARISED_KEY = b"summarised"
_ESTIMATED_KINDS = ("count", "sum", "avg", "exact_avg")


def read_sample(accumulator: pa.Table | None) -> Sample:
    """The turns that a merged partial answer was computed from."""
    if accumulator is None:
        return Sample()
    metadata = accumulator.schema.metadata or {}
    stored = metadata.get(_SAMPLE_KEY)
    return Sample(*orjson.loads(stored)) if stored else Sample()


def with_sample(accumulator: pa.Table, sample: Sample) -> pa.Table:
    """The table with the turns that it was computed from."""
    metadata = dict(accumulator.schema.metadata or {})
    metadata[_SAMPLE_KEY] = orjson.dumps([sample.turns, sample.seconds])
    return accumulator.replace_schema_metadata(metadata)


def read_summarised(accumulator: pa.Table | None) -> int:
    """How many chunks of a merged partial answer summaries have answered."""
    metadata = {} if accumulator is None else accumulator.schema.metadata or {}
    return int(metadata.get(_SUMMARISED_KEY, b"0"))


def with_summarised(accumulator: pa.Table, chunks: int) -> pa.Table:
    """The table with how many chunks summaries have answered."""
    metadata = dict(accumulator.schema.metadata or {})
    metadata[_SUMMARISED_KEY] = str(chunks).encode()
    return accumulator.replace_schema_metadata(metadata)


def square_column(aggregate: SplitAggregate) -> str | None:
    """The column of an aggregate's sum of squares per size; None if it has no estimates."""
    if aggregate.kind not in _ESTIMATED_KINDS:
        return None
    return f"_q{aggregate.value_column[2:]}"


def square_columns(split: Split) -> list[str]:
    """All columns of sums of squares."""
    return [name for name in map(square_column, split.aggregates) if name is not None]


def with_squares(split: Split, partial: pa.Table, turn_seconds: float) -> pa.Table:
    """The partial answer of one turn, with its squares."""
    for aggregate in split.aggregates:
        name = square_column(aggregate)
        if name is None or not _is_numeric(partial.schema.field(aggregate.part_columns[0]).type):
            continue
        parts = [_float_values(partial[column]) for column in aggregate.part_columns]
        if len(parts) == 1:
            parts.append([turn_seconds] * len(partial))
        totals, sizes = parts
        squares = [y * y / x if x else 0.0 for y, x in zip(totals, sizes, strict=True)]
        partial = partial.append_column(name, pa.array(squares, pa.float64()))
    return partial


def _float_values(column: pa.ChunkedArray) -> list[float]:
    """The values of a column, 0.0 for NULL."""
    return [float(value or 0) for value in column.to_pylist()]


def _is_numeric(data_type: pa.DataType) -> bool:
    is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(check(data_type) for check in is_number)
