"""A recall process that holds parts of corpora: `python -m tests.faults.part_worker FILE NAME BYTES`."""

import sys
import threading
from pathlib import Path

import recall.corpora
import recall.worker.manager
from archiver.read import Reader
from moirae.config import load_settings_from_environment
from moirae.runtime import database, storage
from recall.corpora import Corpora
from recall.corpus_parts import PartHolder
from recall.engines import LocalEngine, SparkEngine
from recall.engines.routing import EngineRouter, PartialCache
from recall.ledger import Ledger
from recall.worker import KeyCounts, ManagerConfig, RecallManager
from tests.integration.history import no_relations, no_spark

if __name__ == "__main__":
    recall.corpora._SAVE_MIN_EVENTS = 10
    recall.worker.manager._PARTS_INTERVAL = 0.05
    settings = load_settings_from_environment(Path(sys.argv[1]))
    connection = database.connect_database(settings, sys.argv[2])
    root = storage.open_storage(settings)
    lease = Ledger.acquire_lease(connection)
    parts = PartHolder(connection, lease=lease, max_bytes=int(sys.argv[3]), name=sys.argv[2])
    reader = Reader(root, [])
    spark = SparkEngine(no_spark, reader, no_relations)
    engines = EngineRouter(spark, LocalEngine(reader), PartialCache(0))
    manager = RecallManager(
        connection,
        Ledger(connection, lease),
        Corpora(connection, root, parts),
        key_counts=KeyCounts(reader),
        config=ManagerConfig(engines=[engines], query_timeout=600.0, parts=parts),
    )
    manager.run(threading.Event(), lambda _: None)
