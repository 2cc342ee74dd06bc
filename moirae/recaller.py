"""The recall process of a workspace."""

import threading
import time
from pathlib import Path
from typing import Any

from psycopg import Connection

from archiver.catalog import Catalog
from moirae import database, storage
from moirae.deployments.registry import Registry
from moirae.evaluation.learner import Learner
from moirae.live.relations import Relations
from moirae.live.schemas import schema
from moirae.process import Role
from moirae.rules.questions import SqlRecall
from moirae.settings import Settings
from moirae.up import watch_parent
from moirae.views.find import Related
from moirae.views.views import Views
from recall.ledger import Terms
from recall.run import Place
from recall.run import run as serve

# Seconds between two signs of life; processes that share the work.
_BEAT, _MOST = 2.0, 8


def run(settings: Settings, stop: threading.Event, parent: int | None = None) -> None:
    """Serve recalls until `stop` is set. `parent`: the process with which this one ends."""
    watch_parent(parent, stop)
    connection = database.connect(settings, "recall")
    role = Role.of_several(connection, "recall", _MOST)
    home = Path(settings.home)
    root, schemas = storage.root(settings), [schema(name, declared) for name, declared in settings.streams.items()]
    relations = Relations(database.connect(settings, "recall relations"), settings.relations)
    looking, working = (database.connect(settings, f"recall views {what}") for what in ("look", "work"))

    related = Related(relations.table, frozenset(settings.relations))
    place = Place(
        root,
        schemas,
        relations.table,
        settings.spark.master,
        home / "warehouse-recall",
        settings.spark.conf,
        (settings.recall.history_queries_least, settings.recall.history_queries),
        settings.recall.query_timeout.total_seconds(),
        settings.recall.engine,
        Terms(settings.recall.tickets_per_result, settings.recall.feedback_timeout),
        Catalog(database.connect(settings, "recall present")).present,
        settings.recall.present_memory << 20,
        _asks_sql(connection),
        lambda: database.connect(settings, "recall worker"),
        Views(looking, working, root, schemas, related),
    )
    beaten = 0.0

    def beat() -> None:
        nonlocal beaten
        if time.monotonic() - beaten > _BEAT:
            beaten = time.monotonic()
            role.beat("running")

    learner = Learner(lambda: database.connect(settings, "recall learner"), root)
    role.beat("starting")
    try:
        serve(place, connection, stop, beat)
    finally:
        learner.stop()
    role.beat("ended")


def _asks_sql(connection: Connection[Any]) -> bool:
    """Whether any deployed rule asks history in SQL."""
    specs = [definition.rule.spec for definition in Registry(connection).desired()]
    return any(isinstance(recall, SqlRecall) for spec in specs for recall in spec.recall.values())
