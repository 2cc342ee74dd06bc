"""Incidents: alerts of one failure, as proposed and as people decided."""

from moirae.incidents.alert_features import AlertFeatures, make_features
from moirae.incidents.decisions import Decision
from moirae.incidents.grouping import (
    Grouper,
    GroupingPolicy,
    Placement,
    make_incident_id,
    propose_incidents,
)

__all__ = [
    "AlertFeatures",
    "Decision",
    "Grouper",
    "GroupingPolicy",
    "Placement",
    "make_features",
    "make_incident_id",
    "propose_incidents",
]
