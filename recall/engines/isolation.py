"""Isolation of what fails in a query that runs for many: it is repeated for parts of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def split_in_halves(items: Sequence[_Item], _error: Exception) -> list[Sequence[_Item]]:
    """Two halves; one part if there is a single item."""
    middle = len(items) // 2
    return [half for half in (items[:middle], items[middle:]) if half]


def run_isolated(
    items: Sequence[_Item],
    run: Callable[[Sequence[_Item]], _Result],
    errors: tuple[type[Exception], ...],
    split: Callable[[Sequence[_Item], Exception], Sequence[Sequence[_Item]]] = split_in_halves,
) -> Iterator[tuple[Sequence[_Item], _Result | Exception]]:
    """Run an action for all items; if it fails, for each of the parts that `split` returns.

    Yields each part with its result, in order. A part that fails and is not split into at least two
    is yielded with its error. Errors other than `errors` are raised.
    """
    pending: list[Sequence[_Item]] = [items]
    while pending:
        part = pending.pop()
        outcome: _Result | Exception
        try:
            outcome = run(part)
        except errors as error:
            smaller_parts = split(part, error)
            if len(smaller_parts) > 1:
                pending.extend(reversed(smaller_parts))
                continue
            outcome = error
        yield part, outcome
