"""The Recall Manager over a history in chunks: what becomes of tasks, whoever works on them."""

from collections.abc import Iterator

import pytest

from tests.integration.history import History, go_on, history


@pytest.fixture(scope="module")
def _history() -> Iterator[History]:
    with history(chunks=20, rows=50) as made:
        yield made


@pytest.fixture
def past(_history: History) -> History:
    _history.connection.execute("TRUNCATE tasks, revisions, commands")
    return _history


def test_answers_get_better_until_they_are_final(past: History) -> None:
    tasks = [past.ask(number, host=number % 4) for number in range(1, 5)]
    with past.manager(workers=2) as manager:
        go_on(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    for number, task in enumerate(tasks, start=1):
        revisions = past.revisions(task)
        assert [one["number"] for one in revisions] == list(range(1, len(revisions) + 1))
        assert revisions[-1]["answer"] == [past.whole(number % 4)]
        assert revisions[-1]["coverage"]["final"] and not revisions[0]["coverage"]["final"]
