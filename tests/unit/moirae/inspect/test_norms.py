"""Answers of recalls as series."""

from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from moirae.inspect.norms import make_norm_metrics
from sql.reports import LastKeyAnswerRow

_COVERAGE = {"read": 3, "left": 1, "failed": 0, "final": False}


def _row(**changes: Any) -> LastKeyAnswerRow:
    values: dict[str, Any] = {
        "rule": "g/r",
        "key": {"host": "a"},
        "state": "firing",
        "recall": "norm",
        "kind": "sql",
        "answer": [],
        "coverage": None,
        "comparable": None,
        "starts_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return LastKeyAnswerRow(**values | changes)


def _expose(*rows: LastKeyAnswerRow) -> list[str]:
    """The lines of series."""
    registry = CollectorRegistry()

    class _Collected:
        def collect(self) -> Any:
            return iter(make_norm_metrics(rows))

    registry.register(_Collected())  # type: ignore[arg-type]
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_numbers_of_an_answer_are_series() -> None:
    answer = [{"host": "a", "slice": "s", "mean": 1.5, "n": 7, "rare": None, "ok": True}]
    assert _expose(_row(answer=answer, coverage=_COVERAGE)) == [
        'moirae_norm{column="mean",host="a",recall="norm",rule="g/r",slice="s"} 1.5',
        'moirae_norm{column="n",host="a",recall="norm",rule="g/r",slice="s"} 7.0',
        'moirae_answer_coverage_ratio{host="a",recall="norm",rule="g/r"} 0.75',
        'moirae_answer_final{host="a",recall="norm",rule="g/r"} 0.0',
    ]


def test_values_of_the_alert_are_series() -> None:
    event = _row(kind="event", recall=None, state="resolved", answer=[{"host": "a", "cpu": 91.5}])
    assert _expose(event) == [
        'moirae_alert_firing{host="a",rule="g/r"} 0.0',
        'moirae_alert_value{column="cpu",host="a",rule="g/r"} 91.5',
    ]


def test_best_similar_event_is_a_series() -> None:
    similar = _row(kind="similar", recall="similar", answer=[{"score": 0.75}, {"score": 0.5}])
    assert _expose(similar, _row(kind="similar", answer=[])) == [
        'moirae_similar_best_score{host="a",recall="similar",rule="g/r"} 0.75'
    ]


def test_equal_labels_have_one_series_of_the_newest_alert() -> None:
    rows = [_row(answer=[{"mean": value}]) for value in (1.0, 2.0)]
    assert _expose(*rows) == ['moirae_norm{column="mean",host="a",recall="norm",rule="g/r"} 1.0']


def test_names_of_columns_become_names_of_labels() -> None:
    key = {"rule": "x", "a.b": 1, "9": "y", "ü": "z", "empty": None, "__name__": "n"}
    (line,) = _expose(_row(key=key, answer=[{"mean": 1}]))
    assert line.startswith('moirae_norm{_="z",a_b="1",column="mean",key_9="y",key_name__="n",')
    assert 'key_rule="x"' in line and 'rule="g/r"' in line and "empty" not in line
