"""Answers computed again from the inputs that are stored with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from pyspark.sql import SparkSession

import sql
from archiver.spark import session_on_demand
from moirae.alerts import TablesOfRecalls
from moirae.config import Settings
from moirae.live import Relations
from moirae.runtime.storage import open_storage, recalled_streams
from recall.corpora import Corpora
from recall.replay import ReplayedAnswer, Replayer, SimilarReplayer, SqlReplayer, replay
from recall.sandbox import harden_session


def repeat_last_answers(
    settings: Settings, connection: sql.Connection, event_or_recall: UUID
) -> list[ReplayedAnswer]:
    """Compute the last answers about an event, or of one recall, again."""
    with _open_replayers(settings, connection) as replayers:
        return list(replay(connection, event_or_recall, replayers))


@contextmanager
def _open_replayers(
    settings: Settings, connection: sql.Connection
) -> Iterator[Mapping[str, Replayer]]:
    """A replayer for each kind of recall. Spark is started when one of them needs it."""
    storage = open_storage(settings)
    schemas = recalled_streams(settings, connection)
    declared = Relations(connection, settings.relations)
    relations = TablesOfRecalls(connection, declared.table, settings.relations.keys())
    with session_on_demand("moirae repeat", Path(settings.home) / "warehouse") as start_session:

        def create_session() -> SparkSession:
            return harden_session(start_session().newSession())

        sql_replayer = SqlReplayer(
            connection,
            storage,
            schemas,
            create_session,
            relations.table,
            settings.recall.engine,
            unversioned=relations.unversioned,
        )
        similar_replayer = SimilarReplayer(connection, Corpora(connection, storage))
        yield {"sql": sql_replayer, "similar": similar_replayer}
