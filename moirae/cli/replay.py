"""`moirae recalls repeat`: compute answers again from the inputs stored with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sql
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

_RESULT_LABELS = {True: "the same", False: "DIFFERENT", None: "inputs expired"}
_COLUMNS = ("recall", "revision", "result", "rows", "rule version", "inputs", "reason")
_EXIT_DIFFERENT = 1
_EXIT_EXPIRED = 3

ReplayArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Event, alert or recall ID, or a unique prefix of it.")
]


def repeat(
    identifier: ReplayArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Compute the last answers about an event again and compare them.

    Exit code 1 if an answer differs, 3 if inputs of an answer have expired.
    """
    from moirae.alerts import find_event_or_recall
    from recall.replay import replay

    with (
        open_workspace(workspace) as (settings, connection),
        _open_replayers(settings, connection) as replayers,
    ):
        match = find_event_or_recall(connection, identifier)
        answers = list(replay(connection, match.id, replayers))
    if not answers:
        raise UsageError(f"{escape_control(identifier)!r} has no answer to repeat")
    if output is OutputFormat.JSON:
        print_json(list(map(vars, answers)))
    else:
        print_table(_COLUMNS, map(_format_row, answers), "")
    if any(answer.equal is False for answer in answers):
        raise typer.Exit(_EXIT_DIFFERENT)
    if any(answer.equal is None for answer in answers):
        raise typer.Exit(_EXIT_EXPIRED)


def _format_row(answer: "ReplayedAnswer") -> tuple[Any, ...]:
    inputs = ", ".join(f"{stream} at {last:,}" for stream, (_, last) in answer.appends.items())
    if answer.corpus is not None:
        inputs = f"corpus {answer.corpus:,}"
    return (
        answer.recall,
        answer.revision,
        _RESULT_LABELS[answer.equal],
        None if answer.equal is None else len(answer.answer),
        answer.version,
        inputs,
        answer.why or "",
    )


@contextmanager
def _open_replayers(
    settings: Settings, connection: sql.Connection
) -> Iterator[Mapping[str, "Replayer"]]:
    """A replayer for each kind of recall. Spark is started when one of them needs it."""
    from moirae.config import stream_schema
    from moirae.live import Relations
    from recall.corpora import Corpora
    from recall.replay import SimilarReplayer, SqlReplayer
    from recall.sandbox import harden_session

    storage = open_storage(settings)
    schemas = [stream_schema(name, stream) for name, stream in settings.streams.items()]
    relations = Relations(connection, settings.relations)
    sessions: list[SparkSession] = []

    def open_session() -> "SparkSession":
        if not sessions:
            sessions.append(_start_spark(settings))
        return harden_session(sessions[0].newSession())

    sql_replayer = SqlReplayer(
        connection, storage, schemas, open_session, relations.table, settings.recall.engine
    )
    similar_replayer = SimilarReplayer(connection, Corpora(connection, storage))
    try:
        yield {"sql": sql_replayer, "similar": similar_replayer}
    finally:
        for session in sessions:
            session.stop()


def _start_spark(settings: Settings) -> "SparkSession":
    from archiver.spark import start_session

    warehouse = Path(settings.home) / "warehouse"
    return start_session("moirae repeat", "local[2]", warehouse, {}, "short")
