"""The rows of an event's contexts, in an order that does not depend on the engine. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from uuid import UUID

import orjson

from archiver.times import Micros, from_micros
from moirae.evaluation.contexts.queries import LiftedContextQuery
from sql.events import NewContextRow


class _TimedEvent(Protocol):
    @property
    def eid(self) -> UUID: ...

    @property
    def ts(self) -> Micros: ...


@dataclass(frozen=True)
class EventContexts:
    """The rows of an event's contexts and surroundings, by name.

    `truncated`: for each context with more than `MAX_ROWS` rows, how many it had.
    """

    MAX_ROWS: ClassVar[int] = 2_000
    """Rows of one context of one event. The first in the order of their JSON texts are kept."""

    contexts: Mapping[str, list[dict[str, Any]]]
    surroundings: Mapping[str, list[dict[str, Any]]]
    truncated: Mapping[str, int] = field(default_factory=dict)

    def to_row(
        self, rule: str, version: str, event: _TimedEvent, *, settled: bool
    ) -> NewContextRow:
        """The row that stores the contexts of an event."""
        return NewContextRow(
            rule=rule,
            version=version,
            eid=event.eid,
            ts=from_micros(event.ts),
            contexts=self.contexts,
            surroundings=self.surroundings,
            cut=self.truncated,
            settled=settled,
        )


def parse_contexts(
    queries: Sequence[LiftedContextQuery], rows: Mapping[str, Sequence[str]]
) -> EventContexts:
    """The contexts of an event. `rows`: as JSON texts in any order, by name of the context."""
    contexts: dict[str, list[dict[str, Any]]] = {}
    surroundings: dict[str, list[dict[str, Any]]] = {}
    truncated: dict[str, int] = {}
    for query in queries:
        # The same rows are the same context, in whatever order and notation an engine returns them.
        values = sorted(map(orjson.loads, rows.get(query.name, ())), key=orjson.dumps)
        if len(values) > EventContexts.MAX_ROWS:
            truncated[query.name] = len(values)
        values = values[: EventContexts.MAX_ROWS]
        if query.context_query.is_compared:
            contexts[query.name] = values
        else:
            surroundings[query.name] = values
    return EventContexts(contexts, surroundings, truncated)
