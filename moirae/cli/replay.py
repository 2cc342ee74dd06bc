"""`recalls repeat`: answers computed again from what was stored with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from psycopg import Connection

from moirae.alerts import find_event_or_recall
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    escape_control,
    open_workspace,
    print_json,
    print_table,
)
from moirae.config import Settings
from moirae.errors import UsageError
from moirae.runtime import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from recall.replay import ReplayedAnswer, Replayer

ReplayArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Of an event, an alert or a recall, or how it begins.")
]

_RESULT_LABELS = {True: "the same", False: "DIFFERENT", None: "expired"}
# Exit codes.
_EXIT_DIFFERENT, _EXIT_EXPIRED = 1, 3


def repeat(
    which: ReplayArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Compute the last answers about an event again. Exit code 1 if they differ, 3 if what one came from is gone."""
    from recall.replay import replay as again

    with (
        open_workspace(workspace) as (settings, connection),
        _open_replayers(settings, connection) as asks,
    ):
        found = list(again(connection, find_event_or_recall(connection, which).id, asks))
    if not found:
        raise UsageError(f"{escape_control(which)!r} has no answer to repeat")
    if output is OutputFormat.JSON:
        print_json([vars(answer) for answer in found])
    else:
        columns = ("recall", "revision", "answer", "rows", "rule version", "from", "why")
        print_table(columns, [_result_row(answer) for answer in found], "")
    if any(answer.equal is False for answer in found):
        raise typer.Exit(_EXIT_DIFFERENT)
    if any(answer.equal is None for answer in found):
        raise typer.Exit(_EXIT_EXPIRED)


def _result_row(answer: "ReplayedAnswer") -> tuple[Any, ...]:
    read = ", ".join(f"{stream} at {last:,}" for stream, (_, last) in answer.appends.items())
    came = f"corpus {answer.corpus:,}" if answer.corpus is not None else read
    rows = None if answer.equal is None else len(answer.answer)
    return (
        answer.recall,
        answer.revision,
        _RESULT_LABELS[answer.equal],
        rows,
        answer.version,
        came,
        answer.why or "",
    )


@contextmanager
def _open_replayers(
    settings: Settings, connection: Connection[Any]
) -> Iterator[Mapping[str, "Replayer"]]:
    """Who asks again, by the kind of question; Spark starts when one needs it."""
    from archiver.spark import start_session
    from moirae.config import stream_schema
    from moirae.live import Relations
    from recall.corpora import Corpora
    from recall.replay import SimilarReplayer, SqlReplayer
    from recall.sandbox import harden_session

    started: list[SparkSession] = []

    def session() -> "SparkSession":
        started.append(
            start_session(
                "moirae repeat", "local[2]", Path(settings.home) / "warehouse", {}, "short"
            )
        )
        return harden_session(started[0].newSession())

    root, schemas = (
        open_storage(settings),
        [stream_schema(name, declared) for name, declared in settings.streams.items()],
    )
    relations = Relations(connection, settings.relations)
    history = SqlReplayer(
        connection, root, schemas, session, relations.table, settings.recall.engine
    )
    try:
        yield {"sql": history, "similar": SimilarReplayer(connection, Corpora(connection, root))}
    finally:
        for spark in started:
            spark.stop()
