"""Questions of ad-hoc queries, prepared without Spark."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moirae.config import Settings, load_settings_from_environment
from moirae.queries.prepare import QueryOptions, _write_out_windows, prepare_query
from recall.query import Unsupported, parse
from recall.requests import SqlQuestion

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double, load: float}
    time: ts
    source: {files: landing/*.jsonl}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
rules: []
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    return load_settings_from_environment(tmp_path / "moirae.yaml")


def no_spark() -> SparkSession:
    raise AssertionError("this needs Spark")


def prepare(settings: Settings, text: str, **options: object) -> SqlQuestion:
    chosen = QueryOptions(**{"limit": 50, **options})  # type: ignore[arg-type]
    return prepare_query(text, settings, [], chosen, no_spark)


def test_plain_rows_get_a_limit_and_named_columns(settings: Settings) -> None:
    question = prepare(settings, "SELECT ts, host, cpu FROM cpu WHERE cpu > 90")
    assert question.sql.endswith("LIMIT 50")
    assert question.streams == {"cpu": "ts"}


def test_smaller_limit_is_kept(settings: Settings) -> None:
    assert prepare(settings, "SELECT host FROM cpu LIMIT 7").sql.endswith("LIMIT 7")
    with pytest.raises(Unsupported, match="set a larger --limit"):
        prepare(settings, "SELECT host FROM cpu LIMIT 70")


def test_end_of_a_window_is_written_out_as_rules_name_it(settings: Settings) -> None:
    text = (
        "SELECT host, window.end AS ts, avg(cpu) AS mean FROM cpu "
        "GROUP BY host, window(ts, '1 hour') HAVING window.start > TIMESTAMP '2026-01-01'"
    )
    query = parse(text)
    assert _write_out_windows(query)
    written = query.sql(dialect="spark")
    assert "WINDOW(ts, '1 hour').end AS ts" in written
    assert "HAVING WINDOW(ts, '1 hour').start" in written
    plain = parse("SELECT host FROM cpu")
    assert not _write_out_windows(plain)


def test_aggregates_get_no_limit(settings: Settings) -> None:
    text = "SELECT host, avg(cpu) AS mean FROM cpu GROUP BY host"
    question = prepare(settings, text, since=timedelta(hours=2), follow=True)
    assert question.sql == text
    assert question.range == 7_200_000_000
    assert question.follow


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT host FROM cpu WHERE host = event.host", "has no event"),
        ("SELECT * FROM cpu JOIN hosts USING (host)", "name the columns"),
        ("SELECT host FROM disk", "must read a stream"),
        ("SELECT host FROM hosts", "must read a stream"),
        ("DROP TABLE cpu", "single SELECT"),
    ],
)
def test_what_cannot_be_read_is_refused(settings: Settings, text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        prepare(settings, text)


def test_alerts_may_be_read_alone(settings: Settings) -> None:
    with pytest.raises(AssertionError, match="needs Spark"):
        prepare(settings, "SELECT rule, count(*) AS n FROM alerts GROUP BY rule")


def test_star_is_replaced_by_the_columns_of_the_stream(settings: Settings) -> None:
    with pytest.raises(AssertionError, match="needs Spark"):  # it has a column of type float
        prepare(settings, "SELECT * FROM cpu")
    with pytest.raises(Unsupported, match="name the columns"):
        prepare(settings, "SELECT *, 1 AS one FROM cpu")


def test_query_that_needs_all_rows_does_not_follow(settings: Settings) -> None:
    text = "SELECT host FROM cpu UNION SELECT host FROM cpu"
    with pytest.raises(Unsupported, match="--follow is not supported: UNION"):
        prepare(settings, text, follow=True)
