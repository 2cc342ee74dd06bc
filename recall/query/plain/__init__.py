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

from recall.query.plain.model import PANES, NotPlain, Paned, Plain, Words
from recall.query.plain.select import Writer
from recall.query.plain.words import DuckWords, SparkWords

__all__ = ["PANES", "DuckWords", "NotPlain", "Paned", "Plain", "SparkWords", "plain"]


def plain(query: exp.Query, tables: Mapping[str, Mapping[str, str]], types: Mapping[str, str], words: Words) -> Plain:
    """The query over physical `tables` (columns with types), whose attributes have some `types`. Raises `NotPlain`.

    Its types are as Spark has found them: where they would come out otherwise here, it is not plain.
    """
    if not isinstance(query, exp.Select):
        raise NotPlain("it is not one SELECT")
    writer = Writer(words, tables, shared=True)
    written = writer.select(query)
    made = {name.lower(): value for name, value in written.outputs}
    if len(made) != len(written.outputs) or set(made) != {"ts", *(name.lower() for name in types)}:
        raise NotPlain("an output without a name of its own")
    if made["ts"].kind != "timestamp" or any(made[name.lower()].kind != kind for name, kind in types.items()):
        raise NotPlain("outputs of other types than int, bigint, double, string, boolean and timestamp")
    columns = [f"{made['ts'].sql} AS ts", *(f"{made[name.lower()].sql} AS c{i}" for i, name in enumerate(types))]
    head = f"SELECT {writer.rule} AS rule, {', '.join(columns)} "
    before, middle, after = written.parts
    paned = written.paned
    if paned is not None:
        first, *rest = paned.merge
        paned = replace(paned, merge=(head + first, *rest))
    return Plain(
        (head + before, middle, after),
        written.source.sql,
        written.source.nested,
        written.source.streams,
        tuple(kind for kind, _ in writer.constants),
        tuple(types),
        tuple(made[name.lower()].kind for name in types),
        tuple(value for _, value in writer.constants),
        paned,
    )
