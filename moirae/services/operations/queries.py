"""Start ad-hoc queries over the archive.

A query is a recall without a rule: its state and answers are read, and it is finalized or
cancelled, by the operations of recalls.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import Field

from moirae.errors import MoiraeError, NotFound, Unreachable, UsageError
from moirae.runtime.storage import archived_streams, open_storage, with_removed_streams
from moirae.services.models import Arguments, Seconds
from moirae.services.operation import allow_queries, operation
from sql.recalls import TaskFilter, TaskGateway, TaskSummaryRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace
    from recall.requests import RecallRequest

_MAX_ROWS = 10_000
_MAX_SQL_LENGTH = 100_000  # characters
_MAX_SECONDS = 100 * 365 * 86_400.0
_COMMAND = "cli"
_NO_RECALL_PROCESS = (
    "no recall process is running, so queries are not answered: start `moirae up` or "
    "`moirae run recall` on the machine of the server"
)

SqlText = Annotated[str, Field(min_length=1, max_length=_MAX_SQL_LENGTH)]


class QueryBody(Arguments):
    """A query and what it reads."""

    sql: SqlText = Field(description="SELECT over streams, relations and derived streams.")
    limit: int = Field(100, ge=1, le=_MAX_ROWS, description="Maximum number of plain rows.")
    since: Seconds | None = Field(
        None,
        ge=0,
        le=_MAX_SECONDS,
        description="How far before the newest row history is read, in s or as text such as `7d`; "
        "absent: all of it.",
    )
    follow: bool = Field(False, description="Continue with rows that arrive after the start.")


@dataclass(frozen=True, kw_only=True)
class StartedQuery:
    """A query that was started. `id`: of its recall.

    `appends_rows`: whether rows that arrive are added to the answer, which is else replaced.
    `newest_first`: whether its rows are ordered by time, newest first.
    """

    id: UUID
    follow: bool
    appends_rows: bool
    newest_first: bool


def _prepare(workspace: "LocalWorkspace", body: QueryBody) -> "RecallRequest":
    """The request of a query. What DuckDB cannot run is analysed by Spark."""
    from archiver.read import Reader
    from archiver.spark import session_on_demand
    from moirae.deployments import RuleRegistry
    from moirae.queries import QueryOptions, make_request, prepare_query
    from recall.errors import QueryRejected
    from recall.query import Unsupported

    if not _is_answered(workspace):
        raise MoiraeError(_NO_RECALL_PROCESS)  # a client that repeats the request gets no other
    settings = with_removed_streams(workspace.settings, workspace.connection)
    since = None if body.since is None else timedelta(seconds=body.since)
    options = QueryOptions(limit=body.limit, since=since, follow=body.follow)
    definitions = RuleRegistry(workspace.connection).desired_rules()
    try:
        with session_on_demand("moirae query", Path(settings.home) / "warehouse") as start_session:
            question = prepare_query(body.sql, settings, definitions, options, start_session)
    except (Unsupported, QueryRejected) as error:
        raise UsageError(f"query:{error.line}:{error.column}: {error}") from error
    schemas = archived_streams(workspace.settings, workspace.connection)
    return make_request(question, Reader(open_storage(settings), schemas))


@allow_queries
@operation("POST", "/queries", role="operator", in_child=True, prepare=_prepare)
def start(workspace: "LocalWorkspace", body: QueryBody, prepared: Any = None) -> StartedQuery:
    """Start an ad-hoc query over the archive, newest chunks first. Its answers are revisions of
    the recall `id`.

    A client calls `keep-alive` more often than every 30 s, until the recall has ended: without it
    the query is suspended.
    """
    from recall.engines import Template
    from recall.ledger import Ledger
    from recall.requests import SqlQuestion, task_id

    assert isinstance(prepared.question, SqlQuestion)
    Ledger(workspace.connection).add([prepared])
    split = Template(prepared.question).split
    return StartedQuery(
        id=task_id(prepared.rule, prepared.version, prepared.recall, prepared.event.eid),
        follow=body.follow,
        appends_rows=split.selects_rows and split.whole is None,
        newest_first=split.newest_first,
    )


@allow_queries
@operation("POST", "/queries/{recall}/keep-alive", role="operator", changes=False)
def keep_alive(workspace: "LocalWorkspace", recall: UUID) -> TaskSummaryRow:
    """Record that the client of a query still waits, which resumes a suspended query. Answers with
    the state of its recall.
    """
    from recall.requests import AD_HOC_RULE

    gateway = TaskGateway(workspace.connection)
    selection = TaskFilter(id=recall, rule=AD_HOC_RULE)
    if not gateway.list_newest(selection, limit=1):
        raise NotFound(f"no query {recall}")
    if not _is_answered(workspace):
        raise Unreachable(_NO_RECALL_PROCESS)  # `moirae up` may be about to start another one
    gateway.refine([recall])
    return gateway.list_newest(selection, limit=1)[0]


def _is_answered(workspace: "LocalWorkspace") -> bool:
    """Whether a process works on queries. A local command works on its own."""
    from moirae.queries import has_recall_process

    return workspace.via == _COMMAND or has_recall_process(workspace.connection)
