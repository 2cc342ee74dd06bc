"""What `moirae status` says in words."""

from moirae.cli.archive import _format_overload


def test_a_storm_is_told_when_somebody_waits_long() -> None:
    waiting = {"waiting": 1234, "longest": 10.4, "with_answer": 1000}
    assert _format_overload(waiting) == (
        "; more are asked than can be answered at once: 1,234 wait, the first for 10 s, "
        "1,000 of them with a first answer"
    )
    assert _format_overload({**waiting, "longest": 9.9}) == ""
