"""How an alert ends that has no further events: its data still come, or have vanished. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from archiver.times import Micros

SilenceReason = Literal["ended", "no_data"]


@dataclass(frozen=True)
class EndingAlert:
    """An alert whose last event is `keep_firing_for` ago.

    `eid`: its first event; `key`: the values of the rule's key. `last`: time of its last event.
    `ends`: when it ends if its data still come. `next_starts`: when the next alert with its key
    begins; None: there is none.
    """

    eid: UUID
    key: Mapping[str, Any]
    last: Micros
    ends: Micros
    next_starts: Micros | None = None


class AlertEnd(NamedTuple):
    """When an alert ends, None: it is held; and why, None: nobody looked."""

    at: Micros | None
    reason: SilenceReason | None


DecideEnds = Callable[[Sequence[EndingAlert]], Sequence[AlertEnd]]


def decide_end(
    alert: EndingAlert, has_data: bool, returns_at: Micros | None, is_held: bool
) -> AlertEnd:
    """When an alert ends, and why.

    `has_data`: whether rows with its key came from its last event to its end. `returns_at`: the
    first one after that; None: none came. `is_held`: the rule key `on_silence` is `hold`.
    """
    if has_data:
        return AlertEnd(alert.ends, "ended")
    if not is_held:
        return AlertEnd(alert.ends, "no_data")
    times = [time for time in (returns_at, alert.next_starts) if time is not None]
    if not times:
        return AlertEnd(None, None)
    return AlertEnd(max(alert.ends, min(times)), "ended")
