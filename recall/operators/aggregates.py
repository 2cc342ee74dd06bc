"""Partial aggregates of many groups, merged piece by piece. Pure.

Variances are merged by count, mean and sum of squared differences (Chan, Golub and LeVeque, 1979), never by sums of
squares. NULL and NaN count as in Spark: NULL is left out, NaN is the largest number and equals itself.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from recall.query.split import Aggregate, Split

Parts = tuple[Any, ...]
_EID = "_eid"


def merge(split: Split, held: pa.Table | None, more: pa.Table) -> pa.Table:
    """Two tables of partial answers (`_eid`, groups, parts) as one, a row for each event and group.

    Rows of a query without aggregates are kept side by side: its `merge` cuts them.
    """
    if held is None:
        return more
    if not split.aggregates:
        return pa.concat_tables([held, more.cast(held.schema)])
    found: dict[tuple[Any, ...], list[Parts]] = {}
    for table in (held, more):
        for row in table.to_pylist():
            mine = found.get(_group(split, row))
            theirs = [tuple(row[part] for part in aggregate.parts) for aggregate in split.aggregates]
            if mine is None:
                found[_group(split, row)] = [(row[_EID], *(row[name] for name in split.groups)), *theirs]
            else:
                pairs = zip(split.aggregates, mine[1:], theirs, strict=True)
                mine[1:] = [_MERGE[aggregate.kind](a, b) for aggregate, a, b in pairs]
    rows = [dict(zip(more.column_names, _flat(values), strict=True)) for values in found.values()]
    return pa.Table.from_pylist(rows, schema=held.schema)


def values(split: Split, held: pa.Table | None, event: str) -> pa.Table | None:
    """The table that `merge` of a split reads, for one event: `_eid`, groups and values of aggregates; or plain rows.

    Without groups there is a row also where nothing was found. None: there is no row.
    """
    if held is None or not len(held):
        return _nothing(split, event) if split.whole else None
    if not split.aggregates:
        return held
    columns: dict[str, pa.ChunkedArray | pa.Array] = {name: held[name] for name in (_EID, *split.groups)}
    for aggregate in split.aggregates:
        parts = [held[part].to_pylist() for part in aggregate.parts]
        kind = held.schema.field(aggregate.parts[0]).type if aggregate.kind in ("sum", "min", "max") else None
        kind = kind or (pa.int64() if aggregate.kind == "count" else pa.float64())
        columns[aggregate.value] = pa.array([_value(aggregate, row) for row in zip(*parts, strict=True)], kind)
    return pa.table(columns)


def _nothing(split: Split, event: str) -> pa.Table:
    """Aggregates over no rows: counts are 0, the others NULL (of no type)."""
    counts = {a.value: pa.array([0], pa.int64()) for a in split.aggregates if a.kind == "count"}
    return pa.table({_EID: [event], **{a.value: counts.get(a.value, pa.nulls(1)) for a in split.aggregates}})


def _flat(row: Sequence[Parts]) -> list[Any]:
    return [value for part in row for value in part]


def _group(split: Split, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """NaN groups with NaN, and 0.0 with -0.0."""
    return tuple(_same(row[name]) for name in (_EID, *split.groups))


def _same(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | dict):
        return repr(value)
    return value


def _sum(a: Parts, b: Parts) -> Parts:
    return (b[0],) if a[0] is None else (a[0],) if b[0] is None else (a[0] + b[0],)


def _each_sum(a: Parts, b: Parts) -> Parts:
    return tuple(_sum((x,), (y,))[0] for x, y in zip(a, b, strict=True))


def _smaller(a: Parts, b: Parts) -> Parts:
    known = [x for x in (a[0], b[0]) if x is not None]
    return (min(known, key=_rank),) if known else (None,)


def _larger(a: Parts, b: Parts) -> Parts:
    known = [x for x in (a[0], b[0]) if x is not None]
    return (max(known, key=_rank),) if known else (None,)


def _rank(value: Any) -> tuple[Any, ...]:
    """As Spark orders values: NULL first, NaN last, structs and arrays by their parts."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict | list):
        return (1, tuple(map(_rank, value.values() if isinstance(value, dict) else value)))
    return (1, value)


def _spread(a: Parts, b: Parts) -> Parts:
    """(count, mean, sum of squared differences from the mean) of two samples together."""
    if not a[0]:
        return b
    if not b[0]:
        return a
    (n, mean, m2), (more, other, others) = a, b
    count, shift = n + more, other - mean
    return count, mean + shift * more / count, m2 + others + shift * shift * n * more / count


_MERGE: dict[str, Callable[[Parts, Parts], Parts]] = {
    "count": _sum,
    "sum": _sum,
    "avg": _each_sum,
    "min": _smaller,
    "max": _larger,
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _spread),
}


def _value(aggregate: Aggregate, parts: Parts) -> Any:
    if aggregate.kind in ("count", "sum", "min", "max"):
        return parts[0]
    if aggregate.kind == "avg":
        total, count = parts
        return total / count if count else None
    count, _, m2 = parts
    less = 1 if aggregate.kind.endswith("samp") else 0
    # As Spark: a single value has no sample variance.
    if count is None or count <= less:
        return None
    variance = m2 / (count - less)
    return math.sqrt(variance) if aggregate.kind.startswith("stddev") else variance
