"""The only values of columns that can match in queries about events: other rows and files are skipped.

No I/O.
"""

from collections.abc import Collection, Mapping, Sequence

from recall.query.lift import LiftedQuery
from recall.requests import RecallEvent


def find_values(
    query: LiftedQuery,
    stream: str,
    columns: Mapping[str, str],
    attributes: Mapping[str, str],
    events: Collection[RecallEvent],
) -> dict[str, list[str]]:
    """By text column of a stream that a query compares with an attribute, the values of events, sorted.

    `columns`, `attributes`: of the stream and of the events, with their types.
    """
    values_by_column: dict[str, list[str]] = {}
    for filtered_stream, column, attribute in query.inputs.attribute_filters:
        is_text = columns.get(column) == attributes.get(attribute) == "string"
        if filtered_stream == stream and is_text:
            values = [event.attributes.get(attribute) for event in events]
            values_by_column[column] = sorted({value for value in values if isinstance(value, str)})
    return values_by_column


def join_values(parts: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, list[str]]:
    """The values of several queries, by column that each of them filters by, sorted."""
    joined: dict[str, list[str]] = {}
    for column in sorted(set.intersection(*map(set, parts))):
        values: set[str] = set()
        for part in parts:
            values.update(part[column])
        joined[column] = sorted(values)
    return joined
