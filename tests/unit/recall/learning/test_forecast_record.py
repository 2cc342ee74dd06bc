"""Intervals of probabilities from the episodes whose forecasts were similar."""

from recall.learning.forecast_record import ForecastRecord


def test_interval_is_wide_without_similar_forecasts_and_narrow_with_many() -> None:
    record = ForecastRecord()
    assert record.interval(0.8)[1] - record.interval(0.8)[0] > 0.9
    widths = []
    for _ in range(3):
        for _ in range(30):
            record.add(0.8)
        low, high = record.interval(0.8)
        assert low < 0.8 < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.2


def test_forecasts_of_another_kind_say_little() -> None:
    record = ForecastRecord([0.95] * 100)
    low, high = record.interval(0.1)
    assert high - low > 0.5


def test_restored_record_has_the_same_intervals() -> None:
    record = ForecastRecord()
    for probability in (0.2, 0.5, 0.9):
        record.add(probability)
    assert ForecastRecord(record.to_array()).interval(0.4) == record.interval(0.4)
