"""Sums over pieces that estimates need, stored with the merged partial answers.

Each sum, count and average has sums over pieces of squares and products (see
`recall.operators.estimate`) as columns of the table of partial answers. The number of pieces and
their lengths are in the table's metadata. No I/O.
"""

import orjson
import pyarrow as pa

from recall.operators.estimate import Sample
from recall.query.split import Split, SplitAggregate

_SAMPLE_KEY = b"sample"
_SUMMARISED_KEY = b"summarised"
_MOMENT_COUNTS = {"count": 2, "sum": 2, "avg": 3, "exact_avg": 3}


def read_sample(accumulator: pa.Table | None) -> Sample:
    """The pieces that a merged partial answer was computed from."""
    if accumulator is None:
        return Sample()
    metadata = accumulator.schema.metadata or {}
    stored = metadata.get(_SAMPLE_KEY)
    return Sample(*orjson.loads(stored)) if stored else Sample()


def with_sample(accumulator: pa.Table, sample: Sample) -> pa.Table:
    """The table with the pieces that it was computed from."""
    metadata = dict(accumulator.schema.metadata or {})
    metadata[_SAMPLE_KEY] = orjson.dumps([sample.pieces, sample.seconds, sample.squared_seconds])
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


def moment_names(aggregate: SplitAggregate) -> list[str]:
    """The columns of an aggregate's sums of squares and products.

    For sums and counts: y * y and y * length of the piece. For averages: y * y, y * count and
    count * count. Empty for other aggregates.
    """
    count = _MOMENT_COUNTS.get(aggregate.kind, 0)
    return [f"_m{aggregate.value_column[2:]}_{number}" for number in range(count)]


def moment_columns(split: Split) -> list[str]:
    """All columns of sums of squares and products."""
    columns = []
    for aggregate in split.aggregates:
        columns.extend(moment_names(aggregate))
    return columns


def with_moments(split: Split, partial: pa.Table, piece_seconds: float) -> pa.Table:
    """The partial answer of one piece, with its sums of squares and products."""
    for aggregate in split.aggregates:
        names = moment_names(aggregate)
        if not names or not _is_numeric(partial.schema.field(aggregate.part_columns[0]).type):
            continue
        parts = [_float_values(partial[column]) for column in aggregate.part_columns]
        if len(parts) == 1:
            parts.append([piece_seconds] * len(partial))
        totals, measures = parts
        factors = ((totals, totals), (totals, measures), (measures, measures))
        for name, columns in zip(names, factors, strict=False):
            products = [a * b for a, b in zip(*columns, strict=True)]
            partial = partial.append_column(name, pa.array(products, pa.float64()))
    return partial


def _float_values(column: pa.ChunkedArray) -> list[float]:
    """The values of a column, 0.0 for NULL."""
    return [float(value or 0) for value in column.to_pylist()]


def _is_numeric(data_type: pa.DataType) -> bool:
    is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(check(data_type) for check in is_number)
