"""Dead letters that are retried, as a source unit to be read again. No I/O."""

from collections.abc import Sequence

from archiver.formats import CSV, JSONL, Format
from archiver.ingest.closed_keys import ClosedKeys
from archiver.ingest.lateness import LateRule
from archiver.ingest.ledger import Counters
from archiver.ingest.open_unit import COUNTER_BY_REASON
from archiver.ingest.source_units import SourceUnit
from archiver.times import Micros, optional_micros
from sql.archive import MarkedDeadLetterRow


def retry_unit(letters: Sequence[MarkedDeadLetterRow]) -> SourceUnit:
    """Dead letters of one unit, in the order of their lines, as a unit to be read again."""
    raw = [letter.raw for letter in letters]
    first = letters[0]
    fields = first.fields
    record_format = JSONL if fields is None else CSV
    if first.format is not None:
        record_format = Format.decode(first.format)
    return SourceUnit(
        stream=first.stream,
        name="",
        format=JSONL if record_format.is_table else record_format,
        read=lambda: iter(raw),
        line_numbers=[letter.line for letter in letters],
        fields=fields,
        place=first.place or first.unit,
    )


def retry_rule(
    letters: Sequence[MarkedDeadLetterRow], watermark: Micros | None, closed_keys: ClosedKeys
) -> LateRule:
    """Which retried rows of a unit are late, and which were ahead when it was first read."""
    clock = optional_micros(letters[0].clock)
    return LateRule(
        clock=clock, before=watermark, before_by_rows=watermark, closed_keys=closed_keys
    )


def count_letters(letters: Sequence[MarkedDeadLetterRow]) -> Counters:
    """What dead letters contribute to the counters of their unit."""
    counters = Counters()
    for letter in letters:
        counters += Counters(read=1, **{COUNTER_BY_REASON[letter.reason]: 1})
    return counters
