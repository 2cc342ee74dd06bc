"""The `lateness` under which each stream was last read."""

from collections.abc import Mapping
from dataclasses import dataclass

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class _LatenessRow:
    name: str
    lateness: int


class LatenessGateway(Gateway):
    queries = "lateness"

    def list_all(self) -> dict[str, int]:
        """Microseconds by stream, without streams of which it is unknown."""
        return {row.name: row.lateness for row in self._records(_LatenessRow, "list_all")}

    def put(self, lateness: Mapping[str, int]) -> None:
        """Store microseconds by stream."""
        rows = [{"name": name, "lateness": value} for name, value in lateness.items()]
        self._execute_many("put", rows)
