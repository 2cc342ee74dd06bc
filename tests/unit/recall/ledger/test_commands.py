"""Targets and effects of operator commands."""

from recall.ledger.commands import Target, _last_finish


def test_target_stores_only_the_fields_that_are_set() -> None:
    assert Target(rule="g/r").to_json() == {"rule": "g/r"}


def test_last_finish_is_unknown_while_a_task_waits_for_feedback() -> None:
    assert _last_finish([1.0, None]) is None
    assert _last_finish([0.0, 1.23456]) == 1.235
    assert _last_finish([]) == 0.0
