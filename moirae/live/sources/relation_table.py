"""The rows of a relation that stand in a PostgreSQL table."""

import threading
from typing import Any

import orjson
import psycopg
import structlog
from psycopg import sql

from moirae.config import Relation, TableSource
from moirae.errors import MoiraeError
from moirae.live.sources.relation_file import decode_rows, identity_columns

_LOG = structlog.get_logger()

# A relation is small: rows of a table beyond which it is none. Seconds: for the first answer; for a connection.
_MAX_ROWS, _FIRST_READ_TIMEOUT, _CONNECT_TIMEOUT = 100_000, 20.0, 5
_CONNECTION_OPTIONS = "-c statement_timeout=10s -c default_transaction_read_only=on -c timezone=UTC"


class TableRelationReader:
    """Read again and again by a thread of its own, so that nobody waits for a database that is slow or away."""

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
        """Whether the table has other rows than those given last, or cannot be read any more."""
        if not self._thread.is_alive() and not self._first_read_done.is_set():
            self._thread.start()
            if not self._first_read_done.wait(_FIRST_READ_TIMEOUT):
                self._record_result(None, "no answer yet")
        with self._lock:
            return self._has_new_result

    def read_rows(self) -> list[dict[str, Any]]:
        """The table's rows as of the last look. Raises `MoiraeError` where that failed."""
        with self._lock:
            self._has_new_result = False
            if self._error is not None:
                raise MoiraeError(
                    f"relation {self._name}: table {self._source.table}: {self._error}"
                )
            return self._rows

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def _poll(self) -> None:
        while True:
            try:
                self._record_result(self._query_rows(), None)
            except (psycopg.Error, MoiraeError) as error:
                self._record_result(None, str(error).strip().splitlines()[0])
            except Exception:
                _LOG.exception(
                    "reading a relation failed", action="relation_failed", relation=self._name
                )
                self._record_result(None, "reading it failed, see the log")
            self._first_read_done.set()
            if self._stop.wait(self._source.every.total_seconds()):
                return

    def _record_result(self, found: list[dict[str, Any]] | None, error: str | None) -> None:
        with self._lock:
            if found is None:
                self._has_new_result = self._has_new_result or error != self._error
                self._error = error
                return
            if self._error is not None and self._first_read_done.is_set():
                _LOG.info("relation is back", action="relation_back", relation=self._name)
            first = not self._first_read_done.is_set() or self._error is not None
            self._has_new_result = self._has_new_result or first or found != self._rows
            self._rows, self._error = found, None

    def _query_rows(self) -> list[dict[str, Any]]:
        """As JSON, so that values become those of the declared columns as anywhere else."""
        columns = sql.SQL(", ").join(map(sql.Identifier, self._relation.columns))
        table = sql.Identifier(*self._source.table.split("."))
        query = sql.SQL("SELECT to_jsonb(r)::text FROM (SELECT {} FROM {} LIMIT {}) r")
        dsn = self._source.database.get_secret_value()
        with psycopg.connect(
            dsn, connect_timeout=_CONNECT_TIMEOUT, options=_CONNECTION_OPTIONS, autocommit=True
        ) as connection:
            found = connection.execute(
                query.format(columns, table, sql.Literal(_MAX_ROWS + 1))
            ).fetchall()
        if len(found) > _MAX_ROWS:
            raise MoiraeError(f"more than {_MAX_ROWS} rows: a relation is small")
        decoded = decode_rows(
            self._name, self._relation, "jsonl", [text.encode() for (text,) in found], []
        )
        if decoded.refused_lines:
            raise MoiraeError(
                f"row {decoded.refused_lines[0].raw[:200].decode()}: {decoded.refused_lines[0].detail}"
            )
        rows: list[dict[str, Any]] = decoded.table.drop_columns(["_extra"]).to_pylist()
        key = identity_columns(self._relation)
        keys = [tuple(row[column] for column in key) for row in rows]
        if len(set(keys)) < len(keys):
            raise MoiraeError(f"rows with the same {', '.join(key)}")
        return sorted(rows, key=lambda row: orjson.dumps([row[column] for column in key]))
