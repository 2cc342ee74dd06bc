"""Sums of counters, and their balance."""

from dataclasses import replace

from moirae.inspect.accounting import is_balanced, sum_accounting
from sql.archive import RecordCounts

ACCOUNT = RecordCounts(
    read=10,
    archived=5,
    late=0,
    late_by_ahead=0,
    duplicates=1,
    malformed=1,
    quarantined=1,
    conflicts=1,
    expired=1,
)


def test_dead_letters_of_all_reasons_are_added_up() -> None:
    totals = sum_accounting([ACCOUNT, ACCOUNT])
    assert totals == {"read": 20, "archived": 10, "duplicates": 2, "dead_lettered": 8}
    assert is_balanced(totals)


def test_no_streams_balance() -> None:
    totals = sum_accounting([])
    assert totals == {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0}
    assert is_balanced(totals)


def test_missing_record_is_no_balance() -> None:
    assert not is_balanced(sum_accounting([replace(ACCOUNT, archived=4)]))
