"""Why an alert fires or not: what a rule makes of the rows of one key up to a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Verdict = Literal["firing", "pending", "hidden", "none"]


@dataclass(frozen=True)
class ConditionReport:
    """A condition of a stage. `passed`: rows or groups of the key for which it and those before hold.

    `values`: what it compares, in the newest of them; `is_true`: what it says there; None: unknown.
    """

    text: str
    passed: int
    values: Mapping[str, Any]
    is_true: bool | None


@dataclass(frozen=True)
class StageReport:
    """A SELECT of the event query. `rows`: of the key after FROM and JOIN.

    `groups`: windows and their groups; None: it does not group. `error`: why it has no figures.
    """

    name: str
    sources: Sequence[str]
    rows: int = 0
    conditions: Sequence[ConditionReport] = ()
    groups: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class StreamReport:
    """The rows of a stream that the rule reads for this time, those of the key if it has its columns.

    `late`: rows that came late, which rules do not read.
    """

    stream: str
    rows: int
    late: int
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True)
class WhereReport:
    """`where` with the answers of recalls that it reads, as they were at the time of the event."""

    condition: str
    verdict: bool | None
    answers: Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class RouteReport:
    """A route that the alert takes. `is_muted`: by time intervals, at the time of the question."""

    receiver: str
    route: str
    is_muted: bool


@dataclass(frozen=True)
class Explanation:
    """`deciding`: conditions without which an event would have been there: a single one if that is
    enough, else the first ones that together are. `events`: the newest ones of the key.
    """

    rule: str
    version: str
    key: Mapping[str, str]
    at: datetime
    verdict: Verdict
    reason: str
    reads_from: datetime
    reads_to: datetime
    deciding: Sequence[str] = ()
    streams: Sequence[StreamReport] = ()
    stages: Sequence[StageReport] = ()
    relations: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    starts_at: datetime | None = None
    fired_at: datetime | None = None
    where: WhereReport | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    routes: Sequence[RouteReport] = ()
    silences: Sequence[str] = ()
