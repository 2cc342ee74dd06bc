"""Decides which version of a table belongs to a state of the database."""

from collections.abc import Callable, Sequence

from archiver.delta import Commit


def choose_version(
    before: int,
    commits: Sequence[Commit],
    is_stream: bool,
    is_counted: Callable[[Commit], bool],
) -> int | None:
    """The version of a table at the moment at which a snapshot of the database was taken.

    `before`: the version before that moment; `commits`: those after it, up to a moment after the
    snapshot. `is_counted`: whether the snapshot knows that rows of an append are archived; the
    ledger counts them after their commit. So the version has all appends that the ledger counts,
    and otherwise only what was committed before the snapshot: as if the live process had been
    killed then. None: rows were changed meanwhile other than by appends, and it cannot be said
    before or after the snapshot: another one has to be taken.
    """
    version = before
    later: list[Commit] = []
    for commit in commits:
        if is_stream and commit.number is not None and is_counted(commit):
            version = commit.version
            later = []
        else:
            later.append(commit)
    for commit in later:
        is_append = is_stream and commit.number is not None
        if commit.changes_data and not is_append:
            return None
    return version
