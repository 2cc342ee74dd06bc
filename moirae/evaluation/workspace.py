"""What people have said of a workspace's past events."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.admission import column
from archiver.numbered import CONTEXTS, EVENTS, NumberedTable
from archiver.place import Root
from moirae.alerts.event import canonical
from moirae.deployments.registry import Registry
from moirae.errors import UsageError
from moirae.evaluation.judged import Judged, Opinion
from moirae.rules.definition import Definition
from moirae.rules.questions import SimilarRecall
from recall.similarity.index import facts
from recall.similarity.run import Alert

_QUERIES, _CONTEXTS = sql.load("judgements"), sql.load("contexts")


def say(connection: Connection[Any], opinion: Opinion) -> None:
    """Keep what somebody says of a hit. Raises `UsageError` where the two are not events of one rule."""
    rules = [
        {row[0] for row in connection.execute(_QUERIES["rule_of"], {"eid": eid})}
        for eid in (opinion.eid, opinion.past_eid)
    ]
    if opinion.eid == opinion.past_eid or not rules[0] & rules[1]:
        raise UsageError(f"{opinion.past_eid} is no past event of the rule of {opinion.eid}")
    connection.execute(_QUERIES["judge"], asdict(opinion))


def judged(
    connection: Connection[Any], archive: Root, rule: str | None = None
) -> Iterator[tuple[Definition, str, Judged]]:
    """For each similarity recall of the applied rules (of those whose name is or ends in `rule`): its definition, its
    name, and the corpus with what is known of it, from the database and the archive's tables under `archive`."""
    for definition in Registry(connection).desired():
        if rule is None or definition.name == rule or definition.name.endswith(f"/{rule}"):
            for name, recall in definition.rule.spec.recall.items():
                if isinstance(recall, SimilarRecall):
                    yield definition, name, _judged(connection, archive, definition, name, recall)


def _judged(
    connection: Connection[Any], archive: Root, definition: Definition, name: str, recall: SimilarRecall
) -> Judged:
    asked = recall.similar
    contexts = asked.contexts or tuple(definition.rule.spec.context)
    alerts, kinds = [], {}
    values = {"rule": definition.name, "version": definition.version}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(_QUERIES["corpus"], values):
            bag = facts(row["contexts"], contexts)
            alerts.append(Alert(row["eid"], definition.name, row["ts"], bag, place=row["fingerprint"]))
            if row["tag"] is not None:
                kinds[row["eid"]] = row["tag"]
    # Of events that nobody has said anything of the database forgets what has expired; their contexts still count.
    (forgotten,) = connection.execute(_CONTEXTS["forgotten"]).fetchone() or (0,)
    if forgotten:
        known = {alert.event_id for alert in alerts}
        alerts += (alert for alert in _archived(archive, definition, contexts) if alert.event_id not in known)
        alerts.sort(key=lambda alert: (alert.ts, alert.event_id))
    found = connection.execute(_QUERIES["said"], {"rule": definition.name})
    said = {(eid, past): helps for eid, past, helps in found}
    return Judged(f"{definition.name} {name}", alerts, kinds, said, asked.gap, asked.measure, asked.k)


def _archived(archive: Root, definition: Definition, contexts: Sequence[str]) -> Iterator[Alert]:
    """The corpus of a version, as far as it is archived."""
    if not NumberedTable.exists(archive, CONTEXTS):
        return
    of_version = definition.name, definition.version
    places: dict[str, str] = {}
    if NumberedTable.exists(archive, EVENTS):
        events = NumberedTable(archive, EVENTS).read(*of_version)
        for eid, key in zip(events["eid"].to_pylist(), map(orjson.loads, events["key"].to_pylist()), strict=True):
            places[eid] = canonical([key.get(column) for column in definition.key])
    rows = NumberedTable(archive, CONTEXTS).read(*of_version)
    for eid, ts, held in zip(rows["eid"].to_pylist(), column(rows, "ts").tolist(), rows["contexts"], strict=True):
        bag = facts(orjson.loads(held.as_py()), contexts)
        yield Alert(eid, definition.name, ts, bag, place=places.get(eid))
