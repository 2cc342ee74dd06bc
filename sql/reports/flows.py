"""What streams, rules, contexts and recalls have processed in the last minutes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sql.gateway import Gateway

FlowKind = Literal["stream", "rule", "context", "recall", "revisions"]


@dataclass(frozen=True, slots=True)
class FlowRow:
    """Figures of a stream, rule, context, recall or revision stream.

    `rows`, `results`, `seconds`, `bytes`: as of the table `flows` in `sql/schema.sql`.
    """

    kind: FlowKind
    name: str
    rows: int = 0
    results: int = 0
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class OpenRecallRow:
    """Recalls of one name that have not ended. `oldest`: seconds since the first was requested."""

    name: str
    tasks: int
    oldest: float


class FlowGateway(Gateway):
    queries = "flows"

    def add(self, rows: Sequence[FlowRow]) -> None:
        """Add to the figures of the current half minute; `bytes` are replaced."""
        self._execute_rows("add", list(map(asdict, rows)))

    def delete_old(self) -> None:
        """Delete what is older than the figures that are listed."""
        self._execute("delete_old")

    def list_recent(self) -> list[FlowRow]:
        """The sums of the last five minutes."""
        return self._records(FlowRow, "list_recent")

    def get_span(self) -> float:
        """The seconds over which the sums are."""
        return float(self._value("get_span"))

    def list_open_recalls(self) -> list[OpenRecallRow]:
        """The recalls that have not ended, without ad-hoc queries and suspended ones."""
        return self._records(OpenRecallRow, "list_open_recalls")

    def list_settled(self) -> Mapping[str, int]:
        """By rule, the event time in microseconds up to which it is settled."""
        return self._pairs("list_settled")

    def list_newest(self) -> Mapping[str, int]:
        """By stream, its newest event time in microseconds."""
        return self._pairs("list_newest")
