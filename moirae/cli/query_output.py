"""Output of `moirae query`: answers as a table, JSON or CSV, at the end or as they come."""

import csv
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from moirae.cli.export import format_csv_cell
from moirae.cli.options import escape_control, format_cell, make_console, print_json
from moirae.runtime import write_json
from sql.recalls import TaskSummaryRow

if TYPE_CHECKING:
    from moirae.services.operations.queries import StartedQuery
    from moirae.services.operations.recalls import RecallRevision

OPEN_STATES = ("waiting", "running", "suspended")
"""The states of a query that may have further answers."""
Row = Mapping[str, Any]
_MAX_REFINED_ROWS = 30  # of a table while it is refined


class QueryFormat(StrEnum):
    """Formats of answers of queries."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def make_output(output: QueryFormat, query: "StartedQuery") -> "QueryOutput":
    """What prints the answers of a query."""
    if output is QueryFormat.TABLE:
        return _TableOutput(query)
    if output is QueryFormat.JSON:
        return _JsonOutput(query)
    return _CsvOutput(query)


class QueryOutput:
    """Prints the last answer of a query; of one that follows, what changes as it changes."""

    def __init__(self, query: "StartedQuery") -> None:
        self.follows = query.follow
        self.appends_rows = query.appends_rows
        self._is_newest_first = query.newest_first
        # The last answer that is whole: not only rows that were appended.
        self.last: RecallRevision | None = None
        self._has_history = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    @property
    def is_complete(self) -> bool:
        """Whether the last answer is over all of the history that was asked for."""
        return self.last is not None and not _coverage(self.last)["partial"]

    def add(self, answer: "RecallRevision") -> None:
        """Take the next answer."""
        if _coverage(answer).get("appends"):
            self.print_live_rows(self.in_arrival_order(_rows(answer)))
            return
        self.last = answer
        if not self.follows:
            return
        if self._has_history:
            # Plain rows are printed once: their last answer repeats those of history.
            if not self.appends_rows:
                self.print_live_answer(answer)
        elif not _coverage(answer)["partial"] or _coverage(answer)["left"] == 0:
            self._has_history = True
            self.print_history(answer)
            if not answer.rows:
                print("waiting for rows …", file=sys.stderr)

    def finish(self) -> None:
        """Print what is left to print at the end."""
        if self.last is None:
            return
        if not self.follows:
            self.print_answer(self.last)
        elif not self._has_history:
            self.print_history(self.last)

    def in_arrival_order(self, rows: Sequence[Row]) -> list[Row]:
        """Rows as they are appended: oldest first, unless the query has another order."""
        return list(reversed(rows)) if self._is_newest_first else list(rows)

    def show_progress(self, state: TaskSummaryRow) -> None:
        """Show how far the query is."""

    def print_answer(self, answer: "RecallRevision") -> None:
        """Print the only answer that is printed."""
        raise NotImplementedError

    def print_history(self, answer: "RecallRevision") -> None:
        """Print the answer over history, which live rows follow."""
        raise NotImplementedError

    def print_live_answer(self, answer: "RecallRevision") -> None:
        """Print an answer that live rows have changed."""
        raise NotImplementedError

    def print_live_rows(self, rows: Sequence[Row]) -> None:
        """Print plain rows that have arrived."""
        raise NotImplementedError


class _JsonOutput(QueryOutput):
    """One document at the end; of a query that follows, a line for each change."""

    def print_answer(self, answer: "RecallRevision") -> None:
        print_json(self._to_json(answer))

    def print_history(self, answer: "RecallRevision") -> None:
        self._print_line(self._to_json(answer))

    def print_live_answer(self, answer: "RecallRevision") -> None:
        self._print_line(self._to_json(answer))

    def print_live_rows(self, rows: Sequence[Row]) -> None:
        if rows:  # the last answer has none
            self._print_line({"appended": rows})

    def _to_json(self, answer: "RecallRevision") -> dict[str, Any]:
        return {
            "revision": answer.number,
            "rows": _rows(answer),
            "estimates": answer.estimates or [],
            "coverage": answer.coverage,
        }

    def _print_line(self, value: Any) -> None:
        write_json(orjson.dumps(value))
        sys.stdout.flush()


class _CsvOutput(QueryOutput):
    """Rows below a header; of aggregates that follow, with the number of their revision."""

    def __init__(self, query: "StartedQuery") -> None:
        super().__init__(query)
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._columns: list[str] = []

    def print_answer(self, answer: "RecallRevision") -> None:
        self._write(_rows(answer))

    def print_history(self, answer: "RecallRevision") -> None:
        if self.appends_rows:
            self._write(self.in_arrival_order(_rows(answer)))
        else:
            self.print_live_answer(answer)

    def print_live_answer(self, answer: "RecallRevision") -> None:
        self._write([{"revision": answer.number, **row} for row in _rows(answer)])

    def print_live_rows(self, rows: Sequence[Row]) -> None:
        self._write(rows)

    def _write(self, rows: Sequence[Row]) -> None:
        if rows and not self._columns:
            self._columns = list(rows[0])
            self._writer.writerow(self._columns)
        for row in rows:
            self._writer.writerow([format_csv_cell(row.get(name)) for name in self._columns])
        sys.stdout.flush()


class _TableOutput(QueryOutput):
    """A table, which on a terminal is refined while chunks are read."""

    def __init__(self, query: "StartedQuery") -> None:
        super().__init__(query)
        self._console = make_console()
        self._widths: dict[str, int] = {}
        self._state: TaskSummaryRow | None = None
        self._live: Live | None = None
        if self._console.is_terminal:
            # Plain rows that follow are printed below each other: only the progress of history is
            # replaced.
            is_transient = self.follows and self.appends_rows
            self._live = Live(console=self._console, refresh_per_second=4, transient=is_transient)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show_progress(self, state: TaskSummaryRow) -> None:
        self._state = state
        if self._live is not None:
            self._live.update(self._render(self.last, _MAX_REFINED_ROWS))

    def print_answer(self, answer: "RecallRevision") -> None:
        if self._live is not None:
            self._live.update(self._render(answer, len(_rows(answer))))
        else:
            self._console.print(self._render(answer, len(_rows(answer))))

    def print_history(self, answer: "RecallRevision") -> None:
        if self.appends_rows:
            if self._live is not None:
                self._live.stop()
                self._live = None
            self._console.print(self._describe(answer))
            self.print_live_rows(self.in_arrival_order(_rows(answer)))
        else:
            self.print_live_answer(answer)

    def print_live_answer(self, answer: "RecallRevision") -> None:
        if self._live is None:
            self._console.print(self._render(answer, len(_rows(answer))))

    def print_live_rows(self, rows: Sequence[Row]) -> None:
        cells_by_row = [{name: format_cell(value) for name, value in row.items()} for row in rows]
        if rows and not self._widths:
            for name in rows[0]:
                widths = [len(cells[name]) for cells in cells_by_row]
                self._widths[name] = max(len(name), *widths)
            self._print_line({name: name for name in self._widths}, "bold")
        for cells in cells_by_row:
            self._print_line(cells)

    def _print_line(self, cells: Mapping[str, str], style: str = "") -> None:
        padded = [cells.get(name, "").ljust(width) for name, width in self._widths.items()]
        line = "  ".join(padded).rstrip()
        self._console.print(line, style=style, soft_wrap=True, highlight=False)

    def _render(self, answer: "RecallRevision | None", max_rows: int) -> RenderableType:
        if answer is None:
            return Text(f"{self._progress()}: no answer yet", "dim")
        rows = _rows(answer)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in rows[0] if rows else ():
            table.add_column(escape_control(name), overflow="fold")
        for row in rows[:max_rows]:
            table.add_row(*map(format_cell, row.values()))
        parts: list[RenderableType] = [table if rows else Text("no rows")]
        if len(rows) > max_rows:
            parts.append(Text(f"… and {len(rows) - max_rows:,} more", "dim"))
        return Group(*parts, self._describe(answer))

    def _describe(self, answer: "RecallRevision") -> Text:
        from moirae.inspect.past_events import describe_coverage

        return Text(f"{self._progress()}: {describe_coverage(_coverage(answer))}", "dim")

    def _progress(self) -> str:
        return "waiting" if self._state is None else self._state.state


def _rows(answer: "RecallRevision") -> Sequence[Row]:
    return answer.rows or ()


def _coverage(answer: "RecallRevision") -> Mapping[str, Any]:
    assert answer.coverage is not None  # only stages have none
    return answer.coverage
