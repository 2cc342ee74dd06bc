"""Silences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSilence:
    """A silence to store. `matchers`: texts. `schedule`: cron, duration and zone; None: always."""

    id: UUID
    matchers: Sequence[str]
    starts_at: datetime
    ends_at: datetime
    schedule: Mapping[str, Any] | None
    author: str
    comment: str
    replaces: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRow:
    """A silence. `replaces`: the silence that was edited."""

    id: UUID
    matchers: Sequence[str]
    starts_at: datetime
    ends_at: datetime
    schedule: Mapping[str, Any] | None
    author: str
    comment: str
    replaces: UUID | None
    created_at: datetime
    updated_at: datetime


class SilenceGateway(Gateway):
    """All silences."""

    queries = "silences"

    def put(self, silence: NewSilence) -> None:
        """Add a silence, or replace the one of its ID."""
        schedule = None if silence.schedule is None else Jsonb(replace_nul(silence.schedule))
        self._execute(
            "put",
            id=silence.id,
            matchers=Jsonb(replace_nul(list(silence.matchers))),
            starts_at=silence.starts_at,
            ends_at=silence.ends_at,
            schedule=schedule,
            author=replace_nul(silence.author),
            comment=replace_nul(silence.comment),
            replaces=silence.replaces,
        )

    def get(self, silence_id: UUID) -> SilenceRow | None:
        """A silence; None for an unknown ID."""
        return self._record(SilenceRow, "get", id=silence_id)

    def expire(self, silence_id: UUID, now: datetime) -> bool:
        """End a silence. False: it has ended before, or is unknown."""
        return self._execute("expire", id=silence_id, now=now).rowcount == 1

    def list_all(self, *, ends_after: datetime | None = None, limit: int) -> list[SilenceRow]:
        """Silences that end after a time, newest first."""
        return self._records(SilenceRow, "list_all", ends_after=ends_after, limit=limit)

    def get_revision(self) -> str:
        """A text that changes with each silence."""
        return str(self._value("get_revision"))
