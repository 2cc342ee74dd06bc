"""Which engine runs a statement, by the setting and by what DuckDB supports."""

import pytest

from recall.engines.routing.choice import EngineChoice, EngineSetting
from recall.errors import SparkRequired


def _fail() -> str:
    raise SparkRequired("unsupported expression")


@pytest.mark.parametrize(
    ("setting", "engine"), [("auto", "duckdb"), ("local", "duckdb"), ("spark", "spark")]
)
def test_setting_decides_for_what_both_engines_run(setting: EngineSetting, engine: str) -> None:
    assert EngineChoice(setting).run(lambda: "duckdb", lambda: "spark") == engine


def test_spark_runs_what_duckdb_does_not_support() -> None:
    assert EngineChoice("local").run(_fail, lambda: "spark") == "spark"


def test_only_the_setting_auto_measures_costs() -> None:
    assert EngineChoice("auto").measures_costs
    assert not EngineChoice("local").measures_costs
