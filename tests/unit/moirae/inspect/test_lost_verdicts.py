"""Lines about rows over which rules have no verdict."""

from datetime import UTC, datetime, timedelta

from moirae.inspect.lost_verdicts import describe_lost_verdicts

_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def test_line_names_the_rule_the_span_and_the_reason() -> None:
    lost = {
        "rule": "g/r",
        "rows": 2,
        "first_ts": _TIME,
        "last_ts": _TIME + timedelta(hours=1),
        "reason": "too many steps",
    }
    assert describe_lost_verdicts(lost) == (
        "rule g/r lost its verdict over 2 rows from 2026-01-01T00:00:00+00:00 to "
        "2026-01-01T01:00:00+00:00: too many steps (see `moirae rules show g/r`)"
    )
