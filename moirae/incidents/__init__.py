"""Incidents: alerts of one failure, as proposed and as people decided."""

from moirae.incidents.alert_features import AlertFeatures, make_features
from moirae.incidents.changes import read_changes
from moirae.incidents.decisions import Decision
from moirae.incidents.engine import IncidentEngine
from moirae.incidents.grouping import (
    Grouper,
    GroupingPolicy,
    Placement,
    propose_incidents,
)
from moirae.incidents.load import load_contexts
from moirae.incidents.similar import IncidentContext, SimilarIncident, rank_similar

__all__ = [
    "AlertFeatures",
    "Decision",
    "Grouper",
    "GroupingPolicy",
    "IncidentContext",
    "IncidentEngine",
    "Placement",
    "SimilarIncident",
    "load_contexts",
    "make_features",
    "propose_incidents",
    "rank_similar",
    "read_changes",
]
