"""Whether live processes keep ending: then each unit that they had begun is read alone."""

from datetime import datetime, timedelta

from moirae.errors import Unreachable
from sql.processes import ProcessExitGateway

_MIN_ENDS = 2
_PERIOD = timedelta(minutes=10)


def has_ended_repeatedly(gateway: ProcessExitGateway, now: datetime) -> bool:
    """Whether live processes have ended lately, not by an outage of the database or storage."""
    ends = 0
    for process_exit in gateway.list_recent(now - _PERIOD):
        is_outage = process_exit.exit_code in (0, Unreachable.exit_code)
        ends += process_exit.role == "live" and not is_outage
    return ends >= _MIN_ENDS
