"""Relations read from a PostgreSQL table."""

import threading
from typing import Any

import orjson
import structlog

import sql
from moirae.config import Relation, TableSource
from moirae.errors import MoiraeError
from moirae.live.sources.relation_file import decode_rows, identity_columns
from sql.archive import read_source_table

_LOG = structlog.get_logger()

_MAX_ROWS = 100_000  # rows: a relation is loaded as a whole
_FIRST_READ_TIMEOUT = 20.0  # seconds


class TableRelationReader:
    """Polls a table in a thread, so that a slow or unreachable database blocks no caller."""

    def __init__(self, name: str, relation: Relation, source: TableSource) -> None:
        self._name = name
        self._relation = relation
        self._source = source
        self._lock = threading.Lock()
        self._first_read_done = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True, name=f"relation {name}")
        self._rows: list[dict[str, Any]] = []
        self._error: str | None = None
        self._has_new_result = False

    def has_changed(self) -> bool:
        """Whether the rows differ from the last ones read, or reading them failed since.

        The first call starts the thread, and waits up to `_FIRST_READ_TIMEOUT` for the rows.
        """
        if not self._thread.is_alive() and not self._first_read_done.is_set():
            self._thread.start()
            if not self._first_read_done.wait(_FIRST_READ_TIMEOUT):
                self._record_result(None, f"no answer within {_FIRST_READ_TIMEOUT:.0f} s")
        with self._lock:
            return self._has_new_result

    def read_rows(self) -> list[dict[str, Any]]:
        """The rows as of the last poll. Raises `MoiraeError` if it failed."""
        with self._lock:
            self._has_new_result = False
            if self._error is not None:
                raise MoiraeError(
                    f"relation {self._name}: table {self._source.table}: {self._error}"
                )
            return self._rows

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()

    def _poll(self) -> None:
        while True:
            try:
                self._record_result(self._query_rows(), None)
            except (sql.DatabaseError, MoiraeError) as error:
                self._record_result(None, str(error).strip().splitlines()[0])
            except Exception:
                _LOG.exception(
                    "cannot read relation", action="relation_failed", relation=self._name
                )
                self._record_result(None, "cannot read the table: see the log")
            self._first_read_done.set()
            if self._stop.wait(self._source.every.total_seconds()):
                return

    def _record_result(self, rows: list[dict[str, Any]] | None, error: str | None) -> None:
        """Store the rows or the error of a poll; a repeated error is no new result."""
        with self._lock:
            if rows is None:
                self._has_new_result = self._has_new_result or error != self._error
                self._error = error
                return
            if self._error is not None and self._first_read_done.is_set():
                _LOG.info(
                    "relation is readable again", action="relation_recovered", relation=self._name
                )
            is_first = not self._first_read_done.is_set() or self._error is not None
            self._has_new_result = self._has_new_result or is_first or rows != self._rows
            self._rows = rows
            self._error = None

    def _query_rows(self) -> list[dict[str, Any]]:
        """The rows, by key. They are read as JSON and decoded like the lines of a file."""
        lines = read_source_table(
            self._source.database.get_secret_value(),
            table=self._source.table,
            columns=list(dict.fromkeys(self._relation.field_names)),
            limit=_MAX_ROWS + 1,
        )
        if len(lines) > _MAX_ROWS:
            raise MoiraeError(f"too many rows: a relation has at most {_MAX_ROWS}")
        decoded = decode_rows(self._name, self._relation, "jsonl", lines, [])
        if decoded.refused_lines:
            refused = decoded.refused_lines[0]
            raise MoiraeError(f"row {refused.raw[:200].decode()}: {refused.detail}")
        rows: list[dict[str, Any]] = decoded.table.drop_columns(["_extra"]).to_pylist()
        key_columns = identity_columns(self._relation)
        keys = [list(map(row.__getitem__, key_columns)) for row in rows]
        if len(set(map(tuple, keys))) < len(keys):
            raise MoiraeError(f"duplicate {', '.join(key_columns)}")
        return sorted(rows, key=lambda row: orjson.dumps(list(map(row.__getitem__, key_columns))))
