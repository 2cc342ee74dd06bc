"""What follows from the recalls of an event: the stages and the condition of its rule. No I/O.

A plan is stored with the event when its recalls are requested, so that recall processes need not
know rules, and the event is finished under the plan that it was started with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from graphlib import TopologicalSorter
from typing import Any, Literal

from archiver.times import Micros

Analysis = Literal["event", "present"]
# The types of columns, by name.
ColumnTypes = Mapping[str, str]

# The fields are keys of the stored JSON: do not rename them.


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A query over the event, answers of recalls, other stages and live streams.

    `inputs`: the recalls, stages, contexts and surroundings that it names, with the types of their
    columns; `coverage`: the columns besides these that it names, of what answers were computed from
    (`recall.query.answer_columns`), by recall. `streams`: the live streams that it needs, with
    their time columns; `derived`: derived streams with their SQL; `relations`: with the types of
    their columns. `within`, `delay`: event time before and after the event from which live rows are
    read; `present` analysis reads all later ones too. `row_key`: the columns that identify a row;
    None: all. `columns`: of the result.
    """

    name: str
    sql: str
    inputs: Mapping[str, ColumnTypes]
    columns: ColumnTypes
    row_key: tuple[str, ...] | None
    streams: Mapping[str, str] = field(default_factory=dict)
    relations: Mapping[str, ColumnTypes] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    within: Micros = 0
    delay: Micros = 0
    analysis: Analysis = "event"
    coverage: Mapping[str, ColumnTypes] = field(default_factory=dict)

    @property
    def tables(self) -> Mapping[str, ColumnTypes]:
        """The inputs with all their columns."""
        return {
            name: {**columns, **self.coverage.get(name, {})}
            for name, columns in self.inputs.items()
        }

    @property
    def reads_live_rows(self) -> bool:
        return bool(self.streams)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """The condition of a rule (`where`).

    `judged`: the recalls that it names, with the types of their columns. `attributes`: of the
    event, with Spark's types.
    """

    where: str
    judged: Mapping[str, ColumnTypes]
    attributes: ColumnTypes


@dataclass(frozen=True, kw_only=True)
class EventPlan:
    """What is derived from the answers about an event.

    `recalls`: the names of all recalls of the rule; `similar`: of those of past events.
    `needs_corpus`: whether some of them, or stages, read contexts, or some compare with events that
    may still enter the corpus. `every_event`: see `recall_on`. `every`: seconds between evaluations
    for new rows of live streams or contexts. `attributes`: of the event, with Spark's types.
    `key_types`: of the key columns that each row of an answer carries. `judged_coverage`: the recalls
    of which `where` names what their answers were computed from.
    """

    recalls: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    where: str | None = None
    judged: Mapping[str, ColumnTypes] = field(default_factory=dict)
    attributes: ColumnTypes = field(default_factory=dict)
    key_types: ColumnTypes = field(default_factory=dict)
    needs_corpus: bool = False
    every_event: bool = False
    every: float = 1.0
    judged_coverage: tuple[str, ...] = ()

    @property
    def covered_recalls(self) -> frozenset[str]:
        """The recalls of which stages or `where` read what their answers were computed from."""
        return frozenset(self.judged_coverage).union(*(stage.coverage for stage in self.stages))

    @property
    def condition(self) -> Condition | None:
        if self.where is None:
            return None
        return Condition(where=self.where, judged=self.judged, attributes=self.attributes)

    @property
    def is_evaluated(self) -> bool:
        """Whether anything follows from the answers."""
        return bool(self.stages) or self.where is not None

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "EventPlan":
        """The inverse of `to_json`."""
        fields = dict(stored)
        for name in ("recalls", "similar", "judged_coverage"):
            fields[name] = tuple(fields.get(name, ()))
        fields["stages"] = tuple(map(_parse_stage, fields.get("stages", ())))
        return cls(**fields)


# Nothing follows from the answers.
NO_PLAN = EventPlan()


def _parse_stage(stored: Mapping[str, Any]) -> Stage:
    fields = dict(stored)
    if fields["row_key"] is not None:
        fields["row_key"] = tuple(fields["row_key"])
    return Stage(**fields)


def order_stages(inputs_by_stage: Mapping[str, Sequence[str]]) -> list[str]:
    """The stages, each after those that it reads. Raises `graphlib.CycleError`.

    `inputs_by_stage`: what each stage reads; names that are no stages do not matter.
    """
    graph: dict[str, set[str]] = {}
    for name, inputs in inputs_by_stage.items():
        graph[name] = inputs_by_stage.keys() & set(inputs)
    # Independent stages in the order in which they are written.
    sorter = TopologicalSorter(graph)
    return list(sorter.static_order())
