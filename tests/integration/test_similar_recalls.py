"""Similarity recalls with the real manager and ledger: answers, bounds for unread pieces, replay."""

import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

import recall.corpora
import recall.worker.comparisons
from archiver.time_range import TimeRange
from archiver.times import to_micros
from recall.corpora import Corpora
from recall.ledger.tasks import Ledger
from recall.relevance.rankers.ready_contexts import AlertContext, find_similar
from recall.replay.outcome import ReplayedAnswer, replay
from recall.replay.similar_answers import SimilarReplayer
from recall.requests import RecallEvent, RecallRequest, SimilarQuestion, task_id
from recall.scheduling.stride import StrideScheduler
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES
from tests.integration.history import START, History, history, run_until

_CHUNKS, _ROWS = 12, 20
_END = _CHUNKS * _ROWS
_ALIKE = {"rare": 1, "w1": 1}


@pytest.fixture(scope="module")
def _history() -> Iterator[History]:
    with history(chunks=_CHUNKS, rows=_ROWS) as new_history:
        yield new_history


@pytest.fixture
def past(_history: History) -> History:
    _history.connection.execute("TRUNCATE tasks, unsettled_reads, revisions, commands, contexts")
    return _history


class _Corpus:
    """Contexts as live settles them, some seconds apart; what is compared is kept here too."""

    def __init__(self, past: History, seed: int) -> None:
        self._connection = past.connection
        self._rng = random.Random(seed)
        self.alerts: list[AlertContext] = []

    def settle(self, seconds: list[int], same: Mapping[str, int] | None = None) -> None:
        """`same`: the facts of all; absent: drawn."""
        for second in seconds:
            number = len(self.alerts) + 1
            eid, facts = UUID(int=number), same or self._facts()
            ts = START + timedelta(seconds=second)
            rows = [{"t": word} for word, count in facts.items() for _ in range(count)]
            self._connection.execute(
                "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, "
                "corpus)"
                " VALUES ('g/r', '1', %s, %s, %s, '{}', true, %s)",
                (eid, ts, Jsonb({"own": rows}), number),
            )
            self.alerts.append(
                AlertContext(str(eid), "r", to_micros(ts), {f"t={w}": n for w, n in facts.items()})
            )

    def _facts(self) -> dict[str, int]:
        words = {min(int(self._rng.paretovariate(0.6)), 40) for _ in range(5)}
        return {f"w{word}": self._rng.choice([1, 1, 2]) for word in words}

    def expected(self, alert: AlertContext) -> list[tuple[str, float]]:
        """The hits by the plain formula, over the whole corpus."""
        newest = alert.ts, alert.event_id
        corpus = [past for past in self.alerts if (past.ts, past.event_id) <= newest]
        answer = next(
            find_similar(corpus, timedelta(0), 5, MEASURES["tfidf"], event_ids={alert.event_id})
        )
        return [(past.event_id, pytest.approx(score, abs=1e-9)) for past, score in answer.hits]


def _add_task(past: History, alert: AlertContext, order: Any = "newest") -> UUID:
    question = SimilarQuestion(None, 0.0, order, contexts=("own",), k=5, measure="tfidf", gap=0)
    event = RecallEvent(UUID(alert.event_id), alert.ts, {}, {})
    Ledger(past.connection).add([RecallRequest("g/r", "1", "similar", question, event, 0)])
    return task_id("g/r", "1", "similar", event.eid)


def _finish(past: History, tasks: list[UUID]) -> None:
    with past.manager() as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))


def _hits(revision: dict[str, Any]) -> list[tuple[str, float]]:
    return [(hit["past_eid"], hit["score"]) for hit in revision["answer"]]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["newest", "promising"])
def test_many_recalls_are_answered_exactly_with_bounds_for_unread_pieces(
    past: History, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "recall.scheduling.turn_plan.choose_run_length", lambda *_, **__: 1
    )  # so that there are answers on the way
    corpus = _Corpus(past, 1)
    corpus.settle(list(range(0, _END, 2)))
    alerts = corpus.alerts[-50:]
    tasks = [_add_task(past, alert, order) for alert in alerts]
    _finish(past, tasks)
    none_left = 0
    for alert, task in zip(alerts, tasks, strict=True):
        revisions = past.revisions(task)
        assert _hits(revisions[-1]) == corpus.expected(alert)
        for revision in revisions:
            hopeful, unread = revision["coverage"]["hopeful"], revision["coverage"]["left"]
            assert 0 <= hopeful <= unread
            if unread and hopeful == 0:
                none_left += 1
                assert _hits(revision) == corpus.expected(alert)
    assert none_left


