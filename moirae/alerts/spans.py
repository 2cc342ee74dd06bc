"""The spans of earlier alerts of a key, as they were known at the time of an event. No I/O.

What `where` says of an alert may depend on the alerts before it that it has not hidden. So verdicts
of the past are found in the order of time: of the first alert of each key, then of the second.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from uuid import UUID

from archiver.times import Micros
from moirae.alerts.event import Event
from moirae.alerts.lifecycle import AlertLifetime
from recall.norms import AlertSpan

SpansByEvent = Mapping[UUID, Sequence[AlertSpan]]
# What `where` says of events: False hides their alerts.
EvaluateWhere = Callable[[Sequence[Event], SpansByEvent], Mapping[UUID, bool | None]]


def find_spans(lifetimes: Iterable[AlertLifetime], event_ts: Micros) -> tuple[AlertSpan, ...]:
    """The spans of alerts that had fired by then; of one that went on, without its end."""
    spans: list[AlertSpan] = []
    for lifetime in lifetimes:
        if lifetime.fired is None or lifetime.fired > event_ts or lifetime.starts >= event_ts:
            continue
        is_over = lifetime.ended is not None and lifetime.ended <= event_ts
        spans.append(AlertSpan(lifetime.starts, lifetime.ended if is_over else None))
    return tuple(spans)


def evaluate_in_order(
    alerts: Iterable[tuple[Event, AlertLifetime]], evaluate: EvaluateWhere
) -> dict[UUID, bool | None]:
    """What `where` says of the first events of alerts that fired, each after those before it."""
    by_key: dict[str, list[tuple[Event, AlertLifetime]]] = defaultdict(list)
    for event, lifetime in sorted(alerts, key=lambda alert: alert[1].starts):
        by_key[event.fingerprint].append((event, lifetime))
    shown: dict[str, list[AlertLifetime]] = defaultdict(list)
    verdicts: dict[UUID, bool | None] = {}
    for round_of_keys in zip_longest(*by_key.values()):
        due = [alert for alert in round_of_keys if alert is not None]
        spans = {event.eid: find_spans(shown[event.fingerprint], event.ts) for event, _ in due}
        verdicts |= evaluate([event for event, _ in due], spans)
        for event, lifetime in due:
            if verdicts[event.eid] is not False:
                shown[event.fingerprint].append(lifetime)
    return verdicts
