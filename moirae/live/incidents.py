"""The grouping of alerts into incidents, as the live process runs it."""

from functools import partial

import sql
from archiver.ingest import ArchiveWriter
from archiver.periodic import Periodic
from archiver.times import duration_to_micros
from moirae.config import Settings
from moirae.incidents import GroupingPolicy, IncidentEngine, read_changes

_INTERVAL = 0.5  # seconds between looks for alerts that are in no incident
_EACH_ROUND = 0.0  # seconds


def build_incident_engine(
    settings: Settings, connection: sql.Connection, archive: ArchiveWriter
) -> IncidentEngine:
    """What places the alerts of a workspace, as its key `incidents` says."""
    declared = {name: stream.changes for name, stream in settings.streams.items() if stream.changes}
    policy = GroupingPolicy(
        settings.incidents.threshold, duration_to_micros(settings.incidents.within)
    )
    find_changes = partial(read_changes, archive.tables, declared)
    return IncidentEngine(connection, policy, settings.incidents.steps, find_changes)


def make_incident_task(engine: IncidentEngine) -> Periodic:
    """Place alerts at intervals; with many of them, in each round of the loop."""

    def run_once() -> None:
        if engine.run_once():
            task.run_again_after(_EACH_ROUND)

    task = Periodic("place alerts in incidents", _INTERVAL, run_once)
    return task
