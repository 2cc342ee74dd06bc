"""Isolation of what fails in a query that runs for many: it is repeated for parts of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def split_in_halves(items: Sequence[_Item], _error: Exception) -> list[Sequence[_Item]]:
    """Two halves; nothing if there is a single item."""
    if len(items) < 2:
        return []
    middle = len(items) // 2
    return [items[:middle], items[middle:]]


def split_into_items(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    """Each item as a part of its own; nothing if there is a single item."""
    if len(items) < 2:
        return []
    return [items[number : number + 1] for number in range(len(items))]


def run_isolated(
    items: Sequence[_Item],
    run: Callable[[Sequence[_Item]], _Result],
    errors: tuple[type[Exception], ...],
    split: Callable[[Sequence[_Item], Exception], Sequence[Sequence[_Item]]] = split_in_halves,
) -> Iterator[tuple[Sequence[_Item], _Result | Exception]]:
    """Run an action for all items; if it fails, for each of the parts that `split` returns.

    Yields each part with its result, in order and before the next part is run. A part that fails
    and is not split is yielded with its error. What `split` leaves out is not run. Errors other
    than `errors`, and those of `split`, are raised.
    """
    pending: list[Sequence[_Item]] = [items]
    while pending:
        part = pending.pop()
        outcome: _Result | Exception
        try:
            outcome = run(part)
        except errors as error:
            smaller_parts = split(part, error)
            if smaller_parts:
                pending.extend(reversed(smaller_parts))
                continue
            outcome = error
        yield part, outcome
