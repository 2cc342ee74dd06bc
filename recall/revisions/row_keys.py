"""The keys by which rows of successive answers are matched."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from archiver.times import format_micros
from recall.query import Unsupported, row_key_columns
from recall.requests import AnyQuestion, SqlQuestion

# The columns whose values identify a row; None: all of them.
RowKey = tuple[str, ...] | None

# The columns of a similarity answer as a stream, with their Spark types.
HIT_COLUMNS = {"past_eid": "string", "rank": "int", "score": "double", "past_ts": "timestamp"}
_MAX_QUERIES = 1_000


def context_column(name: str) -> str:
    """The column of a past event's context, beside `HIT_COLUMNS`."""
    return f"{name}_context"


def question_row_key(question: AnyQuestion) -> RowKey:
    """What identifies a row of the answers to a question."""
    if not isinstance(question, SqlQuestion):
        return ("past_eid",)
    return _sql_row_key(question.sql)


@lru_cache(_MAX_QUERIES)
def _sql_row_key(sql: str) -> RowKey:
    try:
        return row_key_columns(sql)
    except Unsupported:  # stored by another version
        return None


def describe_rows(question: AnyQuestion, answer: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The rows of an answer as the stream shows them: hits without their explanation."""
    if isinstance(question, SqlQuestion):
        return list(answer)
    rows = []
    for hit in answer:
        row = {name: hit.get(name) for name in HIT_COLUMNS}
        row["past_ts"] = format_micros(hit["past_ts"])
        rows.append(row)
    return rows


def key_rows(rows: Iterable[Mapping[str, Any]], row_key: RowKey) -> dict[str, Mapping[str, Any]]:
    """The rows by key: JSON of the key columns, or of the whole row and a counter of equal rows."""
    keyed: dict[str, Mapping[str, Any]] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        key: Any = row
        if row_key is not None:
            key = {name: row.get(name) for name in row_key}
        text = _dump(key)
        counts[text] += 1
        if row_key is None or counts[text] > 1:
            text = _dump([key, counts[text]])
        keyed[text] = row
    return keyed


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
