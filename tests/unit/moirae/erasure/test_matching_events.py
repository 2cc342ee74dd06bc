"""An event belongs to a row of its time whose columns it has."""

from moirae.erasure.matching_events import is_event_of

ROWS = [{"host": "web1", "user": "alice", "n": "7"}]


def test_event_with_the_columns_of_a_row_is_of_it() -> None:
    assert is_event_of(ROWS, {"host": "web1"}, {"n": 7, "total": 12})


def test_event_with_another_value_is_not() -> None:
    assert not is_event_of(ROWS, {"host": "web2"}, {"n": 7})
    assert not is_event_of(ROWS, {"host": "web1"}, {"n": 8})


def test_key_that_the_row_does_not_have_belongs_to_another_stream() -> None:
    assert not is_event_of(ROWS, {"host": "web1", "disk": "sda"}, {})


def test_event_without_key_needs_a_common_attribute() -> None:
    assert is_event_of(ROWS, {}, {"user": "alice"})
    assert not is_event_of(ROWS, {}, {"mean": 3.5})
