"""The screen of `moirae rules why`."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from typer.testing import CliRunner

from moirae.cli import app
from moirae.cli.why import format_explanation
from moirae.errors import UsageError
from moirae.why.explanation import (
    ConditionReport,
    Explanation,
    RouteReport,
    StageReport,
    StreamReport,
    WhereReport,
)

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = AT - timedelta(minutes=5)


def test_false_condition_is_shown_with_its_value() -> None:
    condition = ConditionReport("v > 90", 0, {"v": 88.5}, False)
    explanation = Explanation(
        rule="g/High",
        version="1",
        key={"host": "x"},
        at=AT,
        verdict="none",
        reason="no event in the 5m before: this condition is false",
        reads_from=EARLIER,
        reads_to=AT,
        deciding=["v > 90"],
        streams=[StreamReport("cpu", 5, 1, EARLIER, AT)],
        stages=[StageReport("expr", ["cpu"], 5, [condition])],
    )
    assert format_explanation(asdict(explanation)) == [
        "g/High host=x at 2026-01-01 12:00:00Z: NOT FIRING",
        "  no event in the 5m before: this condition is false",
        "  → v > 90",
        "reads 2026-01-01 11:55:00Z to 2026-01-01 12:00:00Z",
        "  cpu: 5 rows, 1 late left out, newest 2026-01-01 12:00:00Z",
        "expr from cpu",
        "  5 rows",
        "  false v > 90  0 left  v=88.5",
    ]


def test_alert_is_shown_with_history_routes_and_silences() -> None:
    explanation = Explanation(
        rule="g/High",
        version="1",
        key={},
        at=AT,
        verdict="hidden",
        reason="r",
        reads_from=EARLIER,
        reads_to=AT,
        stages=[StageReport("expr", ["cpu"], error="no such function")],
        relations={"hosts": [{"host": "x"}], "sites": []},
        events=[{"ts": AT, "v": 91}],
        starts_at=EARLIER,
        fired_at=AT,
        where=WhereReport("norm.m > 1", False, {"norm": [{"m": 0.5}], "other": []}),
        labels={"alertname": "High"},
        routes=[RouteReport("pager", "0", True)],
        silences=["s1"],
    )
    assert format_explanation(asdict(explanation))[3:] == [
        "  hosts, as valid then: host=x",
        "  sites, as valid then: no row",
        "expr from cpu",
        "  not counted: no such function",
        "events",
        "  2026-01-01 12:00:00Z v=91",
        "alert",
        "  starts 2026-01-01 11:55:00Z, fired 2026-01-01 12:00:00Z",
        "  where norm.m > 1: False",
        "    norm: m=0.5",
        "    other: no row",
        "  goes to pager by 0, muted by its time intervals",
        "  silenced by s1",
    ]


def test_key_that_is_no_pair_is_refused() -> None:
    error = CliRunner().invoke(app, ["rules", "why", "A", "--key", "host"]).exception
    assert isinstance(error, UsageError)
    assert str(error) == "--key: 'host' is not NAME=VALUE, such as host=web-1"
