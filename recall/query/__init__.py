"""SQL about an archive that is read piece by piece: shape, binding, lifting and splitting."""

from recall.query.bind import VALID_FROM, VALID_TO, PhysicalTables, bind_query
from recall.query.lift import (
    EID,
    EVENT_TS,
    HIGH,
    LOW,
    EventScope,
    LiftedQuery,
    TableBindings,
    attribute_column,
    lift_query,
    tables_used,
)
from recall.query.parts import EVENT
from recall.query.plain import (
    PANES_TABLE,
    DuckDBDialect,
    PanedQuery,
    PlainQuery,
    SparkDialect,
    to_plain,
)
from recall.query.scans import check_table_count
from recall.query.shape import (
    Shape,
    Tables,
    Unsupported,
    infer_shape,
    parse,
    tables_in,
    window_specs,
)
from recall.query.split import (
    LIST_KINDS,
    MERGED_TABLE,
    SKETCH_KINDS,
    VARIANCE_KINDS,
    Split,
    SplitAggregate,
    order_columns,
    split_query,
)

__all__ = [
    "DuckDBDialect",
    "EID",
    "EVENT",
    "EVENT_TS",
    "EventScope",
    "HIGH",
    "LIST_KINDS",
    "LOW",
    "LiftedQuery",
    "MERGED_TABLE",
    "PANES_TABLE",
    "PanedQuery",
    "PhysicalTables",
    "PlainQuery",
    "SKETCH_KINDS",
    "Shape",
    "SparkDialect",
    "Split",
    "SplitAggregate",
    "TableBindings",
    "Tables",
    "Unsupported",
    "VALID_FROM",
    "VALID_TO",
    "VARIANCE_KINDS",
    "attribute_column",
    "bind_query",
    "check_table_count",
    "infer_shape",
    "lift_query",
    "order_columns",
    "parse",
    "split_query",
    "tables_in",
    "tables_used",
    "to_plain",
    "window_specs",
]
