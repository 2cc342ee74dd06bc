"""Machines of a workspace run with the same values of the keys that all must share.

The database holds the values of the processes that run: a process of another machine with other
values does not start beside them. Where no other machine runs, its values become the reference.
"""

from collections.abc import Sequence

import sql
from moirae.config import Settings, digest_shared_values, list_differences
from moirae.errors import MoiraeError
from moirae.runtime.leases import machine_name
from sql.processes import ProcessGateway
from sql.workspace import WorkspaceGateway


def check_shared_values(settings: Settings, connection: sql.Connection) -> None:
    """Compare the workspace file with that of processes on other machines.

    Raises `MoiraeError` with the keys that differ. No other machine reaches an embedded database.
    """
    if not settings.database:
        return
    own = digest_shared_values(settings)
    gateway = WorkspaceGateway(connection)
    reference = gateway.get_shared_values()
    if reference == own:
        return
    machine = machine_name(settings)
    machines = sorted(
        {
            row.machine
            for row in ProcessGateway(connection).list_all()
            if row.alive and row.machine not in ("", machine)
        }
    )
    if machines and reference is not None:
        keys = ", ".join(list_differences(reference, own))
        raise MoiraeError(
            f"{settings.file}: {keys}: other values than on {', '.join(machines)}, which runs: make "
            "the files equal, or run `moirae cluster accept` here and restart the processes there"
        )
    gateway.put_shared_values(own)


def accept_shared_values(settings: Settings, connection: sql.Connection) -> Sequence[str]:
    """Make the values of this workspace file the reference. Returns the keys that change."""
    own = digest_shared_values(settings)
    gateway = WorkspaceGateway(connection)
    differences = list_differences(gateway.get_shared_values() or {}, own)
    gateway.put_shared_values(own)
    return differences
