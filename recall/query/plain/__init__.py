"""Rules in a part of SQL that means the same in Spark and in DuckDB, as queries with their constants as data. Pure.

A query in this part is one SELECT over one stream, or over such a SELECT, that filters and projects, or that groups by
windows and columns: plain types, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, + - * / %, and the common aggregates.
It is written anew, with every name qualified, every type explicit, and the constants of its outermost SELECT taken out
into a table, so that queries that differ in constants only have one text. Sliding windows are written in two steps,
too: rows into panes, panes into windows. `tests/contract/test_live_engines.py` holds both engines and Spark's own
reading of the rules against each other. Whatever is not listed here is `NotPlain`.
"""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from recall.errors import NotPlain
from recall.query.plain.model import PANES_TABLE, PanedQuery, PlainQuery, SqlDialect
from recall.query.plain.rendering import DuckDBDialect, SparkDialect
from recall.query.plain.select import SelectWriter

__all__ = [
    "PANES_TABLE",
    "DuckDBDialect",
    "PanedQuery",
    "PlainQuery",
    "SparkDialect",
    "to_plain",
]


def to_plain(
    query: exp.Query,
    tables: Mapping[str, Mapping[str, str]],
    output_types: Mapping[str, str],
    dialect: SqlDialect,
) -> PlainQuery:
    """The query over physical `tables` (columns with types), whose attributes have some `types`. Raises `NotPlain`.

    Its types are as Spark has found them: where they would come out otherwise here, it is not plain.
    """
    if not isinstance(query, exp.Select):
        raise NotPlain("it is not one SELECT")
    writer = SelectWriter(dialect, tables, parameterized=True)
    written = writer.write(query)
    made = {name.lower(): value for name, value in written.outputs}
    if len(made) != len(written.outputs) or set(made) != {
        "ts",
        *(name.lower() for name in output_types),
    }:
        raise NotPlain("an output without a name of its own")
    if made["ts"].type != "timestamp" or any(
        made[name.lower()].type != kind for name, kind in output_types.items()
    ):
        raise NotPlain(
            "outputs of other types than int, bigint, double, string, boolean and timestamp"
        )
    columns = [
        f"{made['ts'].sql} AS ts",
        *(f"{made[name.lower()].sql} AS c{i}" for i, name in enumerate(output_types)),
    ]
    head = f"SELECT {writer.rule_column} AS rule, {', '.join(columns)} "
    before, middle, after = written.text_parts
    paned = written.paned_query
    if paned is not None:
        first, *rest = paned.merge
        paned = replace(paned, merge=(head + first, *rest))
    return PlainQuery(
        (head + before, middle, after),
        written.source.sql,
        written.source.is_query,
        written.source.streams,
        tuple(kind for kind, _ in writer.constants),
        tuple(output_types),
        tuple(made[name.lower()].type for name in output_types),
        tuple(value for _, value in writer.constants),
        paned,
    )
