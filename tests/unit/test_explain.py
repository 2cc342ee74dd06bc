"""What is said about how a rule runs."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.inspect.explain import explain_rule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import DerivedQuery, Rule

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    source: {files: cpu/*.jsonl}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
"""
WINDOW = "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu GROUP BY host, window(ts, '5 minutes') HAVING avg(cpu) > "
START = "SELECT host, window.start AS ts, avg(cpu) AS cpu FROM cpu GROUP BY host, window(ts, '5 minutes')"
SLIDING = "SELECT host, window.end AS ts, avg(cpu) AS cpu"


@pytest.fixture
def place(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(tmp_path / "moirae.yaml", {})


def rule(name: str, expr: str, **keys: Any) -> Definition:
    """A rule as applied."""
    spec = AlertSpec.model_validate({"alert": name, "expr": expr, **keys})
    answers = {recall: {"mean": "double"} for recall in spec.recall}
    return Definition(
        Rule("g", spec), {"host": "string", "cpu": "double"}, ("host",), ("host",), answers
    )


def test_a_shared_rule_names_its_fellows_and_its_constants(place: Settings) -> None:
    norm = {"sql": "SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host"}
    most = {
        "sql": "SELECT h.host AS other, max(h.cpu) AS mean FROM cpu h GROUP BY h.host ORDER BY mean DESC LIMIT 3"
    }
    rules = [
        rule("A", f"{WINDOW} 80", **{"for": "10m", "recall": {"norm": norm, "most": most}}),
        rule("B", f"{WINDOW} 95"),
        rule("C", "SELECT host, ts, cpu FROM cpu WHERE cpu > 80"),
    ]
    found = explain_rule(place, rules, "g/A")
    judged = found["judged"]
    assert judged["shared_with"] == ["g/B"]
    assert judged["constants"] == {"p0": 80.0}
    assert judged["reach"] == 300.0
    assert judged["overlap"] == {"before": 300.0 + 300.0, "after": 600.0 + 300.0}
    assert judged["told"].startswith("when the watermark")
    assert found["archived"] == ["stream cpu", "its events"]
    assert found["recalls"]["norm"]["revisions"] == "update the one row"
    assert "SUM(" in found["recalls"]["norm"]["partial"].upper()
    assert found["recalls"]["norm"]["engine"] == "the recall process itself, or spark"
    assert found["recalls"]["most"]["revisions"] == "insert, update and delete rows"


@pytest.mark.parametrize(
    ("expr", "keys", "before", "after"),
    [
        # Windows of 5 minutes; an alert goes on for 5 minutes by default.
        (f"{WINDOW} 80", {}, 300.0 + 300.0, 0.0),
        (f"{WINDOW} 80", {"keep_firing_for": "1m", "delay": "7m"}, 300.0 + 60.0, 0.0),
        (
            f"{WINDOW} 80",
            {"for": "10m", "recall_on": "every"},
            300.0 + 300.0 + 600.0,
            600.0 + 300.0,
        ),
        (START, {"for": "2m"}, 300.0 + 300.0, 300.0 + 120.0 + 300.0),
    ],
)
def test_a_piece_of_history_is_decided_by_as_much_beside_it(
    place: Settings, expr: str, keys: dict[str, Any], before: float, after: float
) -> None:
    """What `moirae.history` reads: how far the query reaches, and how far alerts do."""
    found = explain_rule(place, [rule("A", expr, **keys)], "g/A")
    # A window holds its last row a microsecond before its end.
    assert found["judged"]["overlap"] == pytest.approx({"before": before, "after": after}, abs=1e-6)


def test_what_a_recall_reads_is_archived_unasked(place: Settings) -> None:
    load = DerivedQuery("g", "load", f"{WINDOW} 0")
    spec = AlertSpec.model_validate(
        {
            "alert": "A",
            "expr": "SELECT host, ts, cpu FROM cpu WHERE cpu > 80",
            "recall": {
                "norm": {"sql": "SELECT avg(l.cpu) AS mean FROM load l WHERE l.host = event.host"}
            },
        }
    )
    types = {"host": "string", "cpu": "double"}
    one = Definition(
        Rule("g", spec, (load,)), types, ("host",), ("host",), {"norm": {"mean": "double"}}
    )
    assert explain_rule(place, [one], "g/A")["archived"] == [
        "stream cpu",
        "its events",
        "derived stream load",
    ]


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (
            f"{SLIDING} FROM cpu GROUP BY host, window(ts, '1 hour', '7 minutes')",
            "each merged of 60 panes of 60 s, ",
        ),
        (
            f"SELECT host, ts, cpu FROM ({SLIDING} FROM cpu GROUP BY host, window(ts, '2 "
            f"minutes', '1 minute')) AS x",
            "each merged of 2 ",
        ),
        (
            f"{SLIDING} FROM load GROUP BY host, window(ts, '1 hour', '1 minute')",
            "aggregated whole at each slide: one ",
        ),
        (
            f"{SLIDING}, stddev(cpu) AS sd FROM cpu GROUP BY host, window(ts, '1 hour', '1 "
            f"minute')",
            "aggregated whole at each slide: s",
        ),
    ],
)
def test_windows_that_slide_are_told(place: Settings, expr: str, said: str) -> None:
    load = DerivedQuery("g", "load", f"{WINDOW} 0")
    types = {"host": "string", "cpu": "double"} | ({"sd": "double"} if "sd" in expr else {})
    one = Definition(
        Rule("g", AlertSpec(alert="A", expr=expr), (load,)), types, ("host",), ("host",)
    )
    judged = explain_rule(place, [one], "g/A")["judged"]
    assert judged["windows"].startswith(said)
    assert ("partial" in judged and "_panes" in judged["merge"]) == said.startswith("each")


