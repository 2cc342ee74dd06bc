"""What streams, rules and contexts have processed since it was last stored."""

from collections.abc import Iterable, Mapping

from archiver.ingest import IngestResult
from moirae.evaluation import EventContexts, RuleCost
from sql.reports import FlowRow

_Key = tuple[str, str]  # of a context: the names of its rule and of itself


class FlowCounts:
    """Counts batches as they are processed; `take` returns what has come since its last call."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._stream_rows: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._context_rows: dict[_Key, int] = {}
        self._context_seconds: dict[_Key, float] = {}

    def add_rows(self, ingested: IngestResult) -> None:
        """Count the archived rows of a batch."""
        for stream, archived in ingested.archived.items():
            self._stream_rows[stream] = self._stream_rows.get(stream, 0) + archived.appended_rows

    def add_events(self, counts: Mapping[str, int]) -> None:
        """Count settled events, by rule: each is settled once."""
        for rule, count in counts.items():
            self._events[rule] = self._events.get(rule, 0) + count

    def add_contexts(self, computed: Iterable[tuple[str, EventContexts]], seconds: float) -> None:
        """Count contexts, by rule; the time that they took is divided by their rows, and one for each.

        What reads many rows to return few is charged too little: statements that several contexts
        share do not tell what each has read.
        """
        rows: dict[_Key, int] = {}
        for rule, event_contexts in computed:
            for queries in (event_contexts.contexts, event_contexts.surroundings):
                for name, context_rows in queries.items():
                    key = rule, name
                    rows[key] = rows.get(key, 0) + 1 + len(context_rows)
                    self._context_rows[key] = self._context_rows.get(key, 0) + len(context_rows)
        total = sum(rows.values())
        for key, count in rows.items():
            share = seconds * count / total
            self._context_seconds[key] = self._context_seconds.get(key, 0.0) + share

    def take(
        self,
        costs: Mapping[str, RuleCost],
        stream_bytes: Mapping[str, int],
        rule_bytes: Mapping[str, int],
    ) -> list[FlowRow]:
        """The figures since the last call, in the order in which they are stored."""
        flows = [
            FlowRow("context", "/".join(key), rows, seconds=self._context_seconds[key])
            for key, rows in self._context_rows.items()
        ]
        for rule in costs.keys() | self._events.keys() | rule_bytes.keys():
            seconds = costs[rule].seconds if rule in costs else 0.0
            events = self._events.get(rule, 0)
            flows.append(
                FlowRow("rule", rule, events, seconds=seconds, bytes=rule_bytes.get(rule, 0))
            )
        for stream, memory in stream_bytes.items():
            rows = self._stream_rows.get(stream, 0)
            if rows or memory:
                flows.append(FlowRow("stream", stream, rows, bytes=memory))
        self._clear()
        return sorted(flows, key=lambda flow: (flow.kind, flow.name))
