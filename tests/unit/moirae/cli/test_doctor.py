"""The table of `moirae doctor`."""

from moirae.cli.doctor import format_problems


def test_few_problems_are_all_shown() -> None:
    assert format_problems(["a", "b"]) == "a; b"
    assert format_problems([]) == ""


def test_problems_that_do_not_fit_are_counted() -> None:
    text = format_problems([str(number) for number in range(12)])
    assert text.endswith("8; 9; … and 2 more (use -o json)")
