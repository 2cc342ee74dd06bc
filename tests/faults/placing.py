"""Processes that place alerts in incidents, and that decide about incidents, to be killed."""

import random
from datetime import timedelta
from pathlib import Path

import sql
from moirae.config.settings import load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.incidents import GroupingPolicy, IncidentEngine
from moirae.incidents.changes import NearbyChanges
from moirae.runtime import database
from moirae.services import LocalWorkspace
from moirae.services.operations.incidents import (
    MergeBody,
    SplitBody,
    merge_incidents,
    split_incident,
)


def make_engine(connection: sql.Connection) -> IncidentEngine:
    return IncidentEngine(connection, GroupingPolicy(), 0, lambda *_: NearbyChanges())


def place(workspace: Path) -> None:
    settings = load_settings_from_environment(workspace)
    with database.connect_database(settings, "placing") as connection:
        engine = make_engine(connection)
        while True:
            engine.run_once(timedelta(0))


def decide(workspace: Path) -> None:
    """Merge incidents and split alerts off without a pause."""
    settings = load_settings_from_environment(workspace)
    rng = random.Random()
    with database.connect_database(settings, "deciding") as connection:
        services = LocalWorkspace(settings=settings, connection=connection, author="ada", via="api")
        while True:
            alerts = [
                str(alert)
                for (alert,) in connection.execute(
                    "SELECT alert_id FROM incident_alerts ORDER BY number DESC LIMIT 20"
                )
            ]
            if len(alerts) < 2:
                continue
            first, second = rng.sample(alerts, 2)
            try:
                if rng.random() < 0.5:
                    merge_incidents(services, first, MergeBody(others=[second]))
                else:
                    split_incident(services, first, SplitBody(alerts=[first]))
            except MoiraeError:  # of one incident, or the only alert of it
                continue
