"""What became of fixes: how often each worked, and how soon its alerts came back. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from sql.alerts import TagNameRow, TriedFixRow

CAME_BACK_WITHIN = timedelta(days=1)
"""By default, an alert that fires again so soon after its end has come back."""

_TIMES = {1: "once", 2: "twice"}


@dataclass(frozen=True)
class FixRecord:
    """What became of the alerts that were resolved with a tag, each by its last resolution.

    `worked`: the alert ended, and no alert of the same key fired within a stated time. `came_back`:
    those where one did, with the time after which it did, shortest first. `undecided`: the alert
    has not ended, or the stated time has not passed. `superseded_by`: the tag of what is done
    instead, by the last resolution that says so. `formerly`: earlier names.
    """

    tag: str
    rules: Sequence[str]
    first_at: datetime
    last_at: datetime
    worked: int
    came_back: Sequence[timedelta]
    did_not_help: int
    no_action_needed: int
    undecided: int
    superseded_by: str | None
    formerly: Sequence[str]

    @property
    def alerts(self) -> int:
        """All alerts whose last resolution has the tag."""
        return self._tried + self.no_action_needed + self.undecided

    @property
    def _tried(self) -> int:
        return self.worked + len(self.came_back) + self.did_not_help

    def describe(self) -> str:
        """`worked 5 of 6 times, came back once after 2 h`."""
        parts: list[str] = []
        if self._tried:
            parts.append(f"worked {self.worked} of {_format_times(self._tried)}")
        if self.came_back:
            seconds = median(span.total_seconds() for span in self.came_back)
            span = format_span(timedelta(seconds=seconds))
            middle = " in the median" if len(self.came_back) > 1 else ""
            times = _TIMES.get(len(self.came_back), f"{len(self.came_back)} times")
            parts.append(f"came back {times} after {span}{middle}")
        if self.did_not_help:
            times = _TIMES.get(self.did_not_help, f"{self.did_not_help} times")
            parts.append(f"did not help {times}")
        if self.no_action_needed:
            parts.append(f"no action needed {_format_times(self.no_action_needed)}")
        if self.undecided:
            parts.append(f"{self.undecided} not decided yet")
        if self.superseded_by is not None:
            parts.append(f"superseded by {self.superseded_by}")
        return ", ".join(parts)


def summarize_fixes(
    tried: Iterable[TriedFixRow], names: Iterable[TagNameRow], within: timedelta, now: datetime
) -> list[FixRecord]:
    """The record of each tag, the most frequent first. `tried`: by the time of the resolution.

    `within`: an alert of the same key that fires so soon after the end means that it came back.
    """
    by_tag: dict[str, list[TriedFixRow]] = {}
    for row in tried:
        by_tag.setdefault(row.tag, []).append(row)
    formerly: dict[str, list[str]] = {}
    for name in names:
        formerly.setdefault(name.tag, []).append(name.old_tag)
    records = [
        _summarize(tag, rows, formerly.get(tag, []), within, now) for tag, rows in by_tag.items()
    ]
    return sorted(records, key=lambda record: (-record.alerts, record.tag))


def _summarize(
    tag: str, rows: Sequence[TriedFixRow], formerly: Sequence[str], within: timedelta, now: datetime
) -> FixRecord:
    worked = did_not_help = no_action_needed = undecided = 0
    came_back: list[timedelta] = []
    superseded_by: str | None = None
    for row in rows:
        superseded_by = row.superseded_by or superseded_by
        returned = find_return(row, within)
        if row.effect == "no action needed":
            no_action_needed += 1
        elif row.effect == "did not help":
            did_not_help += 1
        elif returned is not None:
            came_back.append(returned)
        elif row.ends_at is None or now - row.ends_at < within:
            undecided += 1
        else:
            worked += 1
    return FixRecord(
        tag=tag,
        rules=sorted({row.rule for row in rows}),
        first_at=rows[0].at,
        last_at=rows[-1].at,
        worked=worked,
        came_back=sorted(came_back),
        did_not_help=did_not_help,
        no_action_needed=no_action_needed,
        undecided=undecided,
        superseded_by=superseded_by,
        formerly=formerly,
    )


def find_return(row: TriedFixRow, within: timedelta) -> timedelta | None:
    """How long after its end the alert came back; None: not within the time."""
    if row.ends_at is None or row.next_at is None:
        return None
    span = row.next_at - row.ends_at
    return span if span <= within else None


def _format_times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"


def format_span(span: timedelta) -> str:
    """A time in its largest unit, rounded: `40 s`, `12 min`, `2 h`, `3 d`."""
    seconds = max(span.total_seconds(), 0)
    for unit, length, limit in (("s", 1, 60), ("min", 60, 60), ("h", 3_600, 48)):
        if round(seconds / length) < limit:
            return f"{round(seconds / length)} {unit}"
    return f"{round(seconds / 86_400)} d"
