"""The outcome of a batch."""

from archiver.formats import JSONL
from archiver.ingest.ingest_result import IngestResult
from archiver.ingest.lateness import LateRule
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.source_units import SourceUnit


def _open(stream: str, partition: str | None, newest_not_ahead: int | None) -> OpenUnit:
    unit = SourceUnit(stream, "u", JSONL, lambda: iter(()), partition=partition)
    return OpenUnit(unit, 1, LateRule(), newest=9, newest_not_ahead=newest_not_ahead)


def test_names_the_sources_that_had_rows_not_ahead_of_the_clock() -> None:
    units = [_open("a", None, 3), _open("b", "0", 5), _open("b", "1", None), _open("c", None, None)]
    result = IngestResult.from_units({}, units)
    assert result.partitions == {"0", "1"}
    assert result.sources_not_ahead == {("a", None), ("b", "0")}
