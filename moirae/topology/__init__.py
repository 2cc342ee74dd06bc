"""Places of alerts and changes, and which of them the relation `topology` makes neighbours."""

from moirae.topology.load import TOPOLOGY, load_topology
from moirae.topology.locations import (
    Location,
    Surrounding,
    Topology,
    make_topology,
    surround,
    to_location,
    to_text,
)

__all__ = [
    "TOPOLOGY",
    "Location",
    "Surrounding",
    "Topology",
    "load_topology",
    "make_topology",
    "surround",
    "to_location",
    "to_text",
]
