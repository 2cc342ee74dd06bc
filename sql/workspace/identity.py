"""The identity of a workspace, which its database and its archive hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway

# Added to the epochs of all roles by a restore: more than processes start in one generation.
_EPOCH_STEP = 1_000_000


@dataclass(frozen=True, slots=True)
class WorkspaceRow:
    """The identity of the workspace. `generation` counts its restores, from 1 on.

    The other fields are of the last restore; None: there was none.
    """

    id: UUID
    generation: int
    restored_from: str | None
    backed_up_at: datetime | None
    restored_at: datetime | None


class WorkspaceGateway(Gateway):
    """The identity of the workspace."""

    queries = "workspace"

    def get(self) -> WorkspaceRow:
        """The identity."""
        row = self._record(WorkspaceRow, "get")
        assert row is not None
        return row

    def get_clock(self) -> float:
        """The clock of the database, in Unix seconds."""
        seconds: float = self._value("get_clock")
        return seconds

    def get_shared_values(self) -> Mapping[str, str] | None:
        """The values with which all machines start, as hashes by key; None: none started yet."""
        values: Mapping[str, str] | None = self._value("get_shared_values")
        return values

    def put_shared_values(self, values: Mapping[str, str]) -> None:
        """Make other values the reference."""
        self._execute("put_shared_values", shared_values=Jsonb(values))

    def begin_generation(self, generation: int, *, backup: str, backed_up_at: datetime) -> None:
        """Begin a generation after a restore: processes of earlier ones lose their roles."""
        self._execute(
            "begin_generation", generation=generation, backup=backup, backed_up_at=backed_up_at
        )
        self._execute("retire_processes", step=_EPOCH_STEP)
        self._execute("forget_exits")
