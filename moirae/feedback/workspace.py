"""The feedback of a workspace: judgements in the database, and judged corpora."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

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

_QUERIES = sql.load("judgements")
_CONTEXT_QUERIES = sql.load("contexts")


def record_judgement(connection: Connection[Any], judgement: Judgement) -> None:
    """Store a judgement; it replaces an earlier one of the same two events.

    Raises `UsageError` if they are not two events of the same rule.
    """
    rules = _load_rules_of(connection, judgement.eid)
    past_rules = _load_rules_of(connection, judgement.past_eid)
    if judgement.eid == judgement.past_eid or not rules & past_rules:
        raise UsageError(
            f"{judgement.past_eid} is not a past event of the rule of {judgement.eid}:"
            " use an event that `moirae similar` shows"
        )
    connection.execute(_QUERIES["judge"], asdict(judgement))


def _load_rules_of(connection: Connection[Any], eid: UUID) -> set[str]:
    return {name for (name,) in connection.execute(_QUERIES["rule_of"], {"eid": eid})}


def load_judged_corpora(
    connection: Connection[Any], storage: StorageRoot, rule: str | None = None
) -> Iterator[tuple[Definition, str, JudgedCorpus]]:
    """For each similarity recall of the applied rules: definition, recall name, judged corpus.

    `rule`: only of the rules with this name, with or without its group; None: of all.
    """
    for definition in RuleRegistry(connection).desired_rules():
        if rule is not None and not _matches_name(definition, rule):
            continue
        for name, recall in definition.rule.spec.recall.items():
            if isinstance(recall, SimilarRecall):
                corpus = _load_judged_corpus(connection, storage, definition, name, recall)
                yield definition, name, corpus


def _matches_name(definition: Definition, rule: str) -> bool:
    return definition.name == rule or definition.name.endswith(f"/{rule}")


def _load_judged_corpus(
    connection: Connection[Any],
    storage: StorageRoot,
    definition: Definition,
    name: str,
    recall: SimilarRecall,
) -> JudgedCorpus:
    question = recall.similar
    contexts = question.contexts or tuple(definition.rule.spec.context)
    alerts = []
    kinds = {}
    version = {"rule": definition.name, "version": definition.version}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(_QUERIES["corpus"], version):
            alert = AlertContext(
                event_id=row["eid"],
                event_type=definition.name,
                ts=row["ts"],
                term_counts=count_terms(row["contexts"], contexts),
                location=row["fingerprint"],
            )
            alerts.append(alert)
            if row["tag"] is not None:
                kinds[row["eid"]] = row["tag"]
    # The database deletes expired events without feedback. Their archived contexts still count.
    (forgotten,) = connection.execute(_CONTEXT_QUERIES["forgotten"]).fetchone() or (0,)
    if forgotten:
        event_ids = {alert.event_id for alert in alerts}
        for alert in _read_archived_alerts(storage, definition, contexts):
            if alert.event_id not in event_ids:
                alerts.append(alert)
        alerts.sort(key=lambda alert: (alert.ts, alert.event_id))
    judgements = {}
    for eid, past_eid, helps in connection.execute(_QUERIES["said"], {"rule": definition.name}):
        judgements[eid, past_eid] = helps
    return JudgedCorpus(
        name=f"{definition.name} {name}",
        alerts=alerts,
        kinds=kinds,
        judgements=judgements,
        gap=question.gap,
        measure=question.measure,
        k=question.k,
    )


def _read_archived_alerts(
    storage: StorageRoot, definition: Definition, contexts: Sequence[str]
) -> Iterator[AlertContext]:
    """The archived events of a rule version, with their contexts of the given names."""
    if not SequencedTable.exists(storage, CONTEXTS):
        return
    locations = _read_archived_locations(storage, definition)
    rows = SequencedTable(storage, CONTEXTS).read(definition.name, definition.version)
    eids = rows["eid"].to_pylist()
    times = micros_column(rows, "ts").tolist()
    for eid, ts, stored_contexts in zip(eids, times, rows["contexts"], strict=True):
        yield AlertContext(
            event_id=eid,
            event_type=definition.name,
            ts=ts,
            term_counts=count_terms(orjson.loads(stored_contexts.as_py()), contexts),
            location=locations.get(eid),
        )


def _read_archived_locations(storage: StorageRoot, definition: Definition) -> dict[str, str]:
    """The key values of the archived events of a rule version as JSON, by event ID."""
    locations: dict[str, str] = {}
    if SequencedTable.exists(storage, EVENTS):
        events = SequencedTable(storage, EVENTS).read(definition.name, definition.version)
        keys = map(orjson.loads, events["key"].to_pylist())
        for eid, key in zip(events["eid"].to_pylist(), keys, strict=True):
            locations[eid] = canonical_json([key.get(column) for column in definition.key])
    return locations
