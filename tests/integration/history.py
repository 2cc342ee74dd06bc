"""A workspace with a history in chunks, and Recall Managers in this process that are asked about it. No Spark."""

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from archiver.chunk import CutPolicy
from archiver.ingest import Archive
from archiver.place import Root
from archiver.reader import Reader
from archiver.schema import StreamSchema
from archiver.times import span, to_micros
from archiver.units import Unit
from moirae import database, storage
from moirae.settings import Settings, from_environment
from recall.corpora import Corpora
from recall.engines.chosen import Engines
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.keys import Keys
from recall.ledger import Ledger, Terms
from recall.manager.loop import Manager
from recall.manager.preparing import Background
from recall.request import Asked, Order, Request, SqlQuestion, task_id
from recall.schedule.stride import Stride

START = datetime(2026, 1, 1, tzinfo=UTC)
CHUNKS = 20
"""Of the history that most modules ask about."""
HOSTS = 4
# A host that was there in the oldest chunk only.
GONE = f"h{HOSTS}"
_COLUMNS = {"ts": "timestamp", "host": "string", "v": "bigint"}
SCHEMA = StreamSchema("past", _COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(days=1))
_WORKSPACE = """
home: .moirae
archive: %s
streams:
  past: {columns: {ts: timestamp, host: string, v: bigint}, time: ts, source: {files: landing/*.jsonl}}
rules: []
"""
COUNT = "SELECT count(*) AS n, sum(h.v) AS total FROM past h WHERE h.host = event.host"


@dataclass
class History:
    """`rows`: (second, host, v) of each archived row. One connection for the tests, one for each manager."""

    settings: Settings
    connection: Connection[Any]
    rows: list[tuple[int, str, int]]
    keys: Keys

    def ask(
        self,
        number: int,
        sql: str = COUNT,
        *,
        rule: str = "g/r",
        host: int = 0,
        order: Order = "newest",
        every: float = 0.0,
        **further: Any,
    ) -> UUID:
        """A task about event `number`, at the end of history."""
        question = SqlQuestion(
            None, every, order, sql, {"past": "ts"}, (), {}, {"host": "string"}, {}, {"n": "bigint"}, **further
        )
        end = to_micros(START + timedelta(seconds=len(self.rows)))
        asked = Asked(UUID(int=number), end, {}, {"host": f"h{host}"})
        Ledger(self.connection).add([Request(rule, "1", "norm", question, asked, 0)])
        return task_id(rule, "1", "norm", asked.eid)

    @contextmanager
    def manager(
        self,
        workers: int = 1,
        stride: Stride[UUID] | None = None,
        terms: Terms = Terms(),
        stuck: float = 600.0,
        least: int | None = None,
        background: Background | None = None,
        session: Callable[[], SparkSession] | None = None,
        relations: Callable[[str], pa.Table] | None = None,
    ) -> Iterator[Manager]:
        """A manager on a connection of its own; without a `session` no question may need Spark, or else relations."""
        connection = database.connect(self.settings, "recall")
        root = storage.root(self.settings)
        kept = Kept()
        asked = session or no_spark, relations or no_relations
        engines = [_engines(root, kept, *asked) for _ in range(workers)]
        manager = Manager(
            connection,
            Ledger(connection, Ledger.lease(connection), terms),
            Corpora(connection, root),
            self.keys,
            engines,
            stuck,
            least,
            stride=stride,
            background=background,
        )
        try:
            yield manager
        finally:
            manager.finish()
            connection.close()

    def task(self, task: UUID) -> dict[str, Any]:
        """A row of the ledger."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute("SELECT * FROM tasks WHERE id = %s", (task,)).fetchone()
        assert found is not None
        return found

    def revisions(self, task: UUID) -> list[dict[str, Any]]:
        """Its answers, oldest first."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("SELECT * FROM revisions WHERE task = %s ORDER BY number", (task,)).fetchall()

    def whole(self, host: int = 0) -> dict[str, int]:
        """What `COUNT` says of all history."""
        mine = [v for _, name, v in self.rows if name == f"h{host}"]
        return {"n": len(mine), "total": sum(mine)}


def unasked(made: History) -> History:
    """A history of which nothing has been asked."""
    made.connection.execute("TRUNCATE tasks, revisions, commands")
    return made


@contextmanager
def history(chunks: int, rows: int, place: str = "null") -> Iterator[History]:
    """`rows` in each of some chunks, a second apart; `place`: of the archive."""
    root = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(_WORKSPACE % place)
    settings = from_environment(root / "moirae.yaml")
    connection = database.connect(settings, "test")
    policy = CutPolicy(rows, span(timedelta(days=365)))
    archive = Archive(storage.root(settings), [SCHEMA], policy, connection, lambda: None)
    rng = random.Random(1)
    found = [(second, f"h{rng.randrange(HOSTS)}", rng.randrange(100)) for second in range(chunks * rows)]
    found[:rows:2] = [(second, GONE, v) for second, _, v in found[:rows:2]]
    lines = [
        orjson.dumps({"ts": (START + timedelta(seconds=second)).isoformat(), "host": host, "v": v})
        for second, host, v in found
    ]
    for start in range(0, len(lines), rows):
        part = lines[start : start + rows]
        unit = Unit("past", f"u{start}", "jsonl", lambda part=part: iter(part))
        archive.ingest([unit], to_micros(datetime.now(UTC)))
    try:
        keys = Keys(Reader(storage.root(settings), [SCHEMA]))
        yield History(settings, connection, found, keys)
    finally:
        connection.close()
        shutil.rmtree(root, ignore_errors=True)


def go_on(manager: Manager, until: Callable[[], bool], seconds: float = 60.0) -> None:
    """Rounds until something holds."""
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "the manager does not get there"
        manager.round()
        manager.rest()


def no_spark() -> SparkSession:
    """For questions that are served in the process."""
    raise AssertionError("this needs Spark")


def no_relations(name: str) -> pa.Table:
    """For questions that name none."""
    raise AssertionError(name)


def _engines(
    root: Root, kept: Kept, session: Callable[[], SparkSession], relations: Callable[[str], pa.Table]
) -> Engines:
    reader = Reader(root, [SCHEMA])
    return Engines(SparkEngine(session, reader, relations), LocalEngine(reader), kept)
