"""Events from the rows of their contexts."""

from typing import Any

from recall.similarity.events import count_terms, make_corpus_event


def _make(rows: list[dict[str, str | None]], numeric: dict[str, Any]) -> Any:
    return make_corpus_event(7, "e", 1, {"own": rows, "unused": [{"z": "1"}]}, ["own"], numeric)


def test_terms_are_counted_over_the_rows_of_the_named_contexts() -> None:
    event = _make([{"host": "n1", "user": "a"}, {"host": "n1", "user": None}], {})
    assert event.term_counts == {"host=n1": 2, "user=a": 1}
    assert event.key == (7, "e")


def test_context_without_rows_contributes_nothing() -> None:
    assert count_terms({"own": [{"host": "n1"}]}, ["own", "missing"]) == {"host=n1": 1}


def test_numeric_attributes_are_numbered_by_name() -> None:
    event = _make([{"mem": "1", "cpu": "7.5"}, {"cpu": "8"}], {"mem": None, "cpu": 2.0})
    assert event.numeric_values == {0: [7.5, 8.0], 1: [1.0]}
    assert event.term_counts == {}


def test_value_that_is_not_a_finite_number_becomes_a_term() -> None:
    rows = [{"cpu": "7.5", "n": "x"}, {"cpu": "nan"}, {"cpu": "idle"}, {"cpu": None}]
    event = _make(rows, {"cpu": None})
    assert event.numeric_values == {0: [7.5]}
    assert event.term_counts == {"n=x": 1, "cpu=nan": 1, "cpu=idle": 1}
