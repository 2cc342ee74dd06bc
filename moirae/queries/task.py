"""The task of an ad-hoc query: start it, read its answers, keep it alive and end it."""

import getpass
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

import sql
from archiver.read import Reader
from archiver.times import Micros, to_micros
from recall.ledger import Ledger, Target, Verb, fetch_effect, submit_command
from recall.requests import AD_HOC_RULE, RecallEvent, RecallRequest, SqlQuestion, task_id

_RECALL = "query"
_RECALL_ROLE = "recall"
_OPEN_STATES = ("waiting", "running", "suspended")
# Statistics of files of other writers are truncated to milliseconds.
_MILLISECOND = 1_000  # microseconds
# How long a command may take before its effect is no longer waited for.
_COMMAND_TIMEOUT = 5.0  # seconds
_POLL_INTERVAL = 0.05  # seconds


@dataclass(frozen=True)
class QueryState:
    """The state of the task of a query. `pieces`: of history; None until they are planned."""

    state: str
    error: str | None
    read: int
    pieces: int | None

    @property
    def is_open(self) -> bool:
        """Whether there may be further answers."""
        return self.state in _OPEN_STATES


class QueryTask:
    """A query that was started. Its client calls `keep_alive` more often than every 30 s."""

    def __init__(self, connection: sql.Connection, task: UUID, eid: UUID) -> None:
        self.id = task
        self._eid = eid
        self._connection = connection
        self._tasks = sql.TaskGateway(connection)
        self._revisions = sql.RevisionGateway(connection)

    def answers_after(self, number: int) -> list[sql.AnswerRow]:
        """The answers after a number, oldest first."""
        return self._revisions.list_after(self.id, number)

    def state(self) -> QueryState:
        """How far the query is."""
        (row,) = self._tasks.list_newest(eid=self._eid, rule=None, states=None, limit=1)
        return QueryState(row.state, row.error, row.read, row.pieces)

    def keep_alive(self) -> None:
        """Record a heartbeat of the client, which resumes a suspended query."""
        self._tasks.refine([self.id])

    def cancel(self) -> None:
        """End the query and discard its answers."""
        self._execute("cancel")

    def finalize(self) -> None:
        """End the query and keep its last answer."""
        self._execute("finalize")

    def _execute(self, verb: Verb) -> None:
        number = submit_command(
            self._connection, str(uuid4()), verb, Target(task=str(self.id)), getpass.getuser()
        )
        deadline = time.monotonic() + _COMMAND_TIMEOUT
        while fetch_effect(self._connection, number) is None and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL)


def start_query(connection: sql.Connection, question: SqlQuestion, reader: Reader) -> QueryTask:
    """Start a query over all that is archived. `reader`: of the archive."""
    event = RecallEvent(uuid4(), _end_of_archive(reader, question.streams), {}, {})
    # A version for each query: the limits that one exceeds do not stop others.
    version = hashlib.sha256(question.sql.encode()).hexdigest()[:16]
    request = RecallRequest(AD_HOC_RULE, version, _RECALL, question, event, 0)
    Ledger(connection).add([request])
    return QueryTask(connection, task_id(AD_HOC_RULE, version, _RECALL, event.eid), event.eid)


def has_recall_process(connection: sql.Connection) -> bool:
    """Whether a recall process of the workspace runs."""
    for process in sql.ProcessGateway(connection).list_all():
        if process.alive and process.role.split(" ")[0] == _RECALL_ROLE:
            return True
    return False


def _end_of_archive(reader: Reader, streams: Iterable[str]) -> Micros:
    """An event time after all rows of some streams."""
    newest: list[Micros] = []
    for stream in streams:
        newest.extend(file.newest for file in reader.snapshot(stream).all_files)
    if not newest:
        return to_micros(datetime.now(UTC))
    return max(newest) + _MILLISECOND
