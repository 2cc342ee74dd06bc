"""How an alert ends that has no further events."""

from dataclasses import replace
from uuid import UUID

import pytest

from moirae.alerts.silence import AlertEnd, EndingAlert, decide_end

ALERT = EndingAlert(eid=UUID(int=1), key={"host": "a"}, last=10, ends=40)


@pytest.mark.parametrize(
    ("has_data", "returns_at", "is_held", "end"),
    [
        (True, None, False, AlertEnd(40, "ended")),
        (True, None, True, AlertEnd(40, "ended")),
        (False, None, False, AlertEnd(40, "no_data")),
        (False, None, True, AlertEnd(None, None)),
        (False, 70, True, AlertEnd(70, "ended")),
    ],
)
def test_alert_without_data_ends_or_is_held(
    has_data: bool, returns_at: int | None, is_held: bool, end: AlertEnd
) -> None:
    assert decide_end(ALERT, has_data, returns_at, is_held) == end


def test_held_alert_ends_at_the_latest_where_the_next_one_starts() -> None:
    alert = replace(ALERT, next_starts=60)
    assert decide_end(alert, False, None, True) == AlertEnd(60, "ended")
    assert decide_end(alert, False, 50, True) == AlertEnd(50, "ended")
