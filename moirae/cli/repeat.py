"""`recalls repeat`: answers computed again from what was stored with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from psycopg import Connection

from moirae import storage
from moirae.cli.control import meant
from moirae.cli.options import WORKSPACE, Output, OutputOption, Workspace, database, print_json, print_table, visible
from moirae.errors import UsageError
from moirae.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from recall.repeating import Asks, Repeated

Id = Annotated[str, typer.Argument(metavar="ID", help="Of an event, an alert or a recall, or how it begins.")]

_WORDS = {True: "the same", False: "DIFFERENT", None: "expired"}
# Exit codes.
_DIFFERENT, _EXPIRED = 1, 3


def repeat(which: Id, workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """Compute the last answers about an event again. Exit code 1 if they differ, 3 if what one came from is gone."""
    from recall.repeating import repeat as again

    with database(workspace) as (settings, connection), _asking(settings, connection) as asks:
        (number,) = meant(connection, which).values()
        found = list(again(connection, UUID(number), asks))
    if not found:
        raise UsageError(f"{visible(which)!r} has no answer to repeat")
    if output is Output.JSON:
        print_json([vars(answer) for answer in found])
    else:
        columns = ("recall", "revision", "answer", "rows", "rule version", "from", "why")
        print_table(columns, [_row(answer) for answer in found], "")
    if any(answer.equal is False for answer in found):
        raise typer.Exit(_DIFFERENT)
    if any(answer.equal is None for answer in found):
        raise typer.Exit(_EXPIRED)


def _row(answer: "Repeated") -> tuple[Any, ...]:
    read = ", ".join(f"{stream} at {last:,}" for stream, (_, last) in answer.appends.items())
    came = f"corpus {answer.corpus:,}" if answer.corpus is not None else read
    rows = None if answer.equal is None else len(answer.answer)
    return answer.recall, answer.revision, _WORDS[answer.equal], rows, answer.version, came, answer.why or ""


@contextmanager
def _asking(settings: Settings, connection: Connection[Any]) -> Iterator[Mapping[str, "Asks"]]:
    """Who asks again, by the kind of question; Spark starts when one needs it."""
    from archiver.engine.session import start_session
    from moirae.live.relations import Relations
    from moirae.live.schemas import schema
    from recall.corpora import Corpora
    from recall.gate import guarded
    from recall.repeat_similar import SimilarAgain
    from recall.repeat_sql import SqlAgain

    started: list[SparkSession] = []

    def session() -> "SparkSession":
        started.append(start_session("moirae repeat", "local[2]", Path(settings.home) / "warehouse", {}, "short"))
        return guarded(started[0].newSession())

    root, schemas = storage.root(settings), [schema(name, declared) for name, declared in settings.streams.items()]
    relations = Relations(connection, settings.relations)
    history = SqlAgain(connection, root, schemas, session, relations.table, settings.recall.engine)
    try:
        yield {"sql": history, "similar": SimilarAgain(connection, Corpora(connection, root))}
    finally:
        for spark in started:
            spark.stop()
