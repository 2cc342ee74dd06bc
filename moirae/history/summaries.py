"""The summaries of closed chunks that applied rules and declared streams want."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

import sql
from archiver.delta import StreamSchema
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.evaluation.plan import ActiveRule
from moirae.rules.requests import build_questions
from recall.engines import Template
from recall.errors import NotSummarised
from recall.query import Unsupported
from recall.requests import SqlQuestion
from recall.summaries import SummaryShape, declared_shape, find_use
from sql.archive import SummaryRow


class WantedSummaries:
    """Returns the summaries to keep; with each, whether whatever it costs. For one thread."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], sql.Connection],
        schemas: Sequence[StreamSchema],
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._columns = {schema.name: schema.query_columns for schema in schemas}
        self._revision: int | None = None
        self._wanted: dict[SummaryShape, bool] = {}

    @cached_property
    def _registry(self) -> RuleRegistry:
        return RuleRegistry(self._connect())

    def __call__(self) -> Mapping[SummaryShape, bool]:
        revision = self._registry.revision()
        if revision != self._revision:
            self._wanted = dict(self._list_declared())
            for question in self._list_questions():
                with suppress(NotSummarised, Unsupported):
                    shape = find_shape(question, self._columns)
                    is_required = question.summary == "on"
                    self._wanted[shape] = self._wanted.get(shape, False) or is_required
            self._revision = revision
        return self._wanted

    def _list_declared(self) -> Iterator[tuple[SummaryShape, bool]]:
        for name, stream in self._settings.streams.items():
            for declared in stream.summaries:
                yield (
                    declared_shape(
                        name, stream.time, stream.query_columns, declared.key, declared.columns
                    ),
                    True,
                )

    def _list_questions(self) -> Iterator[SqlQuestion]:
        for definition in self._registry.rules_with_recalls():
            if not definition.spec.enabled:
                continue
            with suppress(Unsupported):  # a rule over a stream that the workspace has no longer
                rule = ActiveRule.of_workspace(definition, self._settings)
                for question in build_questions(definition, rule.tables).values():
                    if isinstance(question, SqlQuestion):
                        yield question


def find_shape(question: SqlQuestion, columns: Mapping[str, Mapping[str, str]]) -> SummaryShape:
    """The summary that answers a recall. Raises `NotSummarised` and `Unsupported`.

    `columns`: of each stream those that queries may name, with their types.
    """
    template = Template(question)
    own_columns: Mapping[str, str] = {}
    for stream in template.partial.inputs.streams:
        own_columns = columns.get(stream, {})
    return find_use(template, own_columns).shape


def explain_summary(
    question: SqlQuestion,
    columns: Mapping[str, Mapping[str, str]],
    recorded: Sequence[SummaryRow] = (),
) -> str:
    """Which summary answers a recall, or why none does. `recorded`: what the builder has recorded."""
    try:
        shape = find_shape(question, columns)
    except NotSummarised as reason:
        return f"none: {reason}"
    text = "closed chunks"
    if shape.dimensions:
        text += f" by {', '.join(shape.dimensions)}"
    if shape.conditions:
        text += f", of rows with {' AND '.join(shape.conditions)}"
    for row in recorded:
        definition = row.definition
        if (
            row.stream == shape.stream
            and tuple(definition["dimensions"]) == shape.dimensions
            and tuple(definition["conditions"]) == shape.conditions
            and row.loss is not None
        ):
            return f"none: it would cost more than it saves: {row.loss}"
    if question.summary == "on":
        return f"{text}; kept whatever it costs"
    return f"{text}; kept as long as it saves more than it costs"
