"""Requests of recalls: what is asked of the database for the recalls of rules."""

from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import pytest

from moirae.evaluation.plan import ActiveRule
from moirae.live.recall_requests import RecallRequests
from moirae.live.unsettled_reads import UnsettledReads
from moirae.rules import AlertSpec, Definition
from moirae.rules.rule_set import Rule
from recall.ledger import Ledger
from recall.norms import AlertSpan
from recall.query.parsing import count_parsed_texts
from recall.requests import RecallRequest
from sql.events import ContextGateway, RecallOfVersion, UnrequestedEventRow

Queries = list[tuple[str, bool, bool]]  # recall, needs a context, needs a settled one


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    """The queries for events without tasks; there are none."""
    recorded: Queries = []

    def list_unrequested(
        _gateway: ContextGateway, recall: RecallOfVersion, **options: Any
    ) -> list[UnrequestedEventRow]:
        recorded.append((recall.recall, options["needs"].context, options["needs"].settled))
        return []

    monkeypatch.setattr(ContextGateway, "list_unrequested", list_unrequested)
    return recorded


@pytest.fixture
def requests() -> RecallRequests:
    connection: Any = None
    return RecallRequests(connection, {}, UnsettledReads(connection, {"alerts"}))


def _rule(number: int) -> ActiveRule:
    host = f"h{number}"
    mean = f"SELECT avg(s.v) AS mean FROM s WHERE s.host = '{host}'"
    spec = AlertSpec.model_validate(
        {
            "alert": f"r{number}",
            "expr": f"SELECT ts, host, v FROM s WHERE host = '{host}'",
            "context": {"near": {"sql": "SELECT v FROM s", "within": "1m"}},
            "recall": {
                "norm": {"sql": mean, "range": "1d"},
                "around": {"sql": f"SELECT count(*) AS n FROM s, near WHERE s.v > {number}"},
                "like": {"similar": {"contexts": ["near"], "k": 3}},
            },
        }
    )
    columns = {"near": {"v": "double"}, "norm": {"mean": "double"}, "around": {"n": "bigint"}}
    types = {"host": "string", "v": "double"}
    definition = Definition(Rule("g", spec, ()), types, ("host",), ("host",), columns)
    return ActiveRule.create(definition, {"s": "ts"}, frozenset())


def test_recalls_wait_for_the_context_that_they_read(
    requests: RecallRequests, queries: Queries
) -> None:
    requests.add_missing([_rule(1)], since=None, newest=None, with_context=False)
    assert queries == [("norm", False, False)]
    queries.clear()
    requests.add_missing([_rule(1)], since=None, newest=None, with_context=True)
    assert queries == [("around", True, False), ("like", True, False)]


def test_changed_alerts_parse_no_sql_again(requests: RecallRequests, queries: Queries) -> None:
    rules = [_rule(number) for number in range(40)]
    for _ in range(2):
        requests.add_missing(rules, since=None, newest=None, with_context=False)
    parsed_texts = count_parsed_texts()
    for with_context in (False, True):
        requests.add_missing(rules, since=None, newest=0, with_context=with_context)
    assert len(queries) == 2 * 40 + 40 * 3
    assert count_parsed_texts() == parsed_texts


def test_event_waits_until_earlier_alerts_are_decided(
    requests: RecallRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`where` may still hide an alert whose span a norm leaves out."""
    rows = [
        UnrequestedEventRow(
            UUID(int=number), number, {}, {}, False, None, [[1, 2, False, [1, 2]]], undecided
        )
        for number, undecided in ((1, False), (2, True))
    ]
    added: list[RecallRequest] = []
    monkeypatch.setattr(ContextGateway, "list_unrequested", lambda *_, **__: list(rows))
    monkeypatch.setattr(Ledger, "add", lambda _, new: added.extend(new))
    monkeypatch.setattr(requests, "_connection", MagicMock())
    rule = _rule(1)
    for is_deferred in (True, False):
        assert requests.add_missing([rule], None, None, with_context=False) is False
        assert requests.has_deferred is is_deferred
        assert {request.event.eid for request in added} == {UUID(int=1)}
        assert added[0].event.alerts == (AlertSpan(1, 2, False, (1, 2)),)
        rows.pop()
