"""Reads the archived rows that plain rules need, by DuckDB over the files, in this process."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from archiver.executors import Jobs
from archiver.read import Reader
from archiver.storage import LocalStorage
from archiver.time_range import TimeRange
from moirae.evaluation.necessary_rows import NecessaryRows, find_necessary_rows
from moirae.evaluation.plan import input_view
from moirae.evaluation.rule_groups import RuleGroup
from recall.engines import LruCache
from recall.errors import MemoryExceeded, SparkRequired
from recall.statements import DuckDBStatements, Statement, select_range

_MAX_GROUP_SETS = 64  # sets of groups of which it is known what they need


class NecessaryScan:
    """Scans of the files of streams, on as many cores as tasks."""

    def __init__(self, reader: Reader, jobs: Jobs) -> None:
        self._reader = reader
        self._jobs = jobs
        self._needs: LruCache[tuple[RuleGroup, ...], NecessaryRows | None]
        self._needs = LruCache(_MAX_GROUP_SETS)

    @cached_property
    def _duckdb(self) -> DuckDBStatements:
        return DuckDBStatements(
            [
                f"SET threads = {self._jobs.cores}",
                "SET parquet_metadata_cache = true",
                # Otherwise a LIMIT of many rows is one thread's.
                "SET preserve_insertion_order = false",
            ]
        )

    def read(
        self, groups: Sequence[RuleGroup], stream: str, time_range: TimeRange, max_event_rows: int
    ) -> pa.Table | None:
        """The rows that groups of plain rules over one stream need, with the columns that they name.

        `max_event_rows`: of all rules, if each row is one of each rule. None: what they need cannot
        be told from single rows, is too much, or is not on this machine.
        """
        max_rows = max_event_rows // sum(len(group.rules) for group in groups)
        snapshot = self._reader.snapshot(stream, time_range)
        if snapshot.table is None or not isinstance(snapshot.table.storage, LocalStorage):
            return None
        schema = self._reader.schema(stream)
        key = tuple(groups)
        needed = self._needs.get_or_create(
            key,
            lambda: find_necessary_rows(
                [group.rules for group in key], input_view(stream), schema.query_columns
            ),
        )
        if needed is None:
            return None
        files = [file for file in snapshot.files if not file.is_foreign]
        if snapshot.rows or not files:
            return None
        columns = dict.fromkeys([*needed.columns, schema.time])
        own = replace(snapshot, files=files)
        text = select_range(own, columns, time_range, input_view(stream))
        text += f" AND ({needed.condition}) LIMIT {max_rows + 1}"
        try:
            rows = self._duckdb.run(Statement(text))
        except (SparkRequired, MemoryExceeded):
            return None
        return rows if len(rows) <= max_rows else None
