"""`moirae query`: ad-hoc SQL over the archive, optionally followed by live rows."""

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from archiver.threads import start_daemon
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    WorkspaceOption,
    expand_option_groups,
)
from moirae.cli.pages import make_query
from moirae.cli.query_output import OPEN_STATES, QueryFormat, QueryOutput, make_output
from moirae.cli.recall_control import execute_command
from moirae.cli.remote import open_services
from moirae.config import parse_duration
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import connect_database
from sql.recalls import TaskSummaryRow

if TYPE_CHECKING:
    from moirae.services import LocalWorkspace, Workspace
    from moirae.services.operations.recalls import Verb

_MAX_LIMIT = 10_000  # rows
_DEFAULT_TIMEOUT = "5m"
_POLL_INTERVAL = 0.1  # seconds
# Between two heartbeats of the client, and between two checks whether a recall process runs.
_KEEP_ALIVE_INTERVAL = 5.0  # seconds
_ANSWERS_PER_REQUEST = 1_000
# For a history query of this process to end. What it has not stored is read again by the next.
_WORKER_TIMEOUT = 2.0  # seconds
_EXIT_INCOMPLETE = 3


@dataclass(frozen=True)
class _Limits:
    """What a query reads, and for how long."""

    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=1,
            max=_MAX_LIMIT,
            help="Maximum number of rows of a query without aggregates.",
        ),
    ] = 100
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="Time limit, after which the answer so far is printed. Not counted: the start of "
            "Spark, and waiting for a busy machine.",
        ),
    ] = _DEFAULT_TIMEOUT
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DURATION",
            help="Read only rows at most this much older than the newest. Default: all.",
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

    Exit code 3 if the answer is incomplete: the time limit was reached, chunks were not readable,
    or --since begins before the oldest rows that are kept.
    """
    from moirae.services.operations.queries import QueryBody, start

    timeout = _parse(limits.timeout, "--timeout")
    since = _parse(limits.since, "--since")
    if limits.duration is not None and not limits.follow:
        raise UsageError("--for requires --follow; without it use --timeout")
    if limits.follow:
        timeout = _parse(limits.duration, "--for")
    body = make_query(QueryBody, sql=text, limit=limits.limit, since=since, follow=limits.follow)
    with open_services(workspace) as services:
        started = start(services, body)
        client = _QueryClient(services, started.id)
        printer = make_output(output, started)
        with _Worker.of(services, started.id) as worker:
            try:
                with printer:
                    is_complete = _print_answers(client, printer, worker, timeout)
            except KeyboardInterrupt:
                client.end("cancel")
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


class _QueryClient:
    """A query that was started, here or at a server."""

    def __init__(self, services: "Workspace", query: UUID) -> None:
        self._services = services
        self._query = query

    def state(self) -> TaskSummaryRow:
        """How far the query is."""
        from moirae.services.operations.recalls import show_recall

        return show_recall(self._services, str(self._query))

    def print_answers_after(self, number: int, printer: QueryOutput) -> int:
        """Print the answers after a number, oldest first; returns the number of the last one."""
        from moirae.services.operations.recalls import RevisionQuery, list_revisions

        while True:
            page = RevisionQuery(after=number, limit=_ANSWERS_PER_REQUEST)
            answers = list_revisions(self._services, str(self._query), page)
            for answer in answers:
                printer.add(answer)
                number = answer.number
            if len(answers) < _ANSWERS_PER_REQUEST:
                return number

    def keep_alive(self) -> None:
        """Send a heartbeat. Raises `Unreachable` if no recall process runs at the server."""
        from moirae.services.operations.queries import keep_alive

        keep_alive(self._services, self._query)

    def end(self, verb: "Verb") -> None:
        """Cancel or finalize the query."""
        from moirae.services.operations.recalls import CommandBody

        body = make_query(CommandBody, command=verb, id=str(self._query))
        execute_command(self._services, body)


def _print_answers(
    client: _QueryClient, printer: QueryOutput, worker: "_Worker", timeout: float | None
) -> bool:
    """Print answers until the query ends; returns whether the last one is complete.

    `timeout`: seconds until the query is ended with the answer so far. Raises `MoiraeError`.
    """
    checked_at = time.monotonic()
    limit = _TimeLimit(timeout, checked_at, counts_delays=printer.follows)
    number = 0
    has_timed_out = False
    while True:
        state = client.state()
        number = client.print_answers_after(number, printer)
        printer.show_progress(state)
        if state.state not in OPEN_STATES:
            break
        now = time.monotonic()
        if now - checked_at >= _KEEP_ALIVE_INTERVAL:
            checked_at = now
            client.keep_alive()
            worker.check()
        if limit.is_exceeded(state, now) and not has_timed_out:
            has_timed_out = True
            client.end("finalize")
        else:
            time.sleep(_POLL_INTERVAL)
    printer.finish()
    if state.state == "failed":
        raise MoiraeError(f"the query failed: {state.error}")
    if state.state == "cancelled":
        raise MoiraeError("the query was cancelled")
    if number == 0:
        reason = "" if state.error is None else f" ({state.error})"
        raise MoiraeError(f"no answer within the time limit{reason}: set a longer --timeout")
    return printer.is_complete


class _TimeLimit:
    """The time limit of a query that this process waits for: from when a process works on it.

    Unless `counts_delays`, time in which that waits for Spark to start, or for a busy machine, does
    not count. `seconds` None: no limit.
    """

    def __init__(self, seconds: float | None, now: float, counts_delays: bool) -> None:
        """`now`: by the monotonic clock, in seconds."""
        self._seconds = seconds
        self._counts_delays = counts_delays
        self._began_at = now

    def is_exceeded(self, state: TaskSummaryRow, now: float) -> bool:
        """Whether the query has had its time."""
        delayed = 0.0
        if not self._counts_delays:
            delayed = state.delayed
            if state.started_at is None:
                self._began_at = now
        return self._seconds is not None and now - self._began_at - delayed >= self._seconds


class _Worker(AbstractContextManager["_Worker"]):
    """Works on the query in this process while no recall process does."""

    def __init__(self, workspace: "LocalWorkspace | None", query: UUID) -> None:
        """`workspace` None: at a server, where only recall processes work on queries."""
        self._workspace = workspace
        self._query = query
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    @classmethod
    def of(cls, services: "Workspace", query: UUID) -> "_Worker":
        """The worker of a query of a workspace."""
        from moirae.services import LocalWorkspace

        return cls(services if isinstance(services, LocalWorkspace) else None, query)

    def __enter__(self) -> "_Worker":
        self.check()
        return self

    def check(self) -> None:
        """Start to work if no recall process runs. Raises `MoiraeError` if the work failed."""
        from moirae.queries import has_recall_process

        if self._error is not None:
            raise self._error
        if self._workspace is None or self._thread is not None:
            return
        if not has_recall_process(self._workspace.connection):
            self._thread = start_daemon(partial(self._work, self._workspace), "query")

    def _work(self, workspace: "LocalWorkspace") -> None:
        from moirae.recall_process import run_query_task

        settings = workspace.settings
        try:
            with connect_database(settings, "query") as connection:
                run_query_task(settings, connection, self._query, self._stop)
        except Exception as error:
            self._error = error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_WORKER_TIMEOUT)
