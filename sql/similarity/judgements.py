"""Feedback of operators: judgements of past events, and tags of resolutions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class JudgementRow:
    """Whether a past event helps with an event."""

    eid: str
    past_eid: str
    helps: bool


@dataclass(frozen=True, slots=True)
class FeedbackStateRow:
    """How much feedback there is. `newest`: wall-clock time of the last; None without any."""

    total: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class TaggedEventRow:
    """An event of a corpus.

    `ts`: event time in microseconds. `tag`: of the last tagged resolution of its alert;
    `tagged_at`: when that was recorded, in microseconds. Both, and the ID of the alert, are None
    without one.
    """

    eid: str
    ts: int
    contexts: Mapping[str, Any]
    fingerprint: str
    tag: str | None
    alert: str | None
    tagged_at: int | None


@dataclass(frozen=True, slots=True)
class UnresolvedEventRow:
    """An event of a corpus whose alert has no tagged resolution.

    `ts`: event time in microseconds. `recalled`: how many answers have it as a hit.
    """

    eid: str
    ts: int
    contexts: Mapping[str, Any]
    alert: str
    key: Mapping[str, Any]
    recalled: int


class JudgementGateway(Gateway):
    queries = "judgements"

    def put(self, eid: UUID, past_eid: UUID, *, helps: bool, author: str) -> None:
        """Store a judgement; it replaces an earlier one of the same two events by the author."""
        self._execute("put", eid=eid, past_eid=past_eid, helps=helps, author=author)

    def withdraw(self, eid: UUID, past_eid: UUID, *, author: str) -> bool:
        """Delete the author's judgement of two events. Returns whether there was one."""
        deleted = self._execute("withdraw", eid=eid, past_eid=past_eid, author=author)
        return deleted.rowcount > 0

    def list_of_rule(self, rule: str) -> list[JudgementRow]:
        """The judgements for events of a rule, in no order: one for each pair of events on which
        all who judged it agree.
        """
        return self._records(JudgementRow, "list_of_rule", rule=rule)

    def list_rules_of_event(self, eid: UUID) -> set[str]:
        """The names of the rules that have an event; empty if it is not stored."""
        return set(self._column("list_rules_of_event", eid=eid))

    def get_feedback_state(self) -> FeedbackStateRow:
        """The number of tags and judgements, and the time of the last."""
        state = self._record(FeedbackStateRow, "get_feedback_state")
        assert state is not None
        return state

    def list_tagged_corpus(self, rule: str, version: str) -> list[TaggedEventRow]:
        """The corpus of a version, in (ts, eid) order."""
        return self._records(TaggedEventRow, "list_tagged_corpus", rule=rule, version=version)

    def list_tags(self, eids: Collection[str]) -> dict[str, str | None]:
        """By ID of a past event: the tag of its alert's last tagged resolution, or None."""
        return self._pairs("list_tags", eids=list(eids))

    def list_unresolved(self, rule: str, version: str) -> list[UnresolvedEventRow]:
        """The corpus events of a version without a tag, in (ts, eid) order."""
        return self._records(UnresolvedEventRow, "list_unresolved", rule=rule, version=version)
