"""When a query is paused and continued."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from moirae.live.sources.queries.query_pause import QueryPause


def test_query_is_paused_after_a_quiet_time_without_unread_input() -> None:
    pause = QueryPause(0.0)
    assert not pause.update(4.9, lambda: False)
    assert pause.update(5.0, lambda: False)
    assert pause.is_paused


def test_batch_and_unread_input_begin_the_quiet_time_again() -> None:
    pause = QueryPause(0.0)
    pause.record_batch(4.0)
    assert not pause.update(8.9, lambda: False)
    assert not pause.update(9.0, lambda: True)
    assert not pause.update(13.9, lambda: False)
    assert pause.update(14.0, lambda: False)


def test_paused_query_continues_with_input_or_after_the_longest_pause() -> None:
    pause = QueryPause(0.0)
    assert pause.update(5.0, lambda: False)
    assert not pause.update(6.0, lambda: False)
    assert pause.update(7.0, lambda: True)
    assert not pause.is_paused
    assert not pause.update(11.0, lambda: False)
    assert pause.update(12.0, lambda: False)
    assert not pause.update(311.0, lambda: False)
    assert pause.update(312.0, lambda: False)
    assert not pause.is_paused


@given(st.lists(st.tuples(st.floats(0.0, 400.0), st.booleans(), st.booleans()), max_size=40))
def test_query_with_unread_input_always_runs_after_an_update(
    steps: Sequence[tuple[float, bool, bool]],
) -> None:
    now = 0.0
    pause = QueryPause(now)
    for seconds, has_batch, has_unread in steps:
        now += seconds
        if has_batch and not pause.is_paused:
            pause.record_batch(now)
        was_paused = pause.is_paused
        must_change = pause.update(now, lambda has_unread=has_unread: has_unread)
        assert must_change == (pause.is_paused != was_paused)
        if has_unread:
            assert not pause.is_paused
