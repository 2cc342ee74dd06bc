"""The recall process: one workspace's Recall Manager, out of the way of what is live."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg import Connection
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from archiver.engine.session import start_session
from archiver.reader import Reader
from archiver.schema import StreamSchema
from recall.corpora import Corpora
from recall.engines.chosen import Engines
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine, warm_up
from recall.ledger import Ledger
from recall.manager import Manager

# Live work goes first: less of the processor for this process and its JVM, and it is the one to go when memory ends.
_NICENESS, _OOM_SCORE = 10, "500"
# A chunk is large where a micro-batch is small: here compiling a whole stage pays.
_SETTINGS = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class Place:
    """What of a workspace the recall process needs. `relations` gives all versions of a relation, as a table."""

    root: Path
    schemas: Sequence[StreamSchema]
    relations: Callable[[str], pa.Table]
    master: str
    warehouse: Path
    conf: Mapping[str, str]
    history_queries: int
    engine: str


def run(place: Place, connection: Connection[Any], lease: int, stop: threading.Event, beat: Callable[[], None]) -> None:
    """Serve recalls until `stop` is set. `lease`: the epoch of this process in its role."""
    step_aside()
    spark = start_session("moirae recall", place.master, place.warehouse, {**_SETTINGS, **place.conf})
    engines = [_engines(place, spark) for _ in range(place.history_queries)]
    for schema in place.schemas[:1]:
        with suppress(PySparkException, Py4JError):
            warm_up(engines[0].spark, schema)
    manager = Manager(connection, Ledger(connection, lease), Corpora(connection, place.root), engines)
    manager.run(stop, beat)
    spark.stop()


def _engines(place: Place, spark: SparkSession) -> Engines:
    engine = SparkEngine(spark.newSession(), Reader(place.root, place.schemas), place.relations)
    return Engines(engine, None if place.engine == "spark" else LocalEngine(Reader(place.root, place.schemas)))


def step_aside() -> None:
    """Make this process and what it starts give way to live ones."""
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
