"""DuckDB inside this process: one thread, times in UTC, results as Arrow tables."""

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from archiver.threads import start_daemon
from recall.errors import Cancelled, MemoryExceeded, SparkRequired, StatementTimeout
from recall.statements.json_text import CREATE_JSON_TEXT
from recall.statements.statement import Statement

# Options: statements read registered tables only, no files, network or extensions. What does not
# fit into memory fails; it must not fill the disk.
NO_EXTERNAL_ACCESS = (
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)

_POLL_INTERVAL = 0.01  # seconds between checks of a statement that is about to exceed its limit


class DuckDBStatements:
    """A database in memory. A `StatementEngine`.

    What fails raises `SparkRequired`: Spark may succeed, and its errors are the ones that are
    reported. What is interrupted raises `Cancelled`.
    """

    def __init__(self, settings: Sequence[str] = ()) -> None:
        """`settings`: statements that set an option."""
        self._settings = ("SET TimeZone = 'UTC'", CREATE_JSON_TEXT, *settings)
        self._lock = threading.Lock()
        self._opened: duckdb.DuckDBPyConnection | None = None

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """Opened when it is first used, which takes a hundredth of a second."""
        with self._lock:
            if self._opened is None:
                self._opened = _open_database(self._settings)
            return self._opened

    def register(self, name: str, rows: pa.Table) -> None:
        """See `StatementEngine`."""
        with _translated_errors():
            self._connection.register(name, rows)

    def unregister(self, name: str) -> None:
        """See `StatementEngine`."""
        self._connection.unregister(name)

    def run(
        self,
        statement: Statement,
        time_limit: float | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """See `StatementEngine`. `parameters`: values that the text names as `$NAME`."""
        names: list[str] = []

        def register(name: str, rows: pa.Table) -> None:
            self._connection.register(name, rows)
            names.append(name)

        _ignore_copy_warning()
        try:
            with _translated_errors(), _limited_time(self.interrupt, time_limit):
                for name, rows in statement.tables.items():
                    register(name, rows)
                for name, sql in statement.views.items():
                    register(name, self._connection.execute(sql).to_arrow_table())
                return self._connection.execute(statement.text, parameters).to_arrow_table()
        finally:
            for name in names:
                self._connection.unregister(name)

    def interrupt(self) -> None:
        """See `StatementEngine`."""
        if self._opened is not None:
            self._opened.interrupt()

    def close(self) -> None:
        """Release the memory of the database."""
        if self._opened is not None:
            self._opened.close()


def _open_database(settings: Sequence[str]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": "1GB"})
    for setting in settings:
        connection.execute(setting)
    return connection


def _ignore_copy_warning() -> None:
    """Results are small compared with what is read for them.

    Copying one costs less than planning every statement twice, as `connection.sql(…)` does. Before
    each statement: another thread that ends `warnings.catch_warnings` restores what was before.
    """
    warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.InterruptException as error:
        raise Cancelled("interrupted") from error
    except duckdb.OutOfMemoryException as error:
        raise MemoryExceeded(str(error)) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise SparkRequired(str(error)) from error


@contextmanager
def _limited_time(interrupt: Callable[[], None], time_limit: float | None) -> Iterator[None]:
    """Interrupt what runs once this thread has used some seconds of processor time."""
    if time_limit is None:
        yield
        return
    # DuckDB has one thread here: the one that calls it.
    read_clock = _thread_clock()
    deadline = read_clock() + time_limit
    finished = threading.Event()
    exceeded = threading.Event()

    def watch() -> None:
        remaining = time_limit
        while not finished.wait(max(remaining, _POLL_INTERVAL)):
            remaining = deadline - read_clock()
            if remaining <= 0:
                exceeded.set()
                interrupt()  # again and again: it has no effect between two statements

    watcher = start_daemon(watch, "duckdb time limit")
    try:
        yield
    except duckdb.InterruptException as error:
        if not exceeded.is_set():
            raise
        raise StatementTimeout(time_limit) from error
    finally:
        finished.set()
        watcher.join()


def _thread_clock() -> Callable[[], float]:
    """The processor time of the calling thread in seconds, readable from any thread.

    Wall-clock time where the system does not offer it, as macOS.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)
