"""Back-tests over files in place of the archive, and late rows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.delta import StreamTable, add_archive_columns, fingerprint
from archiver.read.reader import Reader
from archiver.times import duration_to_micros, to_micros
from moirae.backtest.files import open_files
from moirae.backtest.reports.late_rows import LateRowFinder
from moirae.backtest.reports.row_intervals import find_row_interval
from moirae.backtest.rule_changes import REMOVED, ChangePlanner
from moirae.backtest.run import Backtest, plan_backtest
from moirae.config.settings import Settings, load_settings
from moirae.config.table_schemas import stream_schema
from moirae.errors import ProblemsError, UsageError
from moirae.evaluation.plan import ActiveRule
from moirae.rules.checks.check import check_rules
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    key: [host]
    source: {files: cpu/*.jsonl}
"""
RULES = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT host, ts, v FROM cpu WHERE v > 90
    key: [host]
    keep_firing_for: 2m
    recall: {norm: {sql: SELECT avg(h.v) AS mean FROM cpu h, range: 1h}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(tmp_path / "moirae.yaml", {})


@pytest.mark.slow
def test_files_are_evaluated_to_their_end(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    rules, problems = parse_rules("r.yaml", RULES)
    assert not problems
    (definition,), _ = check_rules(lambda: spark, settings, rules)
    rule = ActiveRule.of_workspace(definition, settings)
    lines = [
        {"ts": (START + timedelta(minutes=minute)).isoformat(), "host": "a", "v": value}
        for minute, value in enumerate([10, 95, 96, 10, 10, 10, 97])
    ]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:4]))
    (tmp_path / "two.csv").write_text(
        "ts,host,v\n" + "".join(f"{line['ts']},a,{line['v']}\n" for line in lines[4:])
    )
    files = {"cpu": [tmp_path / "one.jsonl", tmp_path / "two.csv"]}
    archive = open_files(settings, {}.__getitem__, spark, files, tmp_path / "archive")
    planned = plan_backtest(rule, archive, lambda newest: 0, None)
    assert planned is not None
    test = Backtest(rule, archive, planned)
    list(test.evaluate())
    minute = timedelta(minutes=1)
    assert [(alert.starts_at, alert.ends_at, alert.events) for alert in test.list_alerts()] == [
        (START + minute, START + 4 * minute, 2),
        (START + 6 * minute, START + 8 * minute, 1),
    ]
    newest = archive.newest["cpu"]
    assert find_row_interval(archive.reader, "cpu", newest) == minute
    (tmp_path / "bad.jsonl").write_text('{"ts": "soon"}\n')
    with pytest.raises(ProblemsError, match=r"bad\.jsonl:1: "):
        open_files(
            settings, {}.__getitem__, spark, {"cpu": [tmp_path / "bad.jsonl"]}, tmp_path / "b"
        )
    with pytest.raises(UsageError, match=r"no stream 'mem' in .*; streams are cpu"):
        open_files(settings, {}.__getitem__, spark, {"mem": []}, tmp_path / "c")


def test_late_rows_in_the_history_of_a_recall_are_counted(
    settings: Settings, tmp_path: Path
) -> None:
    rules, _ = parse_rules("r.yaml", RULES)
    definition = Definition(rules.rules[0], {"host": "string", "v": "double"}, ("host",), ("host",))
    rule = ActiveRule.of_workspace(definition, settings)
    schema = stream_schema("cpu", settings.streams["cpu"])
    minutes = [0, 10, 50, 90]
    rows = pa.table(
        {
            "ts": [START + timedelta(minutes=minute) for minute in minutes],
            "host": ["a"] * 4,
            "v": [1.0] * 4,
            "_extra": [None] * 4,
        },
        schema=schema.arrow_schema().empty_table().select(["ts", "host", "v", "_extra"]).schema,
    )
    ids, hashes = fingerprint(schema, rows, [str(minute).encode() for minute in minutes])
    late = np.array([True, False, True, False])
    archived = add_archive_columns(
        rows,
        ids,
        hashes,
        late,
        units=np.ones(4, np.int64),
        line_numbers=np.arange(4),
        chunk_ids=np.zeros(4, np.int64),
    )
    StreamTable(tmp_path / "archive", schema).append(archived, 1)
    reader = Reader(tmp_path / "archive", [schema])
    start, minute = to_micros(START), duration_to_micros(timedelta(minutes=1))
    times = [start, start + 20 * minute, start + 60 * minute, start + 61 * minute]
    assert LateRowFinder(reader).find(rule, times) == {
        times[1]: {"norm": 1},
        times[2]: {"norm": 2},
        times[3]: {"norm": 1},
    }


@pytest.mark.slow
def test_rules_with_another_version_are_compared_over_the_range_of_both(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    def load(text: str) -> dict[str, ActiveRule]:
        rules, problems = parse_rules("r.yaml", text)
        assert not problems
        definitions, _ = check_rules(lambda: spark, settings, rules)
        return {rule.name: ActiveRule.of_workspace(rule, settings) for rule in definitions}

    lines = [
        {"ts": (START + timedelta(minutes=minute)).isoformat(), "host": "a", "v": value}
        for minute, value in enumerate([10, 95, 10, 10, 10, 85, 10, 10, 10])
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = {"cpu": [tmp_path / "a.jsonl"]}
    archive = open_files(settings, {}.__getitem__, spark, files, tmp_path / "archive")
    same = "  - {alert: Same, expr: 'SELECT host, ts FROM cpu WHERE v > 90', key: [host]}\n"
    before = load(RULES + same)
    after = load(RULES.replace("v > 90", "v > 80") + same + same.replace("Same", "New"))
    planner = ChangePlanner(archive, lambda newest: 0)
    changed, new = planner.plan_changes(list(after.values()), before)
    for change in (changed, new):
        assert change.share_done() == 0.0
        list(change.evaluate())
        assert (change.share_done(), change.error) == (1.0, None)
    assert changed.before == before["g/High"]
    difference = changed.compare(changed.fold_alerts())
    assert [alert.starts_at for alert in difference.list_new()] == [START + timedelta(minutes=5)]
    assert (difference.unchanged, difference.list_gone()) == (1, [])
    assert (new.rule.name, new.before, len(new.fold_alerts().list_all())) == ("g/New", None, 1)
    assert new.compare(new.fold_alerts()).list_new() == new.fold_alerts().list_all()
    (removed,) = planner.plan_changes([before["g/High"]], before)
    assert (removed.rule.name, removed.problem) == ("g/Same", REMOVED)
    assert list(removed.evaluate()) == []
