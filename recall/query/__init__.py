"""SQL over streams and their archive: parsing, shape, binding to tables, lifting to many events.

Three folders have front doors of their own: `recall.query.lift` rewrites a query about one event for
many events; `recall.query.split` takes a query apart into partial answers for each piece of history
and their merge; `recall.query.plain` writes queries of a common subset for Spark and for DuckDB.
`sql_names` holds the names of columns and tables that rewritten queries reserve.
"""

from recall.query import sql_names
from recall.query.answer_columns import (
    COVERAGE_TYPES,
    ESTIMATE_SUFFIXES,
    coverage_columns,
    named_columns,
)
from recall.query.bind import PhysicalTables, bind_query, write_landmark_views
from recall.query.extra import excludes_only_extra, reveal_extra
from recall.query.outputs import find_outputs
from recall.query.parsing import (
    EVENTS_PREFIX,
    Unsupported,
    find_table,
    find_tables_reached,
    order_columns,
    parse,
    read_query,
    rename_tables,
    tables_in,
    tables_used,
)
from recall.query.parts import (
    aggregates_of,
    clauses_of,
    common_tables,
    joins_of,
    sources_of,
)
from recall.query.plain_columns import find_plain_columns, reads_one_table
from recall.query.row_keys import row_key_columns
from recall.query.scans import check_table_count
from recall.query.shape import Shape, Tables, find_horizon, infer_shape
from recall.query.unique_rows import unique_columns
from recall.query.windows import window_specs

__all__ = [
    "COVERAGE_TYPES",
    "EVENTS_PREFIX",
    "ESTIMATE_SUFFIXES",
    "PhysicalTables",
    "Shape",
    "Tables",
    "Unsupported",
    "aggregates_of",
    "bind_query",
    "check_table_count",
    "clauses_of",
    "common_tables",
    "coverage_columns",
    "excludes_only_extra",
    "find_horizon",
    "find_outputs",
    "find_plain_columns",
    "reads_one_table",
    "find_table",
    "find_tables_reached",
    "infer_shape",
    "joins_of",
    "named_columns",
    "order_columns",
    "parse",
    "read_query",
    "rename_tables",
    "reveal_extra",
    "row_key_columns",
    "sources_of",
    "sql_names",
    "tables_in",
    "tables_used",
    "unique_columns",
    "window_specs",
    "write_landmark_views",
]
