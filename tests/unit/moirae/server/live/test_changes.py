"""Server-sent events: their lines and IDs, and pages of bounded size."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from moirae.server.live import changes
from moirae.server.live.changes import LiveEvent, read_changes
from sql.reports import ChangePosition, ChangeRow, RevisionRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECALL = UUID(int=1)


class FakeGateway:
    """Revisions of a recall: by number, the length of their answers."""

    lengths: dict[int, int]
    reads: list[int]

    def __init__(self, _: Any) -> None:
        pass

    def list_after(self, after: ChangePosition, *, limit: int) -> list[ChangeRow]:
        numbers = [number for number in self.lengths if number > after.id]
        return [
            ChangeRow(1, number, "revision", RECALL, number, NOW, None, None)
            for number in numbers[:limit]
        ]

    def list_alerts(self, _: Any) -> list[Any]:
        return []

    list_recalls = list_boundaries = list_alerts

    def get_revision(self, task: UUID, number: int, *, max_bytes: int) -> RevisionRow:
        self.reads.append(number)
        length = self.lengths[number]
        return RevisionRow(
            task=task,
            eid=UUID(int=2),
            rule="g/r",
            recall="norm",
            kind="sql",
            sql="SELECT avg(h.cpu) AS mean FROM cpu h",
            number=number,
            final=False,
            coverage={},
            answer=[{"mean": "x" * length}] if length <= max_bytes else None,
            estimates=None,
            comparable=None,
            match=None,
            forecast=None,
            at=NOW,
        )


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> type[FakeGateway]:
    FakeGateway.reads = []
    monkeypatch.setattr(changes, "ChangeGateway", FakeGateway)
    monkeypatch.setattr("moirae.alerts.changes.ChangeGateway", FakeGateway)
    return FakeGateway


def test_large_answers_are_read_in_pages_of_bounded_size(gateway: type[FakeGateway]) -> None:
    gateway.lengths = dict.fromkeys(range(1, 101), 100_000)
    position = ChangePosition(1, 0)
    numbers = []
    while True:
        events, position = read_changes(None, position, limit=200)  # type: ignore[arg-type]
        if not events:
            break
        assert sum(len(event.data) for event in events) < 2 * changes.MAX_PAGE_BYTES
        assert len(gateway.reads) == len(events)  # what is not sent is not read
        gateway.reads.clear()
        numbers += [orjson.loads(event.data)["number"] for event in events]
    assert numbers == list(range(1, 101))


def test_answer_that_is_too_large_is_not_read(gateway: type[FakeGateway]) -> None:
    gateway.lengths = {1: 10 << 20, 2: 300_000, 3: 5}
    events, _ = read_changes(None, ChangePosition(1, 0), limit=200)  # type: ignore[arg-type]
    contents = [orjson.loads(event.data) for event in events]
    assert [content.get("omitted", False) for content in contents] == [True, True, False]
    assert [content.get("rows") for content in contents] == [None, None, [{"mean": "x" * 5}]]


def test_event_has_an_id_if_it_can_be_resumed_after() -> None:
    event = LiveEvent("alert", b'{"a":1}', ChangePosition(17, 3))
    assert event.encode() == b'id: 17-3\nevent: alert\ndata: {"a":1}\n\n'
    assert LiveEvent("status", b"{}").encode() == b"event: status\ndata: {}\n\n"
