"""Feedback on past events: tags of their resolutions, and judgements of single hits. No I/O."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from archiver.times import Micros, duration_to_micros
from recall.learning import Resolution, number_episodes
from recall.relevance import Gains
from recall.relevance.rankers import AlertContext, CandidateSet

# The gain of a past event of the same kind.
_SAME_KIND_GAIN = 1
# The gain of a past event that was judged to help.
_JUDGED_GAIN = 2


@dataclass(frozen=True)
class JudgedCorpus:
    """Events with their contexts and the feedback on them."""

    name: str
    alerts: Sequence[AlertContext]
    kinds: Mapping[str, str]
    """By event ID, where known: what the event was, such as the tag of its resolution."""
    judgements: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """By event ID and past event ID: whether the past event helps."""
    gap: timedelta = timedelta(0)
    """How much older past events must be."""
    measure: str = "tfidf"
    k: int = 10
    """The number of hits of an answer."""
    known_times: Mapping[str, Micros] = field(default_factory=dict)
    """By event ID: from when on its kind was known. By default, from `gap` after the event on."""

    @property
    def gap_micros(self) -> Micros:
        return duration_to_micros(self.gap)

    def number_episodes(self) -> dict[str, int]:
        """The number of each event's episode by event ID: of events of one kind, or with equal
        terms while it is not known.
        """
        events = sorted(self.alerts, key=lambda alert: (alert.ts, alert.event_id))
        keys: list[tuple[Hashable, Micros]] = []
        for alert in events:
            kind = self.kinds.get(alert.event_id)
            cause = frozenset(alert.term_counts) if kind is None else kind
            keys.append(((alert.event_type, cause), alert.ts))
        numbers = number_episodes(keys, self.gap_micros)
        return dict(zip((alert.event_id for alert in events), numbers, strict=True))

    def resolutions(self, known_after: timedelta | None = None) -> list[Resolution]:
        """The kinds as resolutions. `known_after`: how long after the event they were known."""
        resolutions = []
        for alert in self.alerts:
            kind = self.kinds.get(alert.event_id)
            if kind is None:
                continue
            known_at = self.known_times.get(alert.event_id, alert.ts + self.gap_micros)
            if known_after is not None:
                known_at = alert.ts + duration_to_micros(known_after)
            resolutions.append(Resolution(alert.event_id, kind, known_at))
        return resolutions

    def is_same_kind(self, event: str, past: str) -> bool | None:
        """Whether two events are of the same kind; None: unknown. A judgement takes precedence."""
        if (event, past) in self.judgements:
            return self.judgements[event, past]
        if event not in self.kinds or past not in self.kinds:
            return None
        return self.kinds[event] == self.kinds[past]

    def gains_of(self, candidate_set: CandidateSet) -> Gains:
        """The gains of the candidates that help, by event ID."""
        history = candidate_set.history
        excluded_ids = {history.alerts[row].event_id for row in candidate_set.excluded_rows}
        event = candidate_set.alert.event_id
        kind = self.kinds.get(event)
        gains = {}
        for past in candidate_set.candidates:
            if past.event_id in excluded_ids:
                continue
            judgement = self.judgements.get((event, past.event_id))
            if judgement:
                gains[past.event_id] = _JUDGED_GAIN
            elif judgement is None and kind is not None and self.kinds.get(past.event_id) == kind:
                gains[past.event_id] = _SAME_KIND_GAIN
        return gains


@dataclass(frozen=True)
class Judgement:
    """An operator's judgement: whether a past event helps with an event."""

    eid: UUID
    past_eid: UUID
    helps: bool
    author: str
