"""The query of a stage, rewritten for many events at once. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from recall.engines.pending_events import PLAIN_TYPES
from recall.errors import SparkRequired
from recall.event_plans import ColumnTypes, EventPlan, Stage
from recall.query import PhysicalTables, Tables, Unsupported
from recall.query.lift import EventScope, LiftedQuery, TableBindings, lift_query
from recall.query.plain import check_stage_select, to_duckdb_sql

PENDING_TABLE = "_pending"


def input_table(name: str) -> str:
    """The name under which a table can be read."""
    return f"_in_{name}"


def derived_input_table(name: str) -> str:
    """The name under which derived streams read a stream: its rows span more time."""
    return f"_on_time_{name}"


@dataclass(frozen=True)
class StageQuery:
    """A stage of a plan. `stream_columns`: of the declared streams, with Spark's types."""

    stage: Stage
    attributes: ColumnTypes
    stream_columns: Mapping[str, ColumnTypes]

    @cached_property
    def lifted(self) -> LiftedQuery:
        """The query over the pending events. Raises `Unsupported`."""
        stage = self.stage
        tables = Tables(stage.streams, frozenset(stage.relations), stage.derived)
        scope = EventScope(tables, tuple(self.attributes), frozenset(stage.inputs), stage.coverage)
        names = (*stage.inputs, *stage.streams, *stage.relations)
        physical = {name: input_table(name) for name in names}
        derived_inputs = {name: derived_input_table(name) for name in stage.streams}
        derived_inputs |= {name: input_table(name) for name in stage.relations}
        bindings = TableBindings(
            PhysicalTables(physical), PhysicalTables(derived_inputs), PENDING_TABLE
        )
        return lift_query(stage.sql, scope, bindings)

    @cached_property
    def duckdb_sql(self) -> str | SparkRequired:
        """The query in DuckDB's SQL, or why it needs Spark."""
        stage = self.stage
        columns = {name.lower(): types for name, types in stage.tables.items()}
        columns |= {name.lower(): types for name, types in stage.relations.items()}
        for name in stage.streams:
            columns[name.lower()] = self.stream_columns.get(name, {})
        try:
            for name, type_name in self.attributes.items():
                if type_name not in PLAIN_TYPES:
                    raise SparkRequired(f"attribute {name} of type {type_name}")
            if self.lifted.inputs.derived:
                raise SparkRequired("derived streams")
            check_stage_select(stage.sql, stage.columns, self.attributes, columns)
            query = self.lifted.query.copy()
        except Unsupported as error:
            return SparkRequired(str(error))
        except SparkRequired as reason:
            return reason
        for node in list(query.find_all(exp.ArgMax, exp.ArgMin)):
            # As Spark: a row whose value is NULL may have the greatest order.
            name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
            arguments = [node.this.copy(), node.expression.copy()]
            node.replace(exp.Anonymous(this=name, expressions=arguments))
        return to_duckdb_sql(query)


def stage_queries(
    plan: EventPlan, stream_columns: Mapping[str, ColumnTypes]
) -> dict[str, StageQuery]:
    """The queries of the stages of a plan, by stage."""
    return {stage.name: StageQuery(stage, plan.attributes, stream_columns) for stage in plan.stages}


def explain_stage_engine(query: StageQuery) -> tuple[str, str]:
    """The engine of a stage where both are allowed, and why."""
    statement = query.duckdb_sql
    if isinstance(statement, SparkRequired):
        return "spark", str(statement)
    return "recall process", "SQL that means the same in both engines"
