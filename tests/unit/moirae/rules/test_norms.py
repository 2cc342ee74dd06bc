"""The recall `normal`: its keys, and the question that it is compiled to."""

from typing import Any

import pytest
from pydantic import ValidationError

from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.norms import Norm
from moirae.rules.questions import NormalRecall
from moirae.rules.requests import build_questions
from moirae.rules.rule_set import Rule
from recall.norms import NORM_COLUMNS, NormSpec
from recall.query import Tables
from recall.requests import SqlQuestion, parse_question

WEEKS = 7 * 86_400_000_000
TABLES = Tables({"cpu": "ts", "disk": "ts"}, derived={"load": "SELECT ts, host, cpu FROM cpu"})
KEYS = {"of": "cpu", "by": ["host"]}


def _parse(norm: dict[str, Any], **keys: Any) -> AlertSpec:
    rule = {
        "alert": "A",
        "expr": "SELECT host, ts, cpu FROM cpu",
        "recall": {"usual": {"normal": norm}},
    }
    return AlertSpec.model_validate({**rule, **keys})


def _ask(norm: dict[str, Any], **keys: Any) -> SqlQuestion:
    types = {"host": "string", "cpu": "double"}
    definition = Definition(
        Rule("g", _parse(norm, **keys)), types, ("host",), ("host",), {"usual": dict(NORM_COLUMNS)}
    )
    question = build_questions(definition, TABLES)["usual"]
    assert isinstance(question, SqlQuestion)
    return question


def test_norm_reads_the_rows_of_the_key_in_the_season() -> None:
    question = _ask({**KEYS, "season": "hour_of_week", "zone": "Europe/Rome", "range": "4w"})
    assert question.sql == (
        "SELECT history.`cpu` AS value FROM cpu AS history "
        "WHERE history.`host` = event.`host` AND NOT history.`cpu` IS NULL LIMIT 100000"
    )
    assert question.streams == {"cpu": "ts"}
    assert question.range == 4 * WEEKS
    assert question.season == {"same": "hour_of_week", "zone": "Europe/Rome", "around": None}
    expected = NormSpec("cpu", "hour_of_week", "Europe/Rome", 4 * WEEKS, "alerts", ("host",))
    assert question.norm_spec == expected


@pytest.mark.parametrize("season", ["none", "auto"])
def test_all_times_are_read_where_the_season_is_not_known_before(season: str) -> None:
    question = _ask({**KEYS, "season": season})
    assert (question.season, question.range) == (None, 8 * WEEKS)


def test_question_is_stored_as_it_is_read() -> None:
    question = _ask(KEYS)
    assert parse_question(dict(vars(question))) == question


@pytest.mark.parametrize(
    ("keys", "stream"),
    [
        ({"expr": "SELECT host, ts, cpu FROM load"}, "load"),
        ({"expr": None, "absent": "5m", "stream": "disk", "key": ["host"]}, "disk"),
    ],
)
def test_stream_is_that_of_the_event_query(keys: dict[str, Any], stream: str) -> None:
    recall = _parse(KEYS, **keys).recall["usual"]
    assert isinstance(recall, NormalRecall)
    assert recall.normal.stream == stream


@pytest.mark.parametrize(
    "expr",
    [
        "SELECT a.host, a.ts, a.cpu FROM cpu a JOIN hosts h ON h.host = a.host",
        "SELECT host, ts, cpu FROM events.Other",
        "SELECT",
    ],
)
def test_stream_that_does_not_follow_is_asked_for(expr: str) -> None:
    with pytest.raises(ValidationError) as error:
        _parse(KEYS, expr=expr)
    assert "set stream" in str(error.value.errors()[0]["ctx"])
    recall = _parse({**KEYS, "stream": "cpu"}, expr=expr).recall["usual"]
    assert isinstance(recall, NormalRecall)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"zone": "Mars"}, "unknown time zone 'Mars'"),
        ({"season": "day_of_week"}, "hour_of_week"),
        ({"range": "0s"}, "must be longer than 0s"),
        ({"exclude": "holidays"}, "incidents"),
        ({"range": "4000d"}, "at most 1100d"),
        ({"range": "3w", "season": "hour_of_week"}, "4 cycles are at least 28d"),
    ],
)
def test_keys_are_refused_with_a_reason(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        Norm.model_validate({**KEYS, **keys})
    assert message in str(error.value)


def test_only_one_kind_of_recall_may_be_set() -> None:
    with pytest.raises(ValidationError, match="exactly one of sql, similar and normal"):
        _parse(KEYS, recall={"usual": {"normal": KEYS, "sql": "SELECT 1"}})


def test_names_in_backquotes_stay_names() -> None:
    norm = Norm.model_validate({"of": "CPU load", "by": ["host`s"], "stream": "cpu"})
    assert "history.`CPU load` AS value" in norm.sql
    assert "history.`host``s` = event.`host``s`" in norm.sql


def test_rule_with_a_norm_is_stored_and_read() -> None:
    rule = Rule("g", _parse({**KEYS, "zone": "Europe/Rome"}))
    assert Rule.from_json(rule.to_json()).spec == rule.spec


def test_version_of_a_context_that_reads_a_norm_follows_it() -> None:
    context = {"level": {"sql": "SELECT verdict FROM usual"}}
    versions = {
        Rule("g", _parse({**KEYS, "range": span}, context=context)).version
        for span in ("4w", "8w", "8w")
    }
    assert len(versions) == 2
