"""The changes that a stream declares: rows that say what was changed, and where."""

from collections.abc import Iterator, Mapping

from pydantic import Field

from moirae.documents.types import ConfigModel, Text, ValueProblem

_MAX_STEPS = 5


class DeclaredChanges(ConfigModel):
    """The rows of a stream are changes: deployments, configuration, flags, tickets.

    They are listed with alerts near them in time and place.
    """

    what: Text = Field(description="Column that says what was changed.", examples=["version"])
    where: dict[Text, Text] = Field(
        min_length=1,
        max_length=16,
        description="Place of the change: the name of a key column of rules, or of any kind of "
        "node in the relation topology, and the column that has it. A change whose columns are "
        "all NULL concerns every place.",
        examples=[{"host": "host", "service": "service"}],
    )
    steps: int = Field(
        default=1,
        ge=0,
        le=_MAX_STEPS,
        description="How many steps of the relation topology (source, target, kind) a change may "
        "be away from an alert.",
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys([self.what, *self.where.values()]))


def find_changes_problems(
    changes: DeclaredChanges, types: Mapping[str, str]
) -> Iterator[ValueProblem]:
    """Columns that do not exist. `types`: of the columns of the stream."""
    named: dict[tuple[str, ...], str] = {("what",): changes.what}
    named |= {("where", name): column for name, column in changes.where.items()}
    for path, column in named.items():
        if column not in types:
            yield ValueProblem(path, f"{column!r} is no column of the stream")
