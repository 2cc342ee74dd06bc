"""Which steps found the cause of similar past alerts, the fastest first. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any
from uuid import UUID

_MAX_STEP = timedelta(hours=8)
"""Longer ones were not worked on all of the time."""


@dataclass(frozen=True)
class InvestigatedAlert:
    """A past alert and its notes, oldest first, as `PastNote`."""

    alert: UUID
    starts_at: datetime
    notes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RankedStep:
    """A step that was checked for similar past alerts.

    `checked`: how often; of these it `confirmed` or `ruled_out` a suspicion. `seconds`: how long it
    took in the median, since what was noted before it; None: not known. `result`: what it showed
    last, where it confirmed a suspicion if it ever did. `alerts`: for which.
    """

    step: str
    checked: int
    confirmed: int
    ruled_out: int
    seconds: float | None
    result: str
    alerts: Sequence[UUID]


@dataclass
class _Uses:
    step: str
    outcomes: list[str] = field(default_factory=list)
    spans: list[float] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    alerts: list[UUID] = field(default_factory=list)


def rank_steps(alerts: Iterable[InvestigatedAlert]) -> list[RankedStep]:
    """The steps in the order that finds the cause fastest. `alerts`: the most similar first.

    By the share of its uses that confirmed a suspicion for each second that it took, which is the
    order of the shortest expected search. Then those that never confirmed one, in the order of the
    alerts: first what left it open, then what ruled it out.
    """
    uses: dict[str, _Uses] = {}
    for alert in alerts:
        before = alert.starts_at
        for note in alert.notes:
            at = _parse(note["at"])
            if note["kind"] == "checked":
                _add_use(uses, alert, note, at - before)
            before = at
    steps = [_make_step(item) for item in uses.values()]
    return sorted(steps, key=_order)


def _add_use(
    uses: dict[str, _Uses], alert: InvestigatedAlert, note: Mapping[str, Any], span: timedelta
) -> None:
    text = " ".join(note["text"].split())
    use = uses.setdefault(text, _Uses(text))
    outcome = note["outcome"] or "open"
    use.outcomes.append(outcome)
    if timedelta(0) <= span <= _MAX_STEP:
        use.spans.append(span.total_seconds())
    if note["result"]:
        use.results.setdefault(outcome, note["result"])
    if alert.alert not in use.alerts:
        use.alerts.append(alert.alert)


def _make_step(use: _Uses) -> RankedStep:
    results = [
        use.results[name] for name in ("confirmed", "open", "ruled out") if name in use.results
    ]
    return RankedStep(
        step=use.step,
        checked=len(use.outcomes),
        confirmed=use.outcomes.count("confirmed"),
        ruled_out=use.outcomes.count("ruled out"),
        seconds=median(use.spans) if use.spans else None,
        result=results[0] if results else "",
        alerts=use.alerts,
    )


def _order(step: RankedStep) -> tuple[float, ...]:
    share = step.confirmed / step.checked
    # Those whose time is not known come after those that are known to be as good.
    seconds = _MAX_STEP.total_seconds() if step.seconds is None else max(step.seconds, 1.0)
    return (-share / seconds, step.ruled_out / step.checked)


def _parse(moment: datetime | str) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)
