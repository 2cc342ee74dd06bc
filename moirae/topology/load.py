"""Reads the relation `topology` of a workspace."""

from datetime import datetime

import sql
from moirae.topology.locations import Topology, make_topology, to_text
from sql.archive import RelationGateway

TOPOLOGY = "topology"
"""The relation that says which places are neighbours: `source`, `target` and `kind`."""


def load_topology(connection: sql.Connection, ts: datetime) -> Topology:
    """The neighbours by the rows that were valid at a time; none without the relation."""
    edges = []
    for version in RelationGateway(connection).list_versions(TOPOLOGY):
        is_valid = version.valid_from <= ts and (version.valid_to is None or ts < version.valid_to)
        if version.row is not None and is_valid:
            source, target = version.row.get("source"), version.row.get("target")
            if source is not None and target is not None:
                edges.append((to_text(source), to_text(target)))
    return make_topology(edges)
