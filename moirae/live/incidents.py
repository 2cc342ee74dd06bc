"""The grouping of alerts into incidents, as the live process runs it."""

from functools import partial

import sql
from archiver.ingest import ArchiveWriter
from archiver.periodic import Periodic
from archiver.times import duration_to_micros
from moirae.config import Settings
from moirae.incidents import GroupingPolicy, IncidentEngine, read_changes

_INTERVAL = 1.0  # seconds between looks for alerts that are in no incident
_EACH_ROUND = 0.0  # seconds


def build_incident_engine(
    settings: Settings, connection: sql.Connection, archive: ArchiveWriter
) -> IncidentEngine:
    """What places the alerts of a workspace, as its key `incidents` says."""
    declared = {name: stream.changes for name, stream in settings.streams.items() if stream.changes}
    find_changes = partial(read_changes, archive.tables, declared)
    policy = _make_policy(settings)
    return IncidentEngine(connection, policy, settings.incidents.steps, find_changes)


def apply_incident_settings(engine: IncidentEngine, settings: Settings) -> None:
    """Place the next alerts as the key `incidents` of a changed workspace file says."""
    engine.change_policy(_make_policy(settings), settings.incidents.steps)


def _make_policy(settings: Settings) -> GroupingPolicy:
    declared = settings.incidents
    return GroupingPolicy(declared.threshold, duration_to_micros(declared.within))


def make_incident_task(engine: IncidentEngine) -> Periodic:
    """Place alerts at intervals; with many of them, in each round of the loop."""

    def run_once() -> None:
        if engine.run_once():
            task.run_again_after(_EACH_ROUND)

    task = Periodic("place alerts in incidents", _INTERVAL, run_once)
    return task
