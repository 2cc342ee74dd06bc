"""Models of the similarity measure `learned`."""

from dataclasses import dataclass

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class LearnedModelRow:
    """A model without its arrays.

    `learned_until`: the time of the newest event that it has learned from, in microseconds.
    `resolutions`: how many events it has learned from.
    """

    id: int
    learned_until: int
    resolutions: int


class LearnedModelGateway(Gateway):
    """Models, identified by rule, version and recall; see `recall.learning`."""

    queries = "learned_models"

    def add(
        self,
        recall: tuple[str, str, str],
        *,
        learned_until: int,
        resolutions: int,
        arrays: bytes,
        format: int,
    ) -> int:
        """Store a model of a recall (rule, version, name); returns its ID.

        `format`: of the arrays.
        """
        rule, version, name = recall
        return int(
            self._value(
                "add",
                rule=rule,
                version=version,
                recall=name,
                learned_until=learned_until,
                resolutions=resolutions,
                arrays=arrays,
                format=format,
            )
        )

    def find_usable(
        self, recall: tuple[str, str, str], *, before: int, format: int
    ) -> LearnedModelRow | None:
        """The newest model of a recall (rule, version, name) that has learned from no event at or
        after `before`, with arrays of this format; None: there is none.
        """
        rule, version, name = recall
        return self._record(
            LearnedModelRow,
            "find_usable",
            rule=rule,
            version=version,
            recall=name,
            before=before,
            format=format,
        )

    def get_arrays(self, id: int) -> bytes | None:
        """The arrays of a model; None if it was deleted."""
        arrays: bytes | None = self._value("get_arrays", id=id)
        return arrays

    def delete_superseded(self, rule: str, version: str, recall: str) -> None:
        """Delete models that no answer names and that are not the last of their day."""
        self._execute("delete_superseded", rule=rule, version=version, recall=recall)
