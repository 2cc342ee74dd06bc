"""Which engine runs a statement, by the setting and by what DuckDB supports."""

import pytest

from recall.engines.routing.choice import EngineChoice, EngineSetting, run_each
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


def test_each_item_runs_in_duckdb_or_is_left_to_spark() -> None:
    def divide(divisor: int) -> float:
        if divisor == 0:
            raise SparkRequired("division by zero")
        return 6 / divisor

    assert run_each([1, 0, 2], divide) == ([(1, 6.0), (2, 3.0)], [0])
