"""What fails in a turn of several queries. The engines are replaced."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from recall.engines import PartialQuery, RelationDigests, Template
from recall.requests import SqlQuestion
from recall.worker import history_queries
from recall.worker.active_tasks import ActiveTask, TurnTask
from recall.worker.history_queries import ReadBatch, read_batches
from recall.worker.query_slots import QuerySlot
from tests.unit.recall.worker.test_active_tasks import task

QUESTION = SqlQuestion(
    None, 1.0, "newest", "SELECT count(*) AS n FROM s", {"s": "ts"}, (), {}, {}, {}, {}
)


class FakeEngines:
    """Returns one row for each event; records the events of each scan."""

    def __init__(self) -> None:
        self.spark = self
        self.scans: list[list[int]] = []

    def are_executors_away(self) -> bool:
        return False

    def is_alive(self) -> bool:
        return True

    @contextmanager
    def snapshot(self, queries: Sequence[PartialQuery]) -> Iterator[dict[str, int]]:
        yield {"s": 1}

    def digest_relations(self, template: object, events: object) -> RelationDigests:
        return {}

    def compute_partials(self, queries: Sequence[PartialQuery]) -> list[dict[str, pa.Table]]:
        eids: list[UUID] = []
        for query in queries:
            ((event, _),) = query.event_pieces
            eids.append(event.eid)
        self.scans.append([eid.int for eid in eids])
        return [{str(eid): pa.table({"eid": [eid.int]})} for eid in eids]


def _batch(number: int) -> ReadBatch:
    """The turn of a background task that reads one of its pieces and owes no answer yet."""
    claimed = task(
        id=UUID(int=number), eid=UUID(int=number), level=1, revision=1, partial_answer=None
    )
    return ReadBatch([TurnTask(ActiveTask(claimed, Template(QUESTION), "question"), 1)], {})


def test_query_that_cannot_be_merged_is_repeated_without_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def merge(
        template: Template, accumulator: pa.Table | None, partial: pa.Table, seconds: float
    ) -> pa.Table:
        if partial["eid"][0].as_py() == 2:
            raise ValueError("cannot be merged")
        return partial

    monkeypatch.setattr(history_queries, "merge_partials", merge)
    engines: Any = FakeEngines()
    results = read_batches(QuerySlot(engines), list(map(_batch, (1, 2, 3))))
    assert engines.scans == [[1, 2, 3], [2]]
    assert [result.error for result in results] == [None, "cannot be merged", None]
    append_counts: list[Mapping[str, int] | None] = [result.append_counts for result in results]
    assert append_counts == [{"s": 1}, None, {"s": 1}]
