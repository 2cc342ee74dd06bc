"""Filters that Spark's JVM evaluates over some rows by its expressions, without a job.

See `org.moirae.filters.RowFilters`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from archiver.times import Micros


class FilterEvent(NamedTuple):
    """An event of a filter. `attributes`: a JSON object."""

    ts: Micros
    attributes: str


class RowReason(NamedTuple):
    """A row, by its position, and why a filter has no verdict about it."""

    row: int
    message: str


class FilterResult(NamedTuple):
    """What a filter says of rows, and the processor time that it took.

    `lost`: rows for which it exceeded a limit. `failed`: the row at which it ended with an error.
    """

    events: Sequence[FilterEvent]
    lost: Sequence[RowReason]
    failed: RowReason | None
    seconds: float


class RowFilters:
    """Compiled filters, by number. A filter is a query with one output over one view.

    The output is NULL, or a struct of a number, the time of an event and its attributes.
    """

    def __init__(self, start_session: Callable[[], SparkSession]) -> None:
        self._start_session = start_session

    @cached_property
    def _java(self) -> Any:
        session = self._start_session()
        java: Any = session._jvm
        return java.org.moirae.filters.RowFilters(session._jsparkSession)

    def compile(self, view: str, columns: pa.Schema, queries: Sequence[str]) -> list[int | None]:
        """The numbers of filters; None for one that only a statement evaluates.

        Replaces the view by one with these columns and no rows.
        """
        rows = _to_stream(columns.empty_table())
        numbers: list[int | None] = orjson.loads(
            self._java.compile(view, rows, orjson.dumps(queries).decode())
        )
        return numbers

    def evaluate(
        self, rows: pa.Table, numbers: Sequence[int], row_limit: float, limit: float
    ) -> list[FilterResult | None]:
        """The results of filters over rows with the columns that these were compiled for.

        None: not evaluated, because the filters before took `limit` seconds of processor time. A
        row for which a filter takes more than `row_limit` seconds is lost to it.
        """
        text = orjson.dumps(numbers).decode()
        results = self._java.evaluate(_to_stream(rows), text, row_limit, limit)
        return list(map(_to_result, orjson.loads(results)))

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget filters."""
        self._java.remove(orjson.dumps(list(numbers)).decode())


def _to_stream(rows: pa.Table) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = stream.getvalue().to_pybytes()
    return data


def _to_result(result: dict[str, Any] | None) -> FilterResult | None:
    if result is None:
        return None
    failed = result["failed"]
    return FilterResult(
        events=[FilterEvent(event["time"], event["attributes"]) for event in result["events"]],
        lost=[RowReason(row["row"], row["message"]) for row in result["lost"]],
        failed=None if failed is None else RowReason(failed["row"], failed["message"]),
        seconds=result["seconds"],
    )
