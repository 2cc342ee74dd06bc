"""Dead letters as a unit to be read again."""

from datetime import timedelta

from archiver.delta.schema import StreamSchema
from archiver.ingest.dead_letters import count_letters, retry_unit
from archiver.ingest.ledger.catalog import Counters
from archiver.ingest.source_units import read_batches
from sql.archive import MarkedDeadLetterRow

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)


def test_csv_dead_letters_are_read_with_the_header_of_their_unit() -> None:
    letters = [
        MarkedDeadLetterRow("s", 7, 3, "quarantined", b"1,2026-01-31", ["n", "ts"]),
        MarkedDeadLetterRow("s", 7, 9, "malformed", b"one,2026-01-31", ["n", "ts"]),
    ]
    (batch,) = read_batches(retry_unit(letters), SCHEMA)
    assert batch.rows.line_numbers.tolist() == [3]
    assert [refused.line for refused in batch.rows.refused_lines] == [9]


def test_dead_letters_are_counted_by_reason() -> None:
    letters = [
        MarkedDeadLetterRow("s", 7, line, reason, b"", None)
        for line, reason in enumerate(["conflict", "expired", "malformed", "malformed"])
    ]
    assert count_letters(letters) == Counters(read=4, conflicts=1, expired=1, malformed=2)
