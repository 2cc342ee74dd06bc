"""Which rules are evaluated over closed keys, and which of their events are complete."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from archiver.ingest import ArchiveWriter
from moirae.alerts import EventRow
from moirae.evaluation.plan import ActiveRule, RuleCohort
from moirae.live.closed_keys import ClosedWindows
from moirae.rules import AlertSpec, Definition, Rule
from moirae.rules.rule_set import DerivedQuery

COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "v": "double"}
SCHEMA = SimpleNamespace(query_columns=COLUMNS, key=("host", "n"))
ARCHIVE = cast(ArchiveWriter, SimpleNamespace(tables={"a": SimpleNamespace(schema=SCHEMA)}))
WINDOW = (
    "SELECT host, n, window.end AS ts, sum(v) AS v FROM a GROUP BY host, n, window(ts, '1 minute')"
)
MINUTE = 60_000_000
CLOSED = {"a": {("h", "1"): 2 * MINUTE, ("h", None): MINUTE}}


def rule(expr: str, *key: str, **derived: str) -> ActiveRule:
    spec = AlertSpec.model_validate({"alert": "r", "expr": expr})
    queries = tuple(DerivedQuery("g", name, sql) for name, sql in derived.items())
    types = {name: COLUMNS[name] for name in key}
    definition = Definition(Rule(group="g", spec=spec, derived=queries), types, key, key)
    return ActiveRule.create(definition, {"a": "ts"}, frozenset())


def find(active: ActiveRule) -> list[Any]:
    cohort = RuleCohort(active.shape, 0, (active,))
    return ClosedWindows(ARCHIVE).find_slices([cohort], {"a": 0}, CLOSED)


def test_windows_are_evaluated_up_to_the_latest_closed_time() -> None:
    active = rule(WINDOW, "host", "n")
    (found,) = find(active)
    assert (found.rules, found.range.end) == ((active,), 2 * MINUTE + 1)


@pytest.mark.parametrize(
    ("expr", "key"),
    [
        ("SELECT host, n, ts, v FROM a", ("host", "n")),
        (WINDOW, ("host",)),
        (WINDOW.replace("SELECT host,", "SELECT lower(host) AS host,"), ("host", "n")),
        (f"{WINDOW} UNION ALL {WINDOW}", ("host", "n")),
    ],
)
def test_events_that_follow_from_other_keys_wait_for_the_watermark(
    expr: str, key: tuple[str, ...]
) -> None:
    assert find(rule(expr, *key)) == []


def test_derived_streams_are_followed() -> None:
    outer = WINDOW.replace("FROM a", "FROM sums")
    assert len(find(rule(outer, "host", "n", sums=WINDOW))) == 1
    joined = "SELECT x.host, x.n, x.ts, x.v FROM a x JOIN a y ON x.v = y.v AND x.ts = y.ts"
    assert find(rule(outer, "host", "n", sums=joined)) == []


def test_only_events_of_closed_keys_before_their_time_are_complete() -> None:
    rows = [
        EventRow(ts, {"host": "h", "n": n, "v": 1.0})
        for ts in (MINUTE, 2 * MINUTE, 3 * MINUTE)
        for n in (1, 2, None)
    ]
    windows = ClosedWindows(ARCHIVE)
    selected = windows.select_rows(rule(WINDOW, "host", "n"), rows, CLOSED)
    found = [(row.ts // MINUTE, row.attributes["n"]) for row in selected]
    assert found == [(1, 1), (1, None), (2, 1)]
