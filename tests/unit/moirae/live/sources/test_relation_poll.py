"""Relations that are polled in a thread."""

import pytest

from moirae.errors import MoiraeError
from moirae.live.sources.relation_poll import PollingRelationReader
from moirae.live.sources.relation_rows import RelationContent
from tests.waiting import wait_until

OLD = RelationContent([{"host": "a"}], "1")
NEW = RelationContent([{"host": "b"}], "2")


class FakeReader(PollingRelationReader):
    def __init__(self) -> None:
        super().__init__("hosts", "table hosts", 0.001)
        self.result: RelationContent | Exception = OLD
        self.polls = 0

    def fetch(self, fingerprint: str) -> RelationContent | None:
        self.polls += 1
        if isinstance(self.result, Exception):
            raise self.result
        return None if self.result.fingerprint == fingerprint else self.result

    def wait_for_polls(self) -> None:
        polls = self.polls
        wait_until(lambda: self.polls > polls + 2, 10)


def test_each_version_is_new_once() -> None:
    reader = FakeReader()
    assert reader.has_changed()
    assert reader.read() == OLD
    reader.wait_for_polls()
    assert not reader.has_changed()
    reader.result = NEW
    wait_until(reader.has_changed, 10)
    assert reader.read() == NEW and reader.fingerprint == "2"
    reader.read_again()
    assert reader.has_changed() and reader.read() == NEW
    reader.stop()


@pytest.mark.parametrize(
    ("error", "message"),
    [(MoiraeError("gone\nand more"), "hosts: gone$"), (RuntimeError("x"), "cannot read it: see")],
)
def test_error_is_reported_once_and_the_recovery(error: Exception, message: str) -> None:
    reader = FakeReader()
    reader.result = error
    assert reader.has_changed()
    with pytest.raises(MoiraeError, match=message):
        reader.read()
    reader.wait_for_polls()
    assert not reader.has_changed()
    reader.result = OLD
    wait_until(reader.has_changed, 10)
    assert reader.read() == OLD
    reader.stop()
