"""Summaries of closed chunks: what they are of, and what they have cost and saved."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary; see `recall.summaries.plan.Costs`. `loss`: why it is not kept; None: it is."""

    key: str
    stream: str
    definition: Mapping[str, Any]
    bytes: int
    chunks: int
    rows: int
    groups: int
    asked: int
    build_seconds: float
    read_seconds: float
    lookup_seconds: float
    loss: str | None


class SummaryGateway(Gateway):
    queries = "summaries"

    def try_lock(self) -> bool:
        """Become the process that computes summaries until this session ends; False: another is."""
        return bool(self._value("try_lock"))

    def list_all(self) -> list[SummaryRow]:
        """All summaries."""
        return self._records(SummaryRow, "list_all")

    def put(self, row: SummaryRow) -> None:
        """Record a summary. `asked` of the row is added to what is recorded."""
        values = {name: getattr(row, name) for name in SummaryRow.__slots__}
        self._execute("put", **{**values, "definition": Jsonb(dict(row.definition))})

    def delete_others(self, keys: Collection[str]) -> None:
        """Forget the summaries with other keys."""
        self._execute("delete_others", keys=list(keys))
