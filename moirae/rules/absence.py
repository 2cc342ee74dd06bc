"""Event queries of rules of absence. No I/O."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from recall.query import parse, sql_names

if TYPE_CHECKING:
    from moirae.rules.rule_set import Rule


def build_absence_sql(stream: str, time: str, key: Sequence[str], seconds: float) -> str:
    """SQL that returns a row for each key value and each time at which it became absent.

    The time is that of its last row plus `seconds`.
    """
    keys = _quote(key)
    gap = _interval(seconds)
    return (
        f"SELECT {keys}, `{time}` + {gap} AS ts FROM (SELECT {keys}, `{time}`, "
        f"lead(`{time}`) OVER (PARTITION BY {keys} ORDER BY `{time}`) AS _next FROM {stream}) "
        f"WHERE _next IS NULL OR _next > `{time}` + {gap}"
    )


def build_rows_sql(stream: str, time: str, key: Sequence[str]) -> str:
    """SQL for the key and time of all rows of a stream."""
    return f"SELECT {_quote(key)}, `{time}` AS ts FROM {stream}"


def add_expected_keys(
    rule: "Rule", silent: exp.Query, rows: exp.Query, relation: str, bounds: Sequence[str]
) -> exp.Query:
    """The event query of a rule with the keys of a relation that never came.

    A key is expected from the time at which its row became valid, or from the first row of the
    streams if that is later. It has an event `absent` later if it is valid still and no row came
    from `absent` before to `absent` after it: where one came before, its silence has an event.

    `silent`: the query of keys that fell silent; `rows`: see `build_rows_sql`, both over physical
    tables. `relation`: the view of all its row versions. `bounds`: views of the streams with the
    time of the first row and the range of the evaluation.
    """
    spec = rule.spec
    assert spec.absent is not None and spec.key is not None
    keys = _quote(spec.key)
    gap = _interval(spec.absent.total_seconds())
    limits = " UNION ALL ".join(f"SELECT _first, _low, _high FROM {view}" for view in bounds)
    start = "greatest(_from, _first)"
    expected = (
        f"SELECT {keys}, {start} AS _start FROM ({_valid_spans(keys, relation)}) CROSS JOIN "
        f"(SELECT min(_first) AS _first, min(_low) AS _low, min(_high) AS _high FROM ({limits})) "
        f"WHERE _first IS NOT NULL AND _until > {start} + {gap} "
        f"AND (_low IS NULL OR {start} + {gap} >= _low) "
        f"AND (_high IS NULL OR {start} + {gap} < _high)"
    )
    same_key = " AND ".join(f"r.`{name}` <=> e.`{name}`" for name in spec.key)
    selected = ", ".join(f"e.`{name}`" for name in spec.key)
    return parse(
        f"SELECT {keys}, ts FROM ({silent.sql(dialect='spark')}) UNION ALL "
        f"SELECT {selected}, e._start + {gap} AS ts FROM ({expected}) AS e "
        f"LEFT ANTI JOIN ({rows.sql(dialect='spark')}) AS r ON {same_key} "
        f"AND r.ts >= e._start - {gap} AND r.ts <= e._start + {gap}"
    )


def _valid_spans(keys: str, relation: str) -> str:
    """SQL for the spans of time in which keys are in a relation, in whichever of its versions."""
    start, end = sql_names.VALID_FROM, sql_names.VALID_TO
    by_start = f"OVER (PARTITION BY {keys} ORDER BY `{start}`, `{end}`"
    earlier_end = f"max(`{end}`) {by_start} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    begins = f"CASE WHEN `{start}` <= {earlier_end} THEN 0 ELSE 1 END"
    marked = f"SELECT {keys}, `{start}`, `{end}`, {begins} AS _begins FROM {relation}"
    numbered = (
        f"SELECT {keys}, `{start}`, `{end}`, sum(_begins) {by_start} "
        f"ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS _span FROM ({marked})"
    )
    return (
        f"SELECT {keys}, min(`{start}`) AS _from, max(`{end}`) AS _until FROM ({numbered}) "
        f"GROUP BY {keys}, _span"
    )


def _quote(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _interval(seconds: float) -> str:
    return f"INTERVAL '{seconds}' SECOND"
