"""Whether the recall process starts Spark before a recall asks for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.recall_process import needs_spark
from tests.unit.moirae.inspect.test_explain import WINDOW, WORKSPACE, rule

PLAIN = "SELECT avg(h.cpu) AS mean FROM cpu h WHERE h.host = event.host"
PERCENTILE = "SELECT percentile(h.cpu, 0.5) AS mean FROM cpu h"
SIMILAR = {"similar": {"k": 3}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(tmp_path / "moirae.yaml", {})


@pytest.mark.parametrize(
    ("recall", "engine", "expected"),
    [
        ({"sql": PLAIN}, "auto", False),
        ({"sql": PLAIN}, "spark", True),
        ({"sql": PERCENTILE}, "auto", True),
        (SIMILAR, "spark", False),
    ],
)
def test_spark_is_needed_for_recalls_that_duckdb_cannot_run(
    settings: Settings, recall: dict[str, object], engine: str, expected: bool
) -> None:
    keys = settings.recall.model_copy(update={"engine": engine})
    settings = settings.model_copy(update={"recall": keys})
    assert needs_spark(settings, [rule("A", f"{WINDOW} 80", recall={"r": recall})]) is expected


@pytest.mark.parametrize(
    ("sql", "engine", "expected"),
    [
        ("SELECT r.score FROM r WHERE r.score > 0.5", "auto", False),
        ("SELECT r.score FROM r WHERE r.score > 0.5", "spark", True),
        ("SELECT percentile(r.score, 0.5) AS score FROM r", "auto", True),
    ],
)
def test_spark_is_needed_for_stages_that_duckdb_cannot_run(
    settings: Settings, sql: str, engine: str, expected: bool
) -> None:
    keys = settings.recall.model_copy(update={"engine": engine})
    settings = settings.model_copy(update={"recall": keys})
    definition = rule(
        "A", f"{WINDOW} 80", recall={"r": SIMILAR}, then=[{"stream": "stage", "sql": sql}]
    )
    definition = replace(definition, result_columns={"stage": {"score": "double"}})
    assert needs_spark(settings, [definition]) is expected


def test_disabled_rule_needs_no_spark(settings: Settings) -> None:
    disabled = rule("A", f"{WINDOW} 80", enabled=False, recall={"r": {"sql": PERCENTILE}})
    assert not needs_spark(settings, [disabled])
