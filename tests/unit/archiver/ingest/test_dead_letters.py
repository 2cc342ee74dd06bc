"""Dead letters as a unit to be read again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from archiver.delta.schema import StreamSchema
from archiver.ingest.dead_letters import count_letters, retry_rule, retry_unit
from archiver.ingest.ledger.catalog import Counters
from archiver.ingest.source_units import read_batches
from archiver.times import to_micros
from sql.archive import MarkedDeadLetterRow

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_csv_dead_letters_are_read_with_the_header_of_their_unit() -> None:
    letters = [
        MarkedDeadLetterRow("s", 7, 3, "quarantined", b"1,2026-01-31", ["n", "ts"], NOON, "u"),
        MarkedDeadLetterRow("s", 7, 9, "malformed", b"one,2026-01-31", ["n", "ts"], NOON, "u"),
    ]
    (batch,) = read_batches(retry_unit(letters), SCHEMA)
    assert batch.rows.line_numbers.tolist() == [3]
    assert [refused.line for refused in batch.rows.refused_lines] == [9]


def test_dead_letters_are_counted_by_reason() -> None:
    letters = [
        MarkedDeadLetterRow("s", 7, line, reason, b"", None, None, "u")
        for line, reason in enumerate(["conflict", "expired", "malformed", "malformed"])
    ]
    assert count_letters(letters) == Counters(read=4, conflicts=1, expired=1, malformed=2)


def test_retried_rows_are_ahead_of_the_clock_of_their_first_read() -> None:
    letter = MarkedDeadLetterRow("s", 7, 1, "quarantined", b"", None, NOON, "u")
    rule = retry_rule([letter], watermark=5, closed_keys={("a",): 7})
    assert rule.closed_keys == {("a",): 7}
    assert (rule.clock, rule.before, rule.before_by_rows) == (to_micros(NOON), 5, 5)
    assert retry_rule([replace(letter, clock=None)], watermark=None, closed_keys={}).clock is None
