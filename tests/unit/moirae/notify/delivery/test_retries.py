"""When messages are sent again."""

from datetime import timedelta

from moirae.notify.delivery.retries import MAX_AGE, MAX_REJECTIONS, decide_retry, find_delay


def test_pauses_double_up_to_a_maximum_and_honour_the_receiver() -> None:
    assert [find_delay(failures, None, 0.5) for failures in (1, 2, 3)] == [1, 2, 4]
    assert find_delay(50, None, 0.5) == 300
    assert find_delay(1, 90.0, 0.5) == 90
    assert 0.7 < find_delay(1, None, 0.0) < find_delay(1, None, 1.0) < 1.3


def test_message_that_its_receiver_refuses_is_given_up() -> None:
    def decide(attempts: int, is_rejected: bool, age: timedelta = timedelta(0)) -> float | None:
        return decide_retry(
            attempts=attempts, age=age, is_rejected=is_rejected, retry_after=None, random=0.5
        )

    assert decide(MAX_REJECTIONS - 1, True) is not None
    assert decide(MAX_REJECTIONS, True) is None
    assert decide(1000, False) is not None
    assert decide(1, False, MAX_AGE + timedelta(1)) is None
