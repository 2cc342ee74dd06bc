"""`moirae query`: ad-hoc SQL over the archive, optionally followed by live rows."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    WorkspaceOption,
    expand_option_groups,
    open_workspace,
)
from moirae.cli.query_output import QueryFormat, QueryOutput, make_output
from moirae.config import Settings, parse_duration
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import connect_database, open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moirae.queries import QueryTask
    from recall.requests import SqlQuestion

_MAX_LIMIT = 10_000  # rows
_DEFAULT_TIMEOUT = "5m"
_POLL_INTERVAL = 0.1  # seconds
# Between two heartbeats of the client, and between two checks whether a recall process runs.
_KEEP_ALIVE_INTERVAL = 5.0  # seconds
_EXIT_INCOMPLETE = 3


@dataclass(frozen=True)
class _Limits:
    """What a query reads, and for how long."""

    limit: Annotated[
        int, typer.Option("--limit", min=1, max=_MAX_LIMIT, help="Maximum number of plain rows.")
    ] = 100
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout", metavar="DURATION", help="Time limit; then the answer so far is printed."
        ),
    ] = _DEFAULT_TIMEOUT
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DURATION",
            help="How far before the newest row history is read. Default: all of it.",
        ),
    ] = None
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue with rows that arrive after the start.")
    ] = False
    duration: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long to follow. Default: until Ctrl-C.",
        ),
    ] = None


@expand_option_groups
def query(
    text: Annotated[
        str, typer.Argument(metavar="SQL", help="SELECT over streams, relations, derived streams.")
    ],
    limits: _Limits,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: Annotated[
        QueryFormat, typer.Option("--output", "-o", help="Output format.")
    ] = QueryFormat.TABLE,
) -> None:
    """Query the archive, newest chunks first; the answer is refined while chunks are read.

    Exit code 3 if the answer is incomplete: the time limit was reached, or chunks were not
    readable.
    """
    timeout = _parse(limits.timeout, "--timeout")
    if limits.duration is not None and not limits.follow:
        raise UsageError("--for limits --follow; use --timeout")
    if limits.follow:
        timeout = _parse(limits.duration, "--for")
    with open_workspace(workspace) as (settings, connection):
        question = _prepare(text, settings, connection, limits)
        printer = make_output(output, question)
        task = _start(settings, connection, question)
        with _Worker(settings, connection, task) as worker:
            try:
                with printer:
                    is_complete = _print_answers(task, printer, worker.check, timeout)
            except KeyboardInterrupt:
                task.cancel()
                raise
    if not is_complete:
        raise typer.Exit(_EXIT_INCOMPLETE)


def _parse(duration: str | None, option: str) -> float | None:
    """Seconds; None stays None. Raises `UsageError`."""
    if duration is None:
        return None
    try:
        return parse_duration(duration).total_seconds()
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _prepare(
    text: str, settings: Settings, connection: sql.Connection, limits: _Limits
) -> "SqlQuestion":
    from moirae.deployments import RuleRegistry
    from moirae.queries import QueryOptions, prepare_query
    from recall.errors import QueryRejected
    from recall.query import Unsupported

    seconds = _parse(limits.since, "--since")
    since = None if seconds is None else timedelta(seconds=seconds)
    options = QueryOptions(limit=limits.limit, since=since, follow=limits.follow)
    definitions = RuleRegistry(connection).desired_rules()
    try:
        with _spark_on_demand(settings) as start_session:
            return prepare_query(text, settings, definitions, options, start_session)
    except (Unsupported, QueryRejected) as error:
        raise UsageError(f"query:{error.line}:{error.column}: {error}") from error


@contextmanager
def _spark_on_demand(settings: Settings) -> Iterator[Callable[[], "SparkSession"]]:
    """A function that starts Spark, which is stopped at the end."""
    with ExitStack() as stack:

        def start() -> "SparkSession":
            from archiver.spark import session_for_command

            warehouse = Path(settings.home) / "warehouse"
            return stack.enter_context(session_for_command("moirae query", warehouse))

        yield start


def _start(settings: Settings, connection: sql.Connection, question: "SqlQuestion") -> "QueryTask":
    from archiver.read import Reader
    from moirae.config import stream_schema
    from moirae.queries import start_query

    schemas = [stream_schema(name, stream) for name, stream in settings.streams.items()]
    return start_query(connection, question, Reader(open_storage(settings), schemas))


def _print_answers(
    task: "QueryTask", printer: QueryOutput, check_worker: Callable[[], None], timeout: float | None
) -> bool:
    """Print answers until the query ends; returns whether the last one is complete.

    `timeout`: seconds until the query is ended with the answer so far. Raises `MoiraeError`.
    """
    started_at = time.monotonic()
    checked_at = started_at
    number = 0
    has_timed_out = False
    while True:
        state = task.state()
        for answer in task.answers_after(number):
            number = answer.number
            printer.add(answer)
        printer.show_progress(state)
        if not state.is_open:
            break
        now = time.monotonic()
        if now - checked_at >= _KEEP_ALIVE_INTERVAL:
            checked_at = now
            task.keep_alive()
            check_worker()
        if timeout is not None and now - started_at >= timeout and not has_timed_out:
            has_timed_out = True
            task.finalize()
        else:
            time.sleep(_POLL_INTERVAL)
    printer.finish()
    if state.state == "failed":
        raise MoiraeError(f"the query failed: {state.error}")
    if state.state == "cancelled":
        raise MoiraeError("the query was cancelled")
    if number == 0:
        raise MoiraeError("no answer within the time limit: set a greater --timeout")
    return printer.is_complete


class _Worker:
    """Works on the query in this process while no recall process does."""

    def __init__(self, settings: Settings, connection: sql.Connection, task: "QueryTask") -> None:
        self._settings = settings
        self._connection = connection
        self._task = task
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def __enter__(self) -> "_Worker":
        self.check()
        return self

    def check(self) -> None:
        """Start to work if no recall process runs. Raises `MoiraeError` if the work failed."""
        from moirae.queries import has_recall_process

        if self._error is not None:
            raise MoiraeError(f"the query failed: {self._error}") from self._error
        if self._thread is None and not has_recall_process(self._connection):
            self._thread = threading.Thread(target=self._work, daemon=True, name="query")
            self._thread.start()

    def _work(self) -> None:
        from moirae.recall_process import run_query_task

        try:
            with connect_database(self._settings, "query") as connection:
                run_query_task(self._settings, connection, self._task.id, self._stop)
        except Exception as error:
            self._error = error

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
