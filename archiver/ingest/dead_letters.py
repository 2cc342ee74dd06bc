"""Dead letters that are retried, as a source unit to be read again. No I/O."""

from collections.abc import Sequence

from archiver.ingest.decoding import LineFormat
from archiver.ingest.lateness import LateRule
from archiver.ingest.ledger import Counters
from archiver.ingest.open_unit import COUNTER_BY_REASON
from archiver.ingest.source_units import SourceUnit
from archiver.times import Micros, optional_micros
from sql.archive import MarkedDeadLetterRow


def retry_unit(letters: Sequence[MarkedDeadLetterRow]) -> SourceUnit:
    """Dead letters of one unit, in the order of their lines, as a unit to be read again."""
    raw = [letter.raw for letter in letters]
    fields = letters[0].fields
    line_format: LineFormat = "jsonl" if fields is None else "csv"
    return SourceUnit(
        stream=letters[0].stream,
        name="",
        line_format=line_format,
        read=lambda: iter(raw),
        line_numbers=[letter.line for letter in letters],
        fields=fields,
    )


def retry_rule(letters: Sequence[MarkedDeadLetterRow], watermark: Micros | None) -> LateRule:
    """Which retried rows of a unit are late, and which were ahead when it was first read."""
    clock = optional_micros(letters[0].clock)
    return LateRule(clock=clock, before=watermark, before_by_rows=watermark)


def count_letters(letters: Sequence[MarkedDeadLetterRow]) -> Counters:
    """What dead letters contribute to the counters of their unit."""
    counters = Counters()
    for letter in letters:
        counters += Counters(read=1, **{COUNTER_BY_REASON[letter.reason]: 1})
    return counters
