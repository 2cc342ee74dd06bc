"""Lists of operations on the command line: their arguments, and pages up to the limit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.services import Operation, Workspace

Model = TypeVar("Model", bound=BaseModel)


def make_query(model: type[Model], **values: Any) -> Model:
    """The arguments of an operation. Raises `UsageError` for the first invalid value."""
    try:
        return model(**values)
    except ValidationError as error:
        from moirae.services import problems

        raise UsageError(problems.describe_invalid_argument(error.errors()[0])) from error


def collect_rows(
    services: "Workspace", operation: "Operation[..., Any]", query: Any, field: str, limit: int
) -> tuple[Sequence[Any], int]:
    """The first rows of a list, up to a limit, and how many more there are.

    `field`: the name of the rows in a page.
    """
    from moirae.services import MAX_PAGE_ROWS

    rows: list[Any] = []
    cursor = None
    while True:
        size = min(limit - len(rows), MAX_PAGE_ROWS)
        page = operation(services, query.model_copy(update={"limit": size, "cursor": cursor}))
        rows += getattr(page, field)
        cursor = page.next
        if cursor is None:
            return rows, 0
        if len(rows) >= limit:
            break
    # The number of all rows is counted only where the limit omits some.
    page = operation(services, query.model_copy(update={"limit": 1, "count": True}))
    return rows, max((page.total or 0) - len(rows), 0)