def test_pieces_without_common_terms_are_not_read(past: History) -> None:
    """Similar events are in two chunks in the middle; the answer is exact, also when replayed."""
    corpus = _Corpus(past, 4)
    corpus.settle(list(range(0, _END, 5)))
    corpus.settle([_END // 3, _END // 2], {"rare": 1, "w1": 1})
    corpus.settle([_END - 1], {"rare": 1})
    task = _add_task(past, corpus.alerts[-1])
    _finish(past, [task])
    answer = past.revisions(task)[-1]
    assert _hits(answer) == corpus.expected(corpus.alerts[-1]) and len(answer["answer"]) == 2
    coverage, pieces = answer["coverage"], len(past.task(task)["pieces"])
    assert (
        2 <= coverage["read"] <= 3
        and coverage["by_summary"] == pieces - coverage["read"] > _CHUNKS // 2
    )
    assert coverage["final"] and not coverage["partial"] and coverage["read_from"] is None
    assert _again(past, Corpora(past.connection, Path("/nowhere")), task).equal


class _AbandonedChunk:
    """Background work that has given up one chunk."""

    def __init__(self, chunk: int) -> None:
        self._chunks = {chunk}

    def next_task(self) -> None:
        """There is no other work."""

    def required_task(self, rule: str, version: str, chunk: int) -> None:
        """All other chunks are complete."""

    def incomplete_chunks(self, rule: str, version: str) -> set[int]:
        return self._chunks

    def abandoned_chunks(self, rule: str, version: str) -> set[int]:
        return self._chunks

    def execute(self, work: object, spark: object) -> None:
        pytest.fail("no work was planned")

    def shut_down(self) -> None:
        """No work is running."""


def test_chunk_whose_events_cannot_be_computed_counts_as_failed(past: History) -> None:
    corpus = _Corpus(past, 4)
    corpus.settle(list(range(0, _END, 5)))
    task = _add_task(past, corpus.alerts[-1])
    chunk = past.connection.execute("SELECT id FROM chunks ORDER BY id OFFSET 4 LIMIT 1").fetchone()
    assert chunk is not None
    with past.manager(background=_AbandonedChunk(chunk[0])) as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    coverage = past.revisions(task)[-1]["coverage"]
    assert (coverage["failed"], coverage["left"], coverage["final"], coverage["partial"]) == (
        1,
        0,
        True,
        True,
    )
    assert coverage["read"] == len(past.task(task)["pieces"]) - 1


class _RequiredChunk:
    """Background work that must prepare one chunk before a comparison, which takes some time."""

    def __init__(
        self, chunk: int, connection: Connection[Any], calls: list[tuple[str, Any]]
    ) -> None:
        self._chunks = {chunk}
        self._connection = connection
        self._calls = calls

    def next_task(self) -> None:
        """Records how many interactive recalls are open."""
        open_recalls = (
            "SELECT count(*) FROM tasks WHERE level = 0 AND state IN ('waiting', 'running')"
        )
        self._calls.append(("idle", self._connection.execute(open_recalls).fetchall()[0][0]))

    def required_task(self, rule: str, version: str, chunk: int) -> int | None:
        return chunk if chunk in self._chunks else None

    def incomplete_chunks(self, rule: str, version: str) -> set[int]:
        return self._chunks

    def abandoned_chunks(self, rule: str, version: str) -> set[int]:
        return set()

    def execute(self, work: int, session: object) -> None:
        time.sleep(0.1)
        self._calls.append(("prepared", work))
        self._chunks = self._chunks - {work}

    def shut_down(self) -> None:
        """No work is running."""


class _SimilarEvent(_RequiredChunk):
    """Its preparation finds a similar event."""

    def __init__(
        self, corpus: _Corpus, second: int, chunk: int, connection: Connection[Any]
    ) -> None:
        super().__init__(chunk, connection, [])
        self._corpus, self._second = corpus, second

    def execute(self, work: int, session: object) -> None:
        self._corpus.settle([self._second], _ALIKE)
        super().execute(work, session)


class _PreparedElsewhere(_SimilarEvent):
    """Another process prepares it, just before the chunk is looked up."""

    def required_task(self, rule: str, version: str, chunk: int) -> None:
        """It is not this chunk's turn yet."""

    def incomplete_chunks(self, rule: str, version: str) -> set[int]:
        for chunk in self._chunks:
            self.execute(chunk, None)
        return self._chunks


@pytest.mark.parametrize("background_class", [_SimilarEvent, _PreparedElsewhere])
def test_chunk_in_preparation_is_not_skipped(
    past: History, background_class: type[_SimilarEvent]
) -> None:
    """The newest chunks have no similar event; the events of one of them are not computed yet."""
    corpus = _Corpus(past, 4)
    corpus.settle(list(range(0, _END - 1, 5)))
    corpus.settle([_END // 3, _END // 2], _ALIKE)
    corpus.settle([_END - 1], {"rare": 1})
    alert = corpus.alerts[-1]
    past.connection.execute(
        "UPDATE contexts SET corpus = NULL, settled = false WHERE eid = %s", (alert.event_id,)
    )
    chunk = past.connection.execute(
        "SELECT id, from_ts FROM chunks ORDER BY id DESC OFFSET 2 LIMIT 1"
    ).fetchone()
    assert chunk is not None
    second = int((chunk[1] - START).total_seconds()) + 1
    task = _add_task(past, alert)
    with past.manager(
        workers=3, background=background_class(corpus, second, chunk[0], past.connection)
    ) as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    revisions = past.revisions(task)
    alike = {one.event_id for one in corpus.alerts if "t=rare" in one.term_counts} - {
        alert.event_id
    }
    assert {hit for hit, _ in _hits(revisions[-1])} == alike and len(alike) == 3
    for revision in revisions:
        coverage = revision["coverage"]
        assert coverage["read"] > 0 and coverage["by_summary"] > 0
        for hit in revision["answer"]:
            seen = sum(pieces for pieces, _ in hit["corpus"]["seen"])
            assert seen == coverage["read"] + coverage["by_summary"]


class _Turns(StrideScheduler[UUID]):
    """Records for how many pieces a task is charged."""

    def __init__(self, task: UUID, calls: list[tuple[str, Any]]) -> None:
        super().__init__()
        self._task = task
        self._calls = calls

    def charge_pieces(self, tasks: Mapping[UUID, int]) -> None:
        if self._task in tasks:
            self._calls.append(("charged", tasks[self._task]))
        super().charge_pieces(tasks)


def test_inputs_of_a_comparison_are_prepared_before_other_work(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a recall is waiting, nothing is prepared that no recall needs."""
    calls: list[tuple[str, Any]] = []
    real = recall.worker.comparisons.compare

    def compare(
        index: Index,
        states: Sequence[SimilarState],
        runs: Sequence[Sequence[TimeRange]],
        divided: Any,
    ) -> list[tuple[int, bool]]:
        calls.extend(("compared", span) for run in runs for span in run)
        return real(index, states, runs, divided)

    monkeypatch.setattr(recall.worker.comparisons, "compare", compare)
    corpus = _Corpus(past, 5)
    corpus.settle(list(range(0, _END, 5)))
    task, other = _add_task(past, corpus.alerts[-1]), past.add_task(99)
    chunk = past.connection.execute("SELECT id FROM chunks ORDER BY id OFFSET 4 LIMIT 1").fetchone()
    assert chunk is not None
    background = _RequiredChunk(chunk[0], past.connection, calls)
    with past.manager(workers=3, stride=_Turns(task, calls), background=background) as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done" == past.task(other)["state"])
        run_until(manager, lambda: "idle" in dict(calls))
    pieces = {chunk: (low, high) for chunk, low, high in past.task(task)["pieces"]}
    prepared_at, before = (
        calls.index(("prepared", chunk[0])),
        calls.index(("compared", pieces[chunk[0] + 1])),
    )
    assert before < prepared_at < calls.index(("compared", pieces[chunk[0]]))
    # The task waits for the preparation, and is charged for it.
    assert [what for what in calls[before + 1 : prepared_at] if what[0] != "idle"] == [
        ("charged", 1)
    ]
    assert sum(count for what, count in calls if what == "charged") == len(pieces) + 1
    assert {count for what, count in calls if what == "idle"} == {0}
    assert _hits(past.revisions(task)[-1]) == corpus.expected(corpus.alerts[-1])


def test_replayed_similar_answer_is_unchanged_by_later_events(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After older and newer events; by a process that reads the corpus from files."""
    monkeypatch.setattr(recall.corpora, "_SAVE_MIN_EVENTS", 10)
    corpus = _Corpus(past, 2)
    corpus.settle(list(range(0, _END - 40, 3)))
    alerts = corpus.alerts[-4:]
    tasks = [_add_task(past, alert) for alert in alerts]
    _finish(past, tasks)
    corpus.settle([_END - 100, 5, _END - 1, *range(1, 120, 2)])
    root = Path(past.settings.archive)
    for _ in range(2):
        corpora = Corpora(past.connection, root)
        for alert, task in zip(alerts, tasks, strict=True):
            again = _again(past, corpora, task)
            assert (again.equal, again.why) == (True, None)
            assert len(again.answer) == len(past.revisions(task)[-1]["answer"])
            assert again.task == task and alert.event_id == str(past.task(task)["eid"])
    assert list((root / "indexes").glob("*/manifest.json"))


def test_replay_reports_expired_events(past: History) -> None:
    corpus = _Corpus(past, 3)
    corpus.settle(list(range(0, 100, 3)))
    task = _add_task(past, corpus.alerts[-1])
    _finish(past, [task])
    past.connection.execute("DELETE FROM contexts WHERE corpus = 1")
    again = _again(past, Corpora(past.connection, Path("/nowhere")), task)
    assert again.equal is None and again.why is not None
    expired, counted = map(int, re.findall(r"\d+", again.why))
    assert counted - expired == 33
    past.connection.execute("DELETE FROM contexts")
    again = _again(past, Corpora(past.connection, Path("/nowhere")), task)
    assert (again.equal, again.why) == (None, "the event's context has expired")


def _again(past: History, corpora: Corpora, task: UUID) -> ReplayedAnswer:
    (again,) = replay(past.connection, task, {"similar": SimilarReplayer(past.connection, corpora)})
    return again
