"""Reads the contexts of incidents: those of all of their alerts."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from archiver.times import to_micros
from moirae.incidents.similar import IncidentContext, list_terms, make_context
from sql.alerts import IncidentGateway, IncidentRow


def load_contexts(
    gateway: IncidentGateway, incidents: Sequence[IncidentRow]
) -> list[IncidentContext]:
    """The contexts of incidents, in their order. Withdrawn alerts add nothing."""
    members = [
        member
        for member in gateway.list_members([row.id for row in incidents])
        if member.state != "withdrawn"
    ]
    contexts = {
        (row.rule, row.version, row.eid): row.contexts for row in gateway.list_contexts(members)
    }
    terms_by_incident: dict[UUID, list[Sequence[str]]] = defaultdict(list)
    for member in members:
        tables = contexts.get((member.rule, member.version, member.eid), {})
        terms_by_incident[member.incident].append(list_terms(member.rule, member.key, tables))
    return [
        make_context(row.id, to_micros(row.starts_at), terms_by_incident[row.id])
        for row in incidents
    ]
