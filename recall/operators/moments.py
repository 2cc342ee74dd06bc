"""What estimates need of the pieces that were read, kept beside their merged partial answers. Pure.

For each sum, count and average there are sums over pieces of squares and products (`recall.operators.estimate`), as
columns of the table that holds the partial answers; how many pieces there were, and how long, is in its metadata.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
from sqlglot import exp

from recall.operators.estimate import Estimate, Moments, Sample, averaged, exact, extrapolated
from recall.operators.kinds import same
from recall.query.split import Aggregate, Split

_SAMPLE = b"sample"
_MOMENTS = {"count": 2, "sum": 2, "avg": 3, "exact_avg": 3}


def sample_of(held: pa.Table | None) -> Sample:
    """The pieces that a merged partial answer is made of."""
    stored = (held.schema.metadata or {}).get(_SAMPLE) if held is not None else None
    return Sample(*orjson.loads(stored)) if stored else Sample()


def with_sample(held: pa.Table, sample: Sample) -> pa.Table:
    """The same, made of these pieces."""
    stored = orjson.dumps([sample.pieces, sample.length, sample.squares])
    return held.replace_schema_metadata({**(held.schema.metadata or {}), _SAMPLE: stored})


def moment_columns(split: Split) -> dict[str, Aggregate]:
    """The columns of sums of squares and products, with the aggregates that they are about."""
    return {name: a for a in split.aggregates for name in _names(a)}


def _names(aggregate: Aggregate) -> list[str]:
    return [f"_m{aggregate.value[2:]}_{place}" for place in range(_MOMENTS.get(aggregate.kind, 0))]


def with_moments(split: Split, partial: pa.Table, length: float) -> pa.Table:
    """The partial answer of one piece, with these columns."""
    for aggregate in split.aggregates:
        names = _names(aggregate)
        if not names or not _numeric(partial.schema.field(aggregate.parts[0]).type):
            continue
        rows = zip(*(partial[part].to_pylist() for part in aggregate.parts), strict=True)
        found = [_of_one(*(float(value or 0) for value in row), length=length) for row in rows]
        for place, name in enumerate(names):
            partial = partial.append_column(name, pa.array([one[place] for one in found], pa.float64()))
    return partial


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _of_one(total: float, count: float | None = None, *, length: float) -> tuple[float, ...]:
    if count is None:
        return total * total, total * length
    return total * total, total * count, count * count


def estimates(
    split: Split, held: pa.Table | None, answer: Sequence[Mapping[str, Any]], asked: float, final: bool
) -> list[dict[str, Any]]:
    """For each row of an answer, by output: what is likely over `asked` seconds (see `recall.operators.estimate`).

    Outputs that are one aggregate have estimates, in rows that their groups tell apart; other rows have none. `error`:
    that of a sketch, in words.
    """
    if split.rows:
        return []
    outputs = {p.alias_or_name: p.unalias().name for p in split.merge.expressions if _column(p.unalias())}
    known = {aggregate.value: aggregate for aggregate in split.aggregates}
    groups = {column: name for name, column in outputs.items() if column in split.groups}
    if len(groups) < len(split.groups):
        return []
    found = {} if held is None or not held.num_columns else dict(_by_group(split, held))
    sample = sample_of(held)
    told = []
    for row in answer:
        mine = found.get(tuple(_key(row[groups[group]]) for group in split.groups), {})
        one = {}
        for name, column in outputs.items():
            if column in known:
                aggregate = known[column]
                likely = exact(row[name]) if final else _estimate(aggregate, row[name], mine, sample, asked)
                one[name] = vars(likely) | ({"error": aggregate.error} if aggregate.error else {})
        told.append(one)
    return told


def _column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not node.table


def _by_group(split: Split, held: pa.Table) -> Iterator[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    for row in held.to_pylist():
        yield tuple(_key(row[group]) for group in split.groups), row


def _key(value: Any) -> Any:
    """The same for a value and for how it is written."""
    return value if value is None or isinstance(value, bool | str) else same(float(value)) if _number(value) else value


def _number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _estimate(aggregate: Aggregate, value: Any, row: Mapping[str, Any], sample: Sample, asked: float) -> Estimate:
    if aggregate.kind in ("min", "bit_and"):
        return Estimate(value, None, value)
    if aggregate.kind in ("max", "bit_or", "count_distinct"):
        return Estimate(value, value, None)
    moments: list[Any] = [row.get(name) for name in _names(aggregate)]
    if not moments or None in moments:
        return Estimate(value, None, None)
    parts = [float(row[part] or 0) for part in aggregate.parts]
    if aggregate.kind in ("avg", "exact_avg"):
        squares, both, measures = moments
        mean = averaged(Moments(parts[0], parts[1], squares, both, measures), sample, asked)
        return Estimate(value, mean.low, mean.high)
    squares, both = moments
    total = extrapolated(Moments(parts[0], sample.length, squares, both, sample.squares), sample, asked)
    if aggregate.kind == "count" and total.low is not None:
        return Estimate(total.value, max(total.low, value), total.high)
    return total
