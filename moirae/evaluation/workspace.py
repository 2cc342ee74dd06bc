"""What people have said of a workspace's past events."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from moirae.deployments.registry import Registry
from moirae.errors import UsageError
from moirae.evaluation.judged import Judged, Opinion
from moirae.rules.definition import Definition
from moirae.rules.questions import SimilarRecall
from recall.similarity.index import facts
from recall.similarity.run import Alert

_QUERIES = sql.load("judgements")


def say(connection: Connection[Any], opinion: Opinion) -> None:
    """Keep what somebody says of a hit. Raises `UsageError` where the two are not events of one rule."""
    rules = [
        {row[0] for row in connection.execute(_QUERIES["rule_of"], {"eid": eid})}
        for eid in (opinion.eid, opinion.past_eid)
    ]
    if opinion.eid == opinion.past_eid or not rules[0] & rules[1]:
        raise UsageError(f"{opinion.past_eid} is no past event of the rule of {opinion.eid}")
    connection.execute(_QUERIES["judge"], asdict(opinion))


def judged(connection: Connection[Any], rule: str | None = None) -> Iterator[tuple[Definition, str, Judged]]:
    """For each similarity recall of the applied rules (of those whose name is or ends in `rule`): its definition, its
    name, and the corpus with what is known of it."""
    for definition in Registry(connection).desired():
        if rule is None or definition.name == rule or definition.name.endswith(f"/{rule}"):
            for name, recall in definition.rule.spec.recall.items():
                if isinstance(recall, SimilarRecall):
                    yield definition, name, _judged(connection, definition, name, recall)


def _judged(connection: Connection[Any], definition: Definition, name: str, recall: SimilarRecall) -> Judged:
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
    found = connection.execute(_QUERIES["said"], {"rule": definition.name})
    said = {(eid, past): helps for eid, past, helps in found}
    return Judged(f"{definition.name} {name}", alerts, kinds, said, asked.gap, asked.measure, asked.k)
