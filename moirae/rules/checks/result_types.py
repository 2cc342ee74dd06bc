"""The columns of the answer of an SQL recall and of its partial answers, by Spark's analysis."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from recall.errors import QueryRejected
from recall.query import Tables, check_table_count, sql_names
from recall.query.split import parse_recall, split_query

# Returns the columns of a query about an event that may read these tables of the event, with their
# types. Raises `QueryRejected` or `Unsupported`.
Analyse = Callable[[str | exp.Query, Collection[str]], dict[str, str]]
# Creates an empty table of merged values with these columns.
CreateMergedTable = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True)
class ResultTypes:
    """`columns`: of the answer, with their types. `merged`, `whole`: see `Split`."""

    columns: Mapping[str, str]
    merged: Mapping[str, str]
    whole: str | None = None


def infer_result_types(
    sql: str,
    tables: Tables,
    event_tables: Collection[str],
    analyse: Analyse,
    create_merged_table: CreateMergedTable,
) -> ResultTypes:
    """The types of the query of a recall. Raises `QueryRejected` or `Unsupported`.

    `event_tables`: tables with rows for each event that the query may read.
    """
    check_table_count(sql, tables.derived)
    parts = split_query(sql, tables)
    # The query as written first, so that messages refer to what its author knows.
    written: exp.Query = parts.partial
    if parts.whole is None:
        written = parse_recall(sql)
    written_columns = analyse(written, event_tables)
    merged_types: dict[str, str] = {}
    if parts.type_probe is not None:
        merged_types = analyse(parts.type_probe, event_tables)
        parts = split_query(sql, tables, merged_types)
    partial_columns = analyse(parts.partial, event_tables)
    merged_columns = partial_columns if parts.selects_rows else merged_types
    if parts.whole is not None and parts.merge.args.get("order"):
        merged_columns = {**merged_columns, sql_names.ROW_NUMBER: "int"}
    create_merged_table({sql_names.EID: "string", **merged_columns})
    columns = analyse(parts.merge, {*event_tables, sql_names.MERGED_TABLE})
    if list(columns) != list(written_columns):
        raise QueryRejected("name every column of the query result with AS")
    return ResultTypes(columns, merged_types, parts.whole)


def locate_fragment(sql: str, error: QueryRejected) -> tuple[int, int]:
    """Line and column (from 1) of the rejected fragment in `sql`; (1, 1) if it is not found."""
    word = error.fragment.replace("`", "").split(".")[-1].strip()
    if not word:
        return 1, 1
    match = re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", sql, re.IGNORECASE)
    if match is None:
        return 1, 1
    text_before = sql[: match.start()]
    line_start = text_before.rfind("\n") + 1
    return text_before.count("\n") + 1, len(text_before) - line_start + 1
