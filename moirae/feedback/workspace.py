"""What people have said of a workspace's past events."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.delta import CONTEXTS, EVENTS, SequencedTable
from archiver.storage import StorageRoot
from archiver.times import micros_column
from moirae.alerts import canonical_json
from moirae.deployments import RuleRegistry
from moirae.errors import UsageError
from moirae.feedback.judgements import JudgedCorpus, Judgement
from moirae.rules import Definition, SimilarRecall
from recall.relevance import AlertContext
from recall.similarity import count_terms

_QUERIES, _CONTEXT_QUERIES = sql.load("judgements"), sql.load("contexts")


def record_judgement(connection: Connection[Any], judgement: Judgement) -> None:
    """Keep what somebody says of a hit. Raises `UsageError` where the two are not events of one rule."""
    rules = [
        {row[0] for row in connection.execute(_QUERIES["rule_of"], {"eid": eid})}
        for eid in (judgement.eid, judgement.past_eid)
    ]
    if judgement.eid == judgement.past_eid or not rules[0] & rules[1]:
        raise UsageError(f"{judgement.past_eid} is no past event of the rule of {judgement.eid}")
    connection.execute(_QUERIES["judge"], asdict(judgement))


def load_judged_corpora(
    connection: Connection[Any], storage: StorageRoot, rule: str | None = None
) -> Iterator[tuple[Definition, str, JudgedCorpus]]:
    """For each similarity recall of the applied rules (of those whose name is or ends in `rule`): its definition, its
    name, and the corpus with what is known of it, from the database and the archive's tables under `archive`."""
    for definition in RuleRegistry(connection).desired_rules():
        if rule is None or definition.name == rule or definition.name.endswith(f"/{rule}"):
            for name, recall in definition.rule.spec.recall.items():
                if isinstance(recall, SimilarRecall):
                    yield (
                        definition,
                        name,
                        _load_judged_corpus(connection, storage, definition, name, recall),
                    )


def _load_judged_corpus(
    connection: Connection[Any],
    archive: StorageRoot,
    definition: Definition,
    name: str,
    recall: SimilarRecall,
) -> JudgedCorpus:
    asked = recall.similar
    contexts = asked.contexts or tuple(definition.rule.spec.context)
    alerts, kinds = [], {}
    values = {"rule": definition.name, "version": definition.version}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(_QUERIES["corpus"], values):
            bag = count_terms(row["contexts"], contexts)
            alerts.append(
                AlertContext(
                    row["eid"], definition.name, row["ts"], bag, location=row["fingerprint"]
                )
            )
            if row["tag"] is not None:
                kinds[row["eid"]] = row["tag"]
    # Of events that nobody has said anything of the database forgets what has expired; their contexts still count.
    (forgotten,) = connection.execute(_CONTEXT_QUERIES["forgotten"]).fetchone() or (0,)
    if forgotten:
        known = {alert.event_id for alert in alerts}
        alerts += (
            alert
            for alert in _read_archived_alerts(archive, definition, contexts)
            if alert.event_id not in known
        )
        alerts.sort(key=lambda alert: (alert.ts, alert.event_id))
    found = connection.execute(_QUERIES["said"], {"rule": definition.name})
    said = {(eid, past): helps for eid, past, helps in found}
    return JudgedCorpus(
        f"{definition.name} {name}", alerts, kinds, said, asked.gap, asked.measure, asked.k
    )


def _read_archived_alerts(
    archive: StorageRoot, definition: Definition, contexts: Sequence[str]
) -> Iterator[AlertContext]:
    """The corpus of a version, as far as it is archived."""
    if not SequencedTable.exists(archive, CONTEXTS):
        return
    of_version = definition.name, definition.version
    places: dict[str, str] = {}
    if SequencedTable.exists(archive, EVENTS):
        events = SequencedTable(archive, EVENTS).read(*of_version)
        for eid, key in zip(
            events["eid"].to_pylist(), map(orjson.loads, events["key"].to_pylist()), strict=True
        ):
            places[eid] = canonical_json([key.get(column) for column in definition.key])
    rows = SequencedTable(archive, CONTEXTS).read(*of_version)
    for eid, ts, held in zip(
        rows["eid"].to_pylist(), micros_column(rows, "ts").tolist(), rows["contexts"], strict=True
    ):
        bag = count_terms(orjson.loads(held.as_py()), contexts)
        yield AlertContext(eid, definition.name, ts, bag, location=places.get(eid))
