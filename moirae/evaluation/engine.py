"""The path of an evaluation: groups of rules, the rows that they read, and engines in turn.

An engine takes the groups that it can evaluate. What it declines goes to the next one. What fails is
divided, see `moirae.evaluation.isolation`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame

from archiver.delta import DataFile
from archiver.times import Micros
from moirae.alerts import EventRow
from moirae.evaluation.lost_rows import LostRow
from moirae.evaluation.plan import ActiveRule, RuleSlice
from moirae.evaluation.rule_groups import RuleGroup
from recall.statements import FilePart, FileRows

Rows: TypeAlias = pa.Table | FileRows
RuleEventRows = list[tuple[ActiveRule, EventRow]]


class RowSource:
    """The rows of a stream that rules are evaluated over, in memory or in archived files.

    They are read when they are first needed: panes need none. `count`: an upper bound.
    """

    def __init__(
        self,
        count: int,
        read: Callable[[], Rows],
        make_frame: Callable[[Rows], DataFrame],
        find_first_time: Callable[[], Micros | None] = lambda: None,
    ) -> None:
        """`make_frame`: a data frame of the rows. `find_first_time`: of the first row of the stream."""
        self.count = count
        self._read = read
        self._make_frame = make_frame
        self.find_first_time = find_first_time

    @cached_property
    def _rows(self) -> Rows:
        return self._read()

    @property
    def table(self) -> pa.Table | None:
        """The rows, if memory holds them."""
        return self._rows if isinstance(self._rows, pa.Table) else None

    @property
    def files(self) -> FileRows | None:
        """The archived files of the rows, if memory does not hold them."""
        return self._rows if isinstance(self._rows, FileRows) else None

    def frame(self) -> DataFrame:
        """The rows as a data frame."""
        return self._make_frame(self._rows)

    @classmethod
    def of_table(cls, table: pa.Table) -> "RowSource":
        """Rows that Spark does not read."""

        def make_frame(rows: Rows) -> NoReturn:
            raise AssertionError("rows without a data frame")

        return cls(len(table), lambda: table, make_frame)

    def reduce(self, table: pa.Table) -> "RowSource":
        """Some of the rows."""
        return RowSource(len(table), lambda: table, self._make_frame, self.find_first_time)

    def load(self, max_rows: int) -> "RowSource | None":
        """The rows in memory; None if files have more than a limit."""
        files = self.files
        if files is None:
            return self
        if self.count > max_rows:
            return None
        return self.reduce(files.read(FilePart(files.files, files.time_range)))

    def divide(self) -> "list[RowSource]":
        """Two halves of the rows; of archived rows by files. A single row, or none, stays."""
        files = self.files
        if files is not None and len(files.files) > 1:
            middle = len(files.files) // 2
            return [self._of_files(files.files[:middle]), self._of_files(files.files[middle:])]
        loaded = self if files is None else self.load(self.count)
        assert loaded is not None
        table = loaded.table
        assert table is not None
        if len(table) < 2:
            return [loaded]
        middle = len(table) // 2
        return [self.reduce(table.slice(0, middle)), self.reduce(table.slice(middle))]

    def _of_files(self, files: Sequence[DataFile]) -> "RowSource":
        assert self.files is not None
        rows = replace(self.files, files=files)
        return RowSource(rows.row_count, lambda: rows, self._make_frame)


@dataclass(frozen=True, eq=False)
class EvaluationRequest:
    """The rows by stream. `rule_slice`: whose input they are; None: new rows.

    Only events of the slice are complete. `is_part`: of rows that exceeded a time limit; what
    exceeds a lower limit is divided further.
    """

    sources: Mapping[str, RowSource]
    rule_slice: RuleSlice | None = None
    is_part: bool = False

    @property
    def row_count(self) -> int:
        """An upper bound, for time limits."""
        return sum(source.count for source in self.sources.values())

    def with_source(self, stream: str, source: RowSource) -> "EvaluationRequest":
        """The request over other rows of a stream."""
        return replace(self, sources={**self.sources, stream: source})


class Events(NamedTuple):
    """The event rows of groups that were evaluated.

    `seconds`: the time that each rule took; None: it cannot be told apart.
    """

    groups: Sequence[RuleGroup]
    event_rows: RuleEventRows
    seconds: Mapping[ActiveRule, float] | None = None


class Declined(NamedTuple):
    """Groups that are left to the next engines, over all rows or some of them."""

    groups: Sequence[RuleGroup]
    request: EvaluationRequest
    reason: str


class Charged(NamedTuple):
    """Groups that failed. `error`: why; a single rule is charged for it.

    `failing_row`: with its stream, as JSON values; None if no single row makes it fail.
    """

    groups: Sequence[RuleGroup]
    error: Exception
    failing_row: Mapping[str, object] | None = None


class Lost(NamedTuple):
    """Rows for which a rule exceeded its limit: it has no verdict over them.

    The rule's events in the other rows are outcomes of their own.
    """

    rows: Sequence[LostRow]


Outcome = Events | Declined | Charged | Lost


def describe_row(stream: str, values: Mapping[str, object]) -> Mapping[str, object]:
    """A row of a stream as `Charged` has it."""
    return {"stream": stream, "row": orjson.loads(orjson.dumps(values, default=str))}


class RuleEngine(Protocol):
    """Evaluates groups of rules."""

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """The groups that the engine takes. No I/O."""

    def prepare(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> None:
        """Start what can run before the results are needed; by default nothing."""
        return

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterable[Outcome]:
        """The outcomes of selected groups, each of which is in one of them."""
