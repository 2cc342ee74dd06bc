"""Messages of errors about files."""

import pytest

from moirae.errors import Problem, ProblemsError


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a.yaml", 3, 7, "unknown key"), "a.yaml:3:7: unknown key"),
        (Problem("a.yaml", 3, None, "unknown key"), "a.yaml:3: unknown key"),
        (Problem("a.yaml", None, None, "empty"), "a.yaml: empty"),
        (Problem("a.yaml", 1, 2, "unused", "warning"), "a.yaml:1:2: warning: unused"),
    ],
)
def test_problem_starts_with_its_position(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_error_lists_all_problems() -> None:
    problems = [Problem("a.yaml", 1, 1, "x"), Problem("b.yaml", None, None, "y")]
    error = ProblemsError(iter(problems))
    assert str(error) == "a.yaml:1:1: x\nb.yaml: y"
    assert error.problems == tuple(problems)
