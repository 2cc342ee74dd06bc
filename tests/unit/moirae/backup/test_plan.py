"""Which version of a table belongs to a snapshot of the database."""

from collections.abc import Sequence

import pytest

from archiver.delta import Commit
from moirae.backup.plan import choose_version


def _append(version: int) -> Commit:
    return Commit(version, number=version, changes_data=True, added=[])


def _rewrite(version: int) -> Commit:
    return Commit(version, number=None, changes_data=False, added=[])


def _deletion(version: int) -> Commit:
    return Commit(version, number=None, changes_data=True, added=[])


@pytest.mark.parametrize(
    ("commits", "counted", "version"),
    [
        ([], set(), 7),
        ([_append(8), _append(9)], set(), 7),
        ([_append(8), _append(9)], {8}, 8),
        # An append that is not counted, before one that is: its unit is read again.
        ([_append(8), _append(9)], {9}, 9),
        ([_rewrite(8), _append(9)], set(), 7),
        ([_append(8), _rewrite(9), _append(10)], {8}, 8),
        # Before a counted append, everything was before the snapshot.
        ([_deletion(8), _append(9)], {9}, 9),
        ([_append(8), _deletion(9)], {8}, None),
        ([_deletion(8)], set(), None),
    ],
)
def test_version_has_what_the_ledger_counts(
    commits: Sequence[Commit], counted: set[int], version: int | None
) -> None:
    def is_counted(commit: Commit) -> bool:
        return commit.version in counted

    assert choose_version(7, commits, True, is_counted) == version


@pytest.mark.parametrize(
    ("commits", "version"), [([], 7), ([_rewrite(8)], 7), ([_append(8)], None)]
)
def test_other_tables_must_not_change(commits: Sequence[Commit], version: int | None) -> None:
    assert choose_version(7, commits, False, lambda commit: True) == version
