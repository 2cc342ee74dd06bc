"""What `moirae status` says in words."""

from rich.console import Console

from moirae.cli.archive import _format_overload, _wrong
from moirae.cli.recalls import render_answer
from moirae.inspect.past_events import RecallAnswer


def test_a_storm_is_told_when_somebody_waits_long() -> None:
    waiting = {"waiting": 1234, "longest": 10.4, "with_answer": 1000}
    assert _format_overload(waiting) == (
        "; more are asked than can be answered at once: 1,234 wait, the first for 10 s, "
        "1,000 of them with a first answer"
    )
    assert _format_overload({**waiting, "longest": 9.9}) == ""


def test_an_answer_of_many_rows_tells_how_many_are_not_drawn() -> None:
    answer = RecallAnswer("r", "sql", "done", 1, None, [{"n": n} for n in range(1023)], None, None)
    console = Console(width=80)
    with console.capture() as printed:
        console.print(render_answer(answer))
    lines = [line.strip() for line in printed.get().splitlines()]
    assert [line for line in lines if line][-2:] == ["19", "… and 1,003 more (use -o json)"]


def test_findings_that_a_table_does_not_show_are_counted() -> None:
    assert _wrong(["a", "b"]) == "a; b"
    assert _wrong([str(n) for n in range(12)]).endswith("9; … and 2 more (use -o json)")
