"""The summaries that a stream declares."""

from collections.abc import Mapping

from pydantic import Field

from moirae.documents.types import ConfigModel, Text, ValueProblem

_KEY_TYPES = ("string", "boolean", "int", "bigint", "timestamp")
_MEASURED_TYPES = (*_KEY_TYPES, "float", "double")


class DeclaredSummary(ConfigModel):
    """A summary of the closed chunks of a stream, whether or not a rule asks for it."""

    key: tuple[Text, ...] = Field(
        default=(), max_length=16, description="Columns by whose values rows are summarised."
    )
    columns: tuple[Text, ...] = Field(
        default=(),
        max_length=64,
        description="Columns of which count, min and max are kept; of numbers also sum, average and "
        "standard deviation. The number of rows always is.",
    )


def find_summary_problems(
    summaries: tuple[DeclaredSummary, ...], types: Mapping[str, str]
) -> list[ValueProblem]:
    """Columns that do not exist, or cannot be summarised. `types`: of the columns of the stream."""
    problems: list[ValueProblem] = []
    for index, summary in enumerate(summaries):
        for field, allowed in (("key", _KEY_TYPES), ("columns", _MEASURED_TYPES)):
            for position, name in enumerate(getattr(summary, field)):
                if types.get(name) not in allowed:
                    types_text = ", ".join(allowed)
                    message = f"{name!r} is no column of the stream of type {types_text}"
                    problems.append(ValueProblem((index, field, position), message))
    return problems
