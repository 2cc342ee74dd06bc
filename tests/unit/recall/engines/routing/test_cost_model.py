"""The cost model decides which engine is faster."""

from hypothesis import given
from hypothesis import strategies as st

from recall.engines.lru_cache import DEFAULT_MAX_ENTRIES
from recall.engines.routing.cost_model import SPARK_START_SECONDS, EngineCosts


@given(
    st.floats(0.001, 0.1), st.floats(0.0005, 0.02), st.floats(0.05, 0.5), st.floats(0.0005, 0.02)
)
def test_faster_engine_is_chosen_after_measurements(
    local_fixed: float, local_rate: float, spark_fixed: float, spark_rate: float
) -> None:
    """Wherever the two are well apart."""
    costs = EngineCosts()
    for megabytes in [0.1, 1.0, 10.0, 50.0, 100.0] * 8:
        costs.model_for("q", "local").update(megabytes, local_fixed + local_rate * megabytes)
        costs.model_for("q", "spark").update(megabytes, spark_fixed + spark_rate * megabytes)
    for megabytes in (0.5, 5.0, 80.0):
        local = local_fixed + local_rate * megabytes
        spark = spark_fixed + spark_rate * megabytes
        if max(local, spark) > 1.2 * min(local, spark):
            expected = "local" if local < spark else "spark"
            assert costs.cheaper_engine("q", megabytes, True) == expected


def test_start_of_spark_is_part_of_its_cost() -> None:
    costs = EngineCosts()
    assert costs.cheaper_engine("q", 300.0, spark_running=True) == "spark"
    assert costs.cheaper_engine("q", 300.0, spark_running=False) == "local"
    costs.model_for("q", "local").update(300.0, 10 * SPARK_START_SECONDS)
    assert costs.cheaper_engine("q", 300.0, spark_running=False) == "spark"


def test_models_of_the_last_used_queries_are_remembered() -> None:
    costs = EngineCosts()
    for question in range(3 * DEFAULT_MAX_ENTRIES):
        costs.model_for(str(question), "local").update(1.0, 5.0)
        costs.model_for(str(question), "spark")
    assert len(costs._models) == 2 * DEFAULT_MAX_ENTRIES
    assert costs.model_for(str(3 * DEFAULT_MAX_ENTRIES - 1), "local").predict_seconds(1.0) > 1.0
    assert costs.model_for("0", "local").predict_seconds(1.0) < 1.0


def test_failed_query_is_excluded_from_shared_scans() -> None:
    costs = EngineCosts()
    costs.exclude_from_shared_scans("q")
    assert costs.is_excluded("q") and not costs.is_excluded("other")