def test_a_recall_tells_how_far_its_sketches_may_be_off(place: Settings) -> None:
    roughly = {"sql": "SELECT approx_count_distinct(h.host) AS mean FROM cpu h"}
    exactly = {"sql": "SELECT avg(h.cpu) AS mean FROM cpu h"}
    found = explain_rule(
        place, [rule("A", f"{WINDOW} 80", recall={"roughly": roughly, "exactly": exactly})], "g/A"
    )
    ((text, error),) = found["recalls"]["roughly"]["errors"].items()
    assert (text.lower(), error) == (
        "approx_count_distinct(h.host)",
        "1.62% (relative standard error)",
    )
    assert "errors" not in found["recalls"]["exactly"]


def test_what_is_not_plain_is_sparks_with_a_reason(place: Settings) -> None:
    joined = "SELECT c.host, c.ts, c.cpu FROM cpu c JOIN hosts h ON c.host = h.host"
    found = explain_rule(place, [rule("A", joined)], "g/A")
    assert found["judged"]["by"] == "spark"
    assert found["judged"]["because"].startswith("not plain: ")
    assert found["reads"] == {"streams": ["cpu"], "relations": ["hosts"]}


def test_a_rule_that_is_not_enabled_is_judged_by_nobody(place: Settings) -> None:
    found = explain_rule(place, [rule("A", f"{WINDOW} 80", enabled=False)], "g/A")
    assert found["judged"]["by"].startswith("nobody")


def test_a_workspace_may_leave_all_to_spark(place: Settings) -> None:
    recall = place.recall.model_copy(update={"engine": "spark"})
    settings = place.model_copy(update={"recall": recall})
    found = explain_rule(settings, [rule("A", f"{WINDOW} 80")], "g/A")
    assert found["judged"]["by"] == "spark"
    assert timedelta(seconds=found["judged"]["lag"]) < timedelta(0)


def test_a_context_tells_the_limit_of_its_rows(place: Settings) -> None:
    query = {"sql": "SELECT c.cpu FROM cpu c WHERE c.host = event.host", "within": "1m"}
    found = explain_rule(place, [rule("A", f"{WINDOW} 80", context={"near": query})], "g/A")
    assert found["contexts"]["near"]["limit"] == 2_000


def test_keys_without_an_effect_are_told(place: Settings) -> None:
    stage = {"stream": "live", "sql": "SELECT 1", "within": "1m"}
    one = rule("A", f"{WINDOW} 80", then=[stage])
    one = replace(one, rule=replace(one.rule, interval=timedelta(seconds=10)))
    found = explain_rule(place, [one], "g/A")
    assert found["without_effect"].keys() == {"interval", "then"}
    assert all(
        reason.startswith("not evaluated yet") for reason in found["without_effect"].values()
    )
    assert "live" not in str(
        {key: value for key, value in found.items() if key != "without_effect"}
    )
    assert "without_effect" not in explain_rule(place, [rule("A", f"{WINDOW} 80")], "g/A")
