"""Indexes of corpora are written when a chunk closes: the first similarity recall, also of a new
process, uses them.
"""

import random
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pytest
from psycopg.types.json import Jsonb

from archiver.chunks.maintenance import ChunkMaintenance
from archiver.times import to_micros
from moirae.deployments.registry import RuleRegistry
from moirae.history.builder import HistoryBuilder
from moirae.history.corpus_indexes import IndexBuilder, IndexTask
from moirae.history.finder import RelationVersions
from moirae.inspect.status import collect_status
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from recall.corpora import Corpora
from recall.ledger.tasks import Ledger
from recall.requests import RecallEvent, RecallRequest, SimilarQuestion, task_id
from recall.similarity.segments.segment import BOUNDS
from tests.integration.history import SCHEMA, START, History, history, run_until
from tests.integration.test_late_rows import ROWS, open_writer, run_maintenance

RULES = """
groups:
- name: g
  rules:
  - alert: r
    expr: SELECT host, ts FROM past WHERE v > 90
    context: {own: {sql: "SELECT host FROM past WHERE host = event.host", within: 1m}}
    recall: {alike: {similar: {k: 3}}}
"""


@pytest.fixture
def past() -> Iterator[History]:
    """Five chunks, none of them closed, and a rule with a similarity recall."""
    with history(5, ROWS) as new_history:
        rules, problems = parse_rules("rules.yaml", RULES, new_history.settings.table_names)
        assert not problems
        RuleRegistry(new_history.connection).apply(
            [Definition(rule, {"host": "string"}, ("host",), ("host",)) for rule in rules.rules]
        )
        yield new_history


def settle(past: History, numbers: range, second: int) -> None:
    """Contexts of events enter the corpus, a second apart."""
    (definition,) = RuleRegistry(past.connection).desired_rules()
    for number in numbers:
        words = random.Random(number).choices([f"w{word}" for word in range(20)], k=4)
        values = (
            definition.name,
            definition.version,
            UUID(int=number),
            START + timedelta(seconds=second + number),
        )
        past.connection.execute(
            "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)"
            " VALUES (%s, %s, %s, %s, %s, '{}', true, %s)",
            (*values, Jsonb({"own": [{"t": word} for word in words]}), number),
        )


def close(past: History) -> None:
    """All chunks but the last."""
    roller = ChunkMaintenance(Path(past.settings.archive), [SCHEMA], 600.0)
    try:
        run_maintenance(past, open_writer(past), roller, 10_000)
    finally:
        roller.stop()


def views(past: History) -> HistoryBuilder:
    """As a new process looks for work."""
    looking, working = (database.connect_database(past.settings, name) for name in ("look", "work"))
    related = RelationVersions(lambda name: pytest.fail(name), frozenset())
    return HistoryBuilder(looking, working, Path(past.settings.archive), [SCHEMA], related)


def files(past: History) -> dict[str, bytes]:
    """What lies in the one index, by name."""
    folders = list((Path(past.settings.archive) / "indexes").glob("*"))
    assert len(folders) <= 1
    return {path.name: path.read_bytes() for folder in folders for path in folder.iterdir()}


def manifest(contents: dict[str, bytes]) -> dict[str, Any]:
    """What belongs to it."""
    stored: dict[str, Any] = orjson.loads(contents.get("manifest.json", b'{"number": 0}'))
    return stored


@pytest.mark.slow
def test_closed_chunk_is_indexed_before_the_first_recall(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the recall process, without Spark; with postings and term summaries of each chunk and
    their checksums.
    """
    settle(past, range(1, 401), 0)
    with past.manager(background=views(past)) as manager:
        for _ in range(30):
            manager.run_once()
        assert not files(past)
        close(past)
        run_until(manager, lambda: manifest(files(past))["number"] == 400)
        contents = files(past)
        assert len(manifest(contents)["segments"]) == 5
        for name, length, checksum in manifest(contents)["segments"]:
            assert (len(contents[name]), zlib.crc32(contents[name])) == (length, checksum)
            assert {"docs", "heads", *BOUNDS} <= set(pa.ipc.open_file(contents[name]).schema.names)
        (index_status,) = collect_status(past.connection, Path(past.settings.archive))["indexes"]
        assert (index_status["events"], index_status["written"], index_status["contexts"]) == (
            399,
            399,
            ("own",),
        )
    monkeypatch.setattr(Corpora, "_build_from_archive", lambda *_: pytest.fail("it is on disk"))
    _add_comparison(past, number=401)
    assert files(past) == contents


def _add_comparison(past: History, number: int) -> None:
    """A recall about an event, by a new process; its best are those of an index made from nothing."""
    (definition,) = RuleRegistry(past.connection).desired_rules()
    settle(past, range(number, number + 1), 0)
    question = SimilarQuestion(
        None, 0.0, "promising", contexts=("own",), k=3, measure="tfidf", gap=0
    )
    event = RecallEvent(UUID(int=number), to_micros(START + timedelta(seconds=number)), {}, {})
    Ledger(past.connection).add(
        [RecallRequest(definition.name, definition.version, "alike", question, event, 0)]
    )
    task = task_id(definition.name, definition.version, "alike", event.eid)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    hits = past.revisions(task)[-1]["answer"]
    assert [hit["score"] for hit in hits] == sorted(
        (hit["score"] for hit in hits), reverse=True
    ) and len(hits) == 3
    assert hits[0]["corpus"]["events"] == number


def test_index_is_rewritten_after_new_events_or_damage(past: History) -> None:
    settle(past, range(1, 101), 0)
    close(past)
    assert _execute_all(views(past)) == 1
    before = files(past)
    assert (
        _execute_all(views(past)) == 1 and files(past) == before
    )  # a new process sees that it can be read
    settle(past, range(101, 121), -50)
    assert _execute_all(views(past)) == 1
    assert manifest(files(past))["number"] == 120
    names = [name for name, _, _ in manifest(files(past))["segments"]]
    (segment,) = (Path(past.settings.archive) / "indexes").glob(f"*/{names[0]}")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(bytes(data))
    assert _execute_all(views(past)) == 1
    assert names[0] not in [name for name, _, _ in manifest(files(past))["segments"]]


def _execute_all(process: HistoryBuilder) -> int:
    """Do all there is to do; how much that was."""
    count = 0
    while (work := process.next_task()) is not None:
        assert isinstance(work, IndexTask)
        process.execute(work, lambda: pytest.fail("this needs no Spark"))
        count += 1
    return count


def test_growing_corpus_is_rewritten_rarely(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a tenth of the time is spent on it, and events of the present chunk wait for its end."""
    settle(past, range(1, 101), 0)
    close(past)
    root, now = Path(past.settings.archive), [0.0]
    indexes = IndexBuilder(past.connection, past.connection, root, clock=lambda: now[0])
    process = views(past)
    work = process.next_task()
    assert isinstance(work, IndexTask)
    write = Corpora.save_current

    def slow(*values: Any) -> int:
        now[0] += 6.0
        return write(*values)

    monkeypatch.setattr(Corpora, "save_current", slow)
    chunks = open_writer(past).chunks
    indexes.execute(work)
    now[0] = 1000.0
    settle(past, range(101, 111), 350)
    assert indexes.next_task([work.key], chunks) is None
    settle(past, range(111, 121), 0)
    indexes.execute(work)
    settle(past, range(121, 131), 0)
    now[0] = 1065.0
    assert indexes.next_task([work.key], chunks) is None
    now[0] = 1066.0
    assert indexes.next_task([work.key], chunks) == work
