"""The field of records by which the source of a stream closes event time."""

from collections.abc import Mapping

from moirae.config.columns import Column


def check_punctuation(
    name: str, record_format: str, columns: Mapping[str, str | Column], time: str
) -> str:
    """The field, if no column uses it, and the event time is read from one plain field.

    `columns`: as declared; `time`: the column with the event time. Raises ValueError.
    """
    if record_format != "jsonl":
        raise ValueError("only records in format jsonl close event time")
    for column, declared in columns.items():
        fields = _read_fields(column, declared)
        if name in fields:
            raise ValueError(f"field {name!r} is read by column {column}")
        if column == time and any(mark in fields[-1] for mark in ".["):
            raise ValueError(
                f"the event time is not read from a plain field, but from {fields[-1]}"
            )
    return name


def _read_fields(column: str, declared: str | Column) -> tuple[str, ...]:
    """The fields that a column is read from, and its name."""
    if isinstance(declared, str) or declared.from_ is None:
        return (column,)
    declared_fields = declared.from_
    first_field = declared_fields if isinstance(declared_fields, str) else declared_fields[0]
    further_fields = () if isinstance(declared_fields, str) else declared_fields[1:]
    return (column, *further_fields, first_field)
