"""What several gateways read of an alert."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentAlertRow:
    """An alert as it is now.

    `starts_at`, `fired_at`, `ends_at`: event times, None until then. `raised_at`, `updated_at`: when
    it was stored as firing first (None until then), and when it changed last. `history`: the result
    of the rule's `where`, waiting, kept, withdrawn or no_history; None without one.
    `history_final`: it does not change any more. `past`: found in history.
    """

    id: UUID
    eid: UUID
    rule: str
    version: str
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str
    history: str | None
    history_final: bool
    starts_at: datetime
    fired_at: datetime | None
    ends_at: datetime | None
    raised_at: datetime | None
    updated_at: datetime
    past: bool
