"""Metrics of the live process."""

from moirae.live.metrics import BatchFigures, LiveMetrics


def test_time_of_evaluations_is_added_up_by_rule() -> None:
    metrics = LiveMetrics()
    metrics.record_evaluation({"g/a": 1.5, "g/b": 1.5})
    metrics.record_evaluation({"g/a": 1.0})

    def seconds(rule: str) -> float | None:
        name = "moirae_rule_evaluation_seconds_total"
        return metrics.registry.get_sample_value(name, {"rule": rule})

    assert (seconds("g/a"), seconds("g/b")) == (2.5, 1.5)


def test_the_rules_with_most_time_have_series_of_their_own() -> None:
    metrics = LiveMetrics()
    for number in range(1_000):
        metrics.record_evaluation({f"g/r{number}": float(number)})
    name = "moirae_rule_evaluation_seconds_total"
    assert metrics.registry.get_sample_value(name, {"rule": "g/r999"}) == 999.0
    assert metrics.registry.get_sample_value(name, {"rule": "g/r800"}) == 800.0
    assert metrics.registry.get_sample_value(name, {"rule": "g/r799"}) is None
    assert metrics.registry.get_sample_value("moirae_rules_evaluation_seconds_total") == 499_500.0


def test_batches_are_counted_by_engine_with_their_rows_and_latencies() -> None:
    metrics = LiveMetrics()
    metrics.record_batch(BatchFigures("local", 5, 0.2, [0.3, -0.1]))
    metrics.record_batch(BatchFigures("spark", 7, 0.3))
    metrics.record_batch(BatchFigures("spark", 0, 0.1))
    value = metrics.registry.get_sample_value
    assert value("moirae_live_batches_total", {"engine": "local"}) == 1
    assert value("moirae_live_batches_total", {"engine": "spark"}) == 2
    assert value("moirae_live_rows_total", {"engine": "spark"}) == 7
    assert value("moirae_live_batch_seconds_count", {"engine": "spark"}) == 2
    assert value("moirae_live_batch_rows") == 0
    assert value("moirae_live_latency_seconds_count") == 2
