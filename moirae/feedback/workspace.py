"""The feedback of a workspace: judgements in the database, and judged corpora."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import orjson

import sql
from archiver.delta.sequenced_table import CONTEXTS, EVENTS, SequencedTable
from archiver.storage import StorageRoot
from archiver.times import micros_column
from moirae.alerts import canonical_json
from moirae.deployments import RuleRegistry
from moirae.errors import NotFound, UsageError
from moirae.feedback.judgements import JudgedCorpus, Judgement
from moirae.rules import Definition, SimilarRecall
from recall.relevance.rankers import AlertContext
from recall.similarity import count_terms
from sql.similarity import CorpusGateway, JudgementGateway


def record_judgement(connection: sql.Connection, judgement: Judgement) -> None:
    """Store a judgement; it replaces an earlier one of the same two events by its author.

    Raises `UsageError` if they are not two events of the same rule.
    """
    gateway = JudgementGateway(connection)
    rules = gateway.list_rules_of_event(judgement.eid)
    past_rules = gateway.list_rules_of_event(judgement.past_eid)
    if judgement.eid == judgement.past_eid or not rules & past_rules:
        raise UsageError(
            f"{judgement.past_eid} is not a past event of the rule of {judgement.eid}:"
            " use an event that `moirae similar` shows"
        )
    gateway.put(judgement.eid, judgement.past_eid, helps=judgement.helps, author=judgement.author)


def withdraw_judgement(
    connection: sql.Connection, eid: UUID, past_eid: UUID, *, author: str
) -> None:
    """Delete the author's judgement of two events. Raises `NotFound` if there is none."""
    if not JudgementGateway(connection).withdraw(eid, past_eid, author=author):
        raise NotFound(
            f"no own judgement of {past_eid} for {eid}: those of other people cannot be withdrawn"
        )


class JudgedRecall(NamedTuple):
    """A similarity recall of a rule and its judged corpus."""

    definition: Definition
    recall: str
    corpus: JudgedCorpus


def load_judged_corpora(
    connection: sql.Connection,
    storage: StorageRoot,
    rule: str | None = None,
    *,
    has_measure: Callable[[str], bool] = lambda _: True,
) -> Iterator[JudgedRecall]:
    """The judged corpus of each similarity recall of the applied rules.

    `rule`: only of the rules with this name, with or without its group; None: of all.
    `has_measure`: only of the recalls whose measure it accepts; other corpora are not loaded.
    """
    for definition in RuleRegistry(connection).rules_with_recalls():
        if rule is not None and not matches_name(definition, rule):
            continue
        for name, recall in definition.recalls.items():
            if isinstance(recall, SimilarRecall) and has_measure(recall.similar.measure):
                corpus = _load_judged_corpus(connection, storage, definition, name, recall)
                yield JudgedRecall(definition, name, corpus)


def matches_name(definition: Definition, rule: str) -> bool:
    """Whether a rule is called `rule`, with or without its group."""
    return definition.name == rule or definition.name.endswith(f"/{rule}")


def _load_judged_corpus(
    connection: sql.Connection,
    storage: StorageRoot,
    definition: Definition,
    name: str,
    recall: SimilarRecall,
) -> JudgedCorpus:
    question = recall.similar
    contexts = question.contexts or tuple(definition.spec.context)
    alerts = []
    kinds = {}
    known_times = {}
    gateway = JudgementGateway(connection)
    for row in gateway.list_tagged_corpus(definition.name, definition.version):
        alert = AlertContext(
            event_id=row.eid,
            event_type=definition.name,
            ts=row.ts,
            term_counts=count_terms(row.contexts, contexts),
            group=row.alert,
            location=row.fingerprint,
        )
        alerts.append(alert)
        if row.tag is not None:
            kinds[row.eid] = row.tag
        if row.tagged_at is not None:
            known_times[row.eid] = row.tagged_at
    # The database deletes expired events without feedback. Their archived contexts still count.
    if CorpusGateway(connection).numbers().deleted_to:
        event_ids = {alert.event_id for alert in alerts}
        for alert in _read_archived_alerts(storage, definition, contexts):
            if alert.event_id not in event_ids:
                alerts.append(alert)
        alerts.sort(key=lambda alert: (alert.ts, alert.event_id))
    judgements = {}
    for judgement in gateway.list_of_rule(definition.name):
        judgements[judgement.eid, judgement.past_eid] = judgement.helps
    return JudgedCorpus(
        name=f"{definition.name} {name}",
        alerts=alerts,
        kinds=kinds,
        known_times=known_times,
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
