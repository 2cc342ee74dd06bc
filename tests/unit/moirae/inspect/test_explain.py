"""How a rule is executed, as `moirae rules explain` shows it."""

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
from sql.archive import SummaryRow

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    source: {files: cpu/*.jsonl}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
"""
SLIDING = "SELECT host, window.end AS ts, avg(cpu) AS cpu"
WINDOW = f"{SLIDING} FROM cpu GROUP BY host, window(ts, '5 minutes') HAVING avg(cpu) > "
START = (
    "SELECT host, window.start AS ts, avg(cpu) AS cpu FROM cpu "
    "GROUP BY host, window(ts, '5 minutes')"
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(tmp_path / "moirae.yaml", {})


def rule(name: str, expr: str, **keys: Any) -> Definition:
    """An applied rule of group `g`."""
    spec = AlertSpec.model_validate({"alert": name, "expr": expr, **keys})
    answers = {recall: {"mean": "double"} for recall in spec.recall}
    return Definition(
        Rule("g", spec), {"host": "string", "cpu": "double"}, ("host",), ("host",), answers
    )


def test_shared_query_names_other_rules_and_constants(settings: Settings) -> None:
    norm = {"sql": "SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host"}
    most = {
        "sql": "SELECT h.host AS other, max(h.cpu) AS mean FROM cpu h "
        "GROUP BY h.host ORDER BY mean DESC LIMIT 3"
    }
    rules = [
        rule("A", f"{WINDOW} 80", **{"for": "10m", "recall": {"norm": norm, "most": most}}),
        rule("B", f"{WINDOW} 95"),
        rule("C", "SELECT host, ts, cpu FROM cpu WHERE cpu > 80"),
    ]
    explanation = explain_rule(settings, rules, "g/A")
    evaluation = explanation["evaluation"]
    assert evaluation["shared_with"] == ["g/B"]
    assert evaluation["constants"] == {"p0": 80.0}
    assert (evaluation["reach"], evaluation["lag"]) == (300.0, 0.0)
    assert evaluation["overlap"] == {"before": 300.0 + 300.0, "after": 600.0 + 300.0}
    assert evaluation["detection"].startswith("when the watermark")
    assert explanation["archived"] == ["stream cpu", "events"]
    assert explanation["recalls"]["norm"]["revisions"] == "update the one row"
    assert "SUM(" in explanation["recalls"]["norm"]["partial"].upper()
    assert explanation["recalls"]["norm"]["engine"] == "recall process or spark"
    assert explanation["recalls"]["most"]["revisions"] == "insert, update and delete rows"


def test_range_of_a_recall_is_described(settings: Settings) -> None:
    sql = "SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host"
    season = {"last": "8w", "same": "hour_of_week", "zone": "Europe/Rome", "around": "30m"}
    ranges: dict[str, Any] = {"week": "8d..7d", "season": season, "plain": "7d"}
    ranges["rush"] = {"since": "07:00", "zone": "Europe/Rome"}
    recalls = {name: {"sql": sql, "range": range_} for name, range_ in ranges.items()}
    plain = rule("A", "SELECT host, ts, cpu FROM cpu WHERE cpu > 80", recall=recalls)
    explained = explain_rule(settings, [plain], "g/A")["recalls"]
    assert explained["week"]["range"] == "from 8d before the event to 7d before it"
    assert explained["season"]["range"] == (
        "from 56d before the event, where the hour of week in Europe/Rome is that of the event or "
        "up to 30m from its time; chunks without such a time are not opened"
    )
    assert explained["rush"]["range"] == "since it was last 07:00 in Europe/Rome"
    assert "range" not in explained["plain"]


@pytest.mark.parametrize(
    ("expr", "keys", "before", "after"),
    [
        # Windows of 5 minutes; an alert lasts 5 minutes after its last event by default.
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
def test_overlap_covers_windows_and_alert_durations(
    settings: Settings, expr: str, keys: dict[str, Any], before: float, after: float
) -> None:
    """What history reads around a chunk: the reach of the query and the duration of alerts."""
    explanation = explain_rule(settings, [rule("A", expr, **keys)], "g/A")
    # A window holds its last row a microsecond before its end.
    assert explanation["evaluation"]["overlap"] == pytest.approx(
        {"before": before, "after": after}, abs=1e-6
    )


def test_derived_stream_of_a_recall_is_archived(settings: Settings) -> None:
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
    definition = Definition(
        Rule("g", spec, (load,)), types, ("host",), ("host",), {"norm": {"mean": "double"}}
    )
    assert explain_rule(settings, [definition], "g/A")["archived"] == [
        "stream cpu",
        "events",
        "derived stream load",
    ]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (
            f"{SLIDING} FROM cpu GROUP BY host, window(ts, '1 hour', '7 minutes')",
            "each merged from 60 panes of 60 s; ",
        ),
        (
            f"SELECT host, ts, cpu FROM ({SLIDING} FROM cpu "
            "GROUP BY host, window(ts, '2 minutes', '1 minute')) AS x",
            "each merged from 2 ",
        ),
        (
            f"{SLIDING} FROM load GROUP BY host, window(ts, '1 hour', '1 minute')",
            "each aggregated from all its rows: it reads another window",
        ),
        (
            f"{SLIDING} FROM cpu JOIN hosts USING (host) "
            "GROUP BY host, window(ts, '1 hour', '1 minute')",
            "each aggregated from all its rows: it joins a relation",
        ),
        (
            f"{SLIDING} FROM load JOIN hosts USING (host) "
            "GROUP BY host, window(ts, '1 hour', '1 minute')",
            "each aggregated from all its rows: it reads another window and joins a relation",
        ),
        (
            f"{SLIDING}, stddev(cpu) AS sd FROM cpu "
            "GROUP BY host, window(ts, '1 hour', '1 minute')",
            "each aggregated from all its rows: evaluated by spark",
        ),
    ],
)
def test_sliding_windows_state_their_aggregation(settings: Settings, expr: str, text: str) -> None:
    load = DerivedQuery("g", "load", f"{WINDOW} 0")
    types = {"host": "string", "cpu": "double"} | ({"sd": "double"} if "sd" in expr else {})
    definition = Definition(
        Rule("g", AlertSpec(alert="A", expr=expr), (load,)), types, ("host",), ("host",)
    )
    evaluation = explain_rule(settings, [definition], "g/A")["evaluation"]
    assert evaluation["windows"].startswith(text)
    assert ("partial" in evaluation and "_panes" in evaluation["merge"]) == text.startswith(
        "each merged"
    )


def test_approximate_aggregates_state_error_bounds(settings: Settings) -> None:
    roughly = {"sql": "SELECT approx_count_distinct(h.host) AS mean FROM cpu h"}
    exactly = {"sql": "SELECT avg(h.cpu) AS mean FROM cpu h"}
    explanation = explain_rule(
        settings,
        [rule("A", f"{WINDOW} 80", recall={"roughly": roughly, "exactly": exactly})],
        "g/A",
    )
    ((text, error),) = explanation["recalls"]["roughly"]["error_bounds"].items()
    assert (text.lower(), error) == (
        "approx_count_distinct(h.host)",
        "1.62% (relative standard error)",
    )
    assert "error_bounds" not in explanation["recalls"]["exactly"]


def test_live_process_evaluates_joins_with_relations(settings: Settings) -> None:
    joined = "SELECT c.host, c.ts, c.cpu FROM cpu c JOIN hosts h ON c.host = h.host"
    explanation = explain_rule(settings, [rule("A", joined)], "g/A")
    assert explanation["evaluation"]["engine"].startswith("live process")
    assert "relation_hosts" in explanation["evaluation"]["query"]
    assert explanation["reads"] == {"streams": ["cpu"], "relations": ["hosts"]}


def test_spark_evaluates_joins_of_streams_with_a_reason(settings: Settings) -> None:
    joined = "SELECT c.host, c.ts, d.cpu FROM cpu c JOIN cpu d ON c.host = d.host AND c.ts = d.ts"
    explanation = explain_rule(settings, [rule("A", joined)], "g/A")
    assert explanation["evaluation"]["engine"] == "spark"
    assert (
        explanation["evaluation"]["reason"] == "not plain: join of a table that is not a relation"
    )


def test_disabled_rule_has_no_engine(settings: Settings) -> None:
    explanation = explain_rule(settings, [rule("A", f"{WINDOW} 80", enabled=False)], "g/A")
    assert explanation["evaluation"]["engine"].startswith("none")


def test_engine_setting_selects_spark(settings: Settings) -> None:
    recall = settings.recall.model_copy(update={"engine": "spark"})
    settings = settings.model_copy(update={"recall": recall})
    explanation = explain_rule(settings, [rule("A", f"{WINDOW} 80")], "g/A")
    assert explanation["evaluation"]["engine"].startswith("spark, or executors")
    assert explanation["evaluation"]["lag"] == 0


def test_context_states_its_row_limit(settings: Settings) -> None:
    query = {"sql": "SELECT c.cpu FROM cpu c WHERE c.host = event.host", "within": "1m"}
    explanation = explain_rule(
        settings, [rule("A", f"{WINDOW} 80", context={"near": query})], "g/A"
    )
    assert explanation["contexts"]["near"]["limit"] == 2_000


def test_keys_without_effect_are_listed(settings: Settings) -> None:
    definition = rule("A", f"{WINDOW} 80")
    definition = replace(definition, rule=replace(definition.rule, interval=timedelta(seconds=10)))
    explanation = explain_rule(settings, [definition], "g/A")
    assert explanation["keys_without_effect"].keys() == {"interval"}
    assert all(
        reason.startswith("not evaluated yet")
        for reason in explanation["keys_without_effect"].values()
    )
    assert "keys_without_effect" not in explain_rule(settings, [rule("A", f"{WINDOW} 80")], "g/A")


def test_stages_are_listed_in_the_order_of_their_evaluation(settings: Settings) -> None:
    norm = {"sql": "SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host"}
    stages = [
        {"stream": "top", "sql": "SELECT max(j.cpu) AS cpu FROM joined j"},
        {
            "stream": "joined",
            "sql": "SELECT n.host, p.cpu FROM norm n JOIN cpu p ON p.host = n.host",
            "within": "1m",
            "analysis": "present",
        },
    ]
    definition = rule(
        "A", f"{WINDOW} 80", recall={"norm": norm}, then=stages, where="norm.mean > 1"
    )
    columns = {
        "norm": {"mean": "double"},
        "joined": {"host": "string", "cpu": "double"},
        "top": {"cpu": "double"},
    }
    explanation = explain_rule(settings, [replace(definition, result_columns=columns)], "g/A")
    assert list(explanation["stages"]) == ["joined", "top"]
    joined, top = explanation["stages"].values()
    assert (joined["analysis"], joined["within"], joined["reads"]) == (
        "present",
        60.0,
        ["norm", "cpu"],
    )
    assert (top["row_key"], top["engine"]) == ([], "recall process")
    assert explanation["where"]["recalls"] == ["norm"]


@pytest.mark.parametrize(
    ("condition", "engine"),
    [("upper(host) LIKE '%DB%'", "rule index"), ("md5(host) <> 'x' AND host LIKE '%db%'", "spark")],
)
def test_rule_in_the_index_shows_what_a_row_must_have(
    settings: Settings, condition: str, engine: str
) -> None:
    filtered = rule("A", f"SELECT host, ts, cpu FROM cpu WHERE {condition}")
    evaluation = explain_rule(settings, [filtered], "g/A")["evaluation"]
    assert evaluation["engine"] == engine
    assert evaluation["necessary"] == "host contains 'db'"


def test_says_which_summary_a_recall_has_or_why_none(settings: Settings) -> None:
    sql = "SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host AND h.cpu > 0"
    recalls = {
        "norm": {"sql": sql},
        "kept": {"sql": sql, "summary": "on"},
        "without": {"sql": sql, "summary": "off"},
        "higher": {"sql": "SELECT count(*) AS mean FROM cpu h WHERE h.cpu > event.cpu"},
    }
    definition = rule("A", "SELECT host, ts, cpu FROM cpu WHERE cpu > 80", recall=recalls)
    explained = explain_rule(settings, [definition], "g/A")["recalls"]
    text = "closed chunks by `host`, of rows with `cpu` > 0; kept "
    assert explained["norm"]["summary"] == f"{text}as long as it saves more than it costs"
    assert explained["kept"]["summary"] == f"{text}whatever it costs"
    assert explained["without"]["summary"] == "none: summary is off"
    assert explained["higher"]["summary"].startswith("none: WHERE names event.cpu")
    lost = SummaryRow(
        key="k",
        stream="cpu",
        definition={"dimensions": ["`host`"], "conditions": ["`cpu` > 0"]},
        bytes=0,
        chunks=1,
        rows=10,
        groups=9,
        asked=0,
        build_seconds=0.0,
        read_seconds=0.0,
        lookup_seconds=0.0,
        loss="10 rows have 9 groups",
    )
    explained = explain_rule(settings, [definition], "g/A", [lost])["recalls"]
    assert explained["norm"]["summary"].endswith("it saves: 10 rows have 9 groups")
