"""What estimates need of the pieces that were read, kept beside their merged partial answers. Pure.

For each sum, count and average there are sums over pieces of squares and products (`recall.operators.estimate`), as
columns of the table that holds the partial answers; how many pieces there were, and how long, is in its metadata.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
from sqlglot import exp

from recall.operators.estimate import (
    AnswerEstimate,
    Moments,
    Sample,
    estimate_average,
    estimate_total,
    exact_estimate,
)
from recall.operators.kinds import group_key
from recall.query.split import Split, SplitAggregate

_SAMPLE_KEY = b"sample"
_MOMENT_COUNTS = {"count": 2, "sum": 2, "avg": 3, "exact_avg": 3}


def read_sample(accumulator: pa.Table | None) -> Sample:
    """The pieces that a merged partial answer is made of."""
    stored = (
        (accumulator.schema.metadata or {}).get(_SAMPLE_KEY) if accumulator is not None else None
    )
    return Sample(*orjson.loads(stored)) if stored else Sample()


def with_sample(accumulator: pa.Table, sample: Sample) -> pa.Table:
    """The same, made of these pieces."""
    stored = orjson.dumps([sample.pieces, sample.seconds, sample.squared_seconds])
    return accumulator.replace_schema_metadata(
        {**(accumulator.schema.metadata or {}), _SAMPLE_KEY: stored}
    )


def moment_columns(split: Split) -> dict[str, SplitAggregate]:
    """The columns of sums of squares and products, with the aggregates that they are about."""
    return {name: a for a in split.aggregates for name in _moment_names(a)}


def _moment_names(aggregate: SplitAggregate) -> list[str]:
    return [
        f"_m{aggregate.value_column[2:]}_{place}"
        for place in range(_MOMENT_COUNTS.get(aggregate.kind, 0))
    ]


def with_moments(split: Split, partial: pa.Table, piece_seconds: float) -> pa.Table:
    """The partial answer of one piece, with these columns."""
    for aggregate in split.aggregates:
        names = _moment_names(aggregate)
        if not names or not _is_numeric_type(partial.schema.field(aggregate.part_columns[0]).type):
            continue
        rows = zip(*(partial[part].to_pylist() for part in aggregate.part_columns), strict=True)
        found = [
            _piece_moments(*(float(value or 0) for value in row), length=piece_seconds)
            for row in rows
        ]
        for place, name in enumerate(names):
            partial = partial.append_column(
                name, pa.array([one[place] for one in found], pa.float64())
            )
    return partial


def _is_numeric_type(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _piece_moments(total: float, count: float | None = None, *, length: float) -> tuple[float, ...]:
    if count is None:
        return total * total, total * length
    return total * total, total * count, count * count


def estimate_rows(
    split: Split,
    accumulator: pa.Table | None,
    answer: Sequence[Mapping[str, Any]],
    requested_seconds: float,
    final: bool,
) -> list[dict[str, Any]]:
    """For each row of an answer, by output: what is likely over `asked` seconds (see `recall.operators.estimate`).

    Outputs that are one aggregate have estimates, in rows that their groups tell apart; other rows have none. `error`:
    that of a sketch, in words.
    """
    if split.selects_rows:
        return []
    outputs = {
        p.alias_or_name: p.unalias().name
        for p in split.merge.expressions
        if _is_plain_column(p.unalias())
    }
    known = {aggregate.value_column: aggregate for aggregate in split.aggregates}
    groups = {column: name for name, column in outputs.items() if column in split.groups}
    if len(groups) < len(split.groups):
        return []
    found = (
        {}
        if accumulator is None or not accumulator.num_columns
        else dict(_rows_by_group(split, accumulator))
    )
    sample = read_sample(accumulator)
    told = []
    for row in answer:
        mine = found.get(tuple(_group_value(row[groups[group]]) for group in split.groups), {})
        one = {}
        for name, column in outputs.items():
            if column in known:
                aggregate = known[column]
                likely = (
                    exact_estimate(row[name])
                    if final
                    else _estimate_value(aggregate, row[name], mine, sample, requested_seconds)
                )
                one[name] = vars(likely) | (
                    {"error": aggregate.error_bound} if aggregate.error_bound else {}
                )
        told.append(one)
    return told


def _is_plain_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not node.table


def _rows_by_group(
    split: Split, held: pa.Table
) -> Iterator[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    for row in held.to_pylist():
        yield tuple(_group_value(row[group]) for group in split.groups), row


def _group_value(value: Any) -> Any:
    """The same for a value and for how it is written."""
    return (
        value
        if value is None or isinstance(value, bool | str)
        else group_key(float(value))
        if _is_number(value)
        else value
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _estimate_value(
    aggregate: SplitAggregate, value: Any, row: Mapping[str, Any], sample: Sample, asked: float
) -> AnswerEstimate:
    if aggregate.kind in ("min", "bit_and"):
        return AnswerEstimate(value, None, value)
    if aggregate.kind in ("max", "bit_or", "count_distinct"):
        return AnswerEstimate(value, value, None)
    moments: list[Any] = [row.get(name) for name in _moment_names(aggregate)]
    if not moments or None in moments:
        return AnswerEstimate(value, None, None)
    parts = [float(row[part] or 0) for part in aggregate.part_columns]
    if aggregate.kind in ("avg", "exact_avg"):
        squares, both, measures = moments
        mean = estimate_average(Moments(parts[0], parts[1], squares, both, measures), sample, asked)
        return AnswerEstimate(value, mean.low, mean.high)
    squares, both = moments
    total = estimate_total(
        Moments(parts[0], sample.seconds, squares, both, sample.squared_seconds), sample, asked
    )
    if aggregate.kind == "count" and total.low is not None:
        return AnswerEstimate(total.value, max(total.low, value), total.high)
    return total
