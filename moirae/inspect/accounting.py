"""Accounting of records: read = archived + duplicates + dead letters. No I/O."""

from collections.abc import Mapping, Sequence

from sql.archive import RecordCounts

# Counters of dead letters, by reason.
DEAD_LETTER_COUNTERS = ("malformed", "quarantined", "conflicts", "expired")


def sum_accounting(counts: Sequence[RecordCounts]) -> dict[str, int]:
    """Sums of records read, archived, duplicates and dead letters."""
    totals = {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0}
    for record_counts in counts:
        for name in totals:
            totals[name] += getattr(record_counts, name)
    return totals


def is_balanced(account: Mapping[str, int]) -> bool:
    """Whether every record read is archived, a duplicate or a dead letter."""
    return account["read"] == account["archived"] + account["duplicates"] + account["dead_lettered"]
