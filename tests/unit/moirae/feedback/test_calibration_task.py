"""When models are built again."""

from moirae.feedback import calibration_task


def test_waiting_tags_count_within_a_minute_and_take_a_tenth_of_the_time() -> None:
    check = calibration_task._CHECK_INTERVAL
    assert calibration_task.waiting_interval(2.0) + check <= 60
    assert calibration_task.waiting_interval(60.0) == 600
