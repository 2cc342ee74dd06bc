"""Input of rule tests as tables."""

from pathlib import Path
from typing import Any

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.documents import parse_document, validate
from moirae.errors import ProblemsError
from moirae.rule_tests.input_batches import InputReader, RuleTestInput
from moirae.rule_tests.inputs import RuleTestOrigin
from moirae.rule_tests.model import RuleTestFile
from recall.query import sql_names

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: {type: double, from: system.cpu}}
    time: ts
    source: {files: cpu/*.jsonl}
relations:
  hosts:
    columns: {host: string, site: string, since: timestamp}
    key: [host]
    valid_from: since
    source: {file: hosts.csv}
"""
START = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(tmp_path / "moirae.yaml", {})


def read(settings: Settings, folder: Path, content: str) -> RuleTestInput:
    text = (
        f"tests:\n- name: one\n  start_timestamp: {START}\n{content}\n"
        "  alert_rule_test: [{eval_time: 1m, alertname: A}]\n"
    )
    document, problems = parse_document(str(folder / "t.yaml"), text, empty_message="empty")
    assert document is not None
    file, more_problems = validate(RuleTestFile, document)
    assert file is not None, (problems, more_problems)
    tests = [(file.tests[0], RuleTestOrigin(document, ("tests", 0)))]
    (batch,) = InputReader(settings).read(tests)
    (test_input,) = batch.inputs
    if test_input.problems:
        raise ProblemsError(test_input.problems)
    return test_input


def list_rows(table: Any) -> list[tuple[Any, ...]]:
    return [
        (row["ts"].strftime("%H:%M:%S"), row["host"], row["cpu"], row["_extra"])
        for row in table.to_pylist()
    ]


def test_rows_series_and_files_become_rows_of_a_stream(settings: Settings, tmp_path: Path) -> None:
    line = '{"ts": "2026-01-01T03:00:00Z", "host": "c", "system": {"cpu": 3}}\n'
    (tmp_path / "rows.jsonl").write_text(line)
    content = """
  input:
    cpu:
    - {ts: 90s, host: a, cpu: 1, _extra: {rack: 7}}
    - series: {host: b}
      values: {cpu: 1 _ 3+1x1}
    - {file: rows.jsonl}
"""
    rows = read(settings, tmp_path, content).rows["cpu"]
    assert sorted(list_rows(rows)) == [
        ("00:00:00", "b", 1.0, None),
        ("00:01:30", "a", 1.0, '{"rack":7}'),
        ("00:02:00", "b", 3.0, None),
        ("00:03:00", "b", 4.0, None),
        ("03:00:00", "c", 3.0, None),
    ]


def test_rows_of_relations_are_valid_until_the_next_of_their_key(
    settings: Settings, tmp_path: Path
) -> None:
    content = """
  relations:
    hosts:
    - {host: a, site: x, since: 1h}
    - {host: a, site: y, since: 2h}
"""
    versions = read(settings, tmp_path, content).relations["hosts"].to_pylist()
    spans = [
        (row["site"], row[sql_names.VALID_FROM].hour, row[sql_names.VALID_TO].year)
        for row in versions
    ]
    assert spans == [("x", 1, 2026), ("y", 2, 9999)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("  input: {gpu: []}", "4:16: unknown stream; streams are cpu"),
        ("  input: {cpu: [{ts: 1m, hots: a}]}", "4:17: cpu has no column 'hots'"),
        ("  input: {cpu: [{host: a}]}", "4:17: column ts: event time is missing"),
        ("  input: {cpu: [{ts: soon}]}", "4:17: column ts: "),
        ("  input: {cpu: [{series: {}, values: {cpu: stale}}]}", "4:44: cpu: rows do not become"),
        ("  input: {cpu: [{file: no.jsonl}]}", "no.jsonl: no such file"),
        ("  input: {cpu: [{series: {ts: 1m}, values: {cpu: 1}}]}", "4:17: ts of a series follows"),
        ("  input: {cpu: [{series: {}, values: {ts: 1}}]}", "4:17: ts of a series follows"),
        ("  input: {cpu: [{series: {cpu: 1}, values: {cpu: 1}}]}", "4:17: cpu is in `series` and"),
        ("  relations: {hosts: [{host: a}]}", "4:23: column since: event time is missing"),
        (
            "  relations: {hosts: [{host: a, since: 1h}, {host: a, since: 1h}]}",
            "4:45: duplicate host, since, first in row 1",
        ),
        ("  relations: {racks: []}", "unknown relation; relations are hosts"),
    ],
)
def test_invalid_input_is_refused_with_its_place(
    settings: Settings, tmp_path: Path, content: str, problem: str
) -> None:
    with pytest.raises(ProblemsError) as caught:
        read(settings, tmp_path, content)
    assert problem in str(caught.value)
    assert "t.yaml:4:" in str(caught.value)
