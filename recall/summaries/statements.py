"""SQL of DuckDB that computes the rows of a summary: of a chunk, and of several nodes as one."""

from typing import TYPE_CHECKING

import pyarrow as pa

from recall.query import parse
from recall.query.plain import to_duckdb_sql
from recall.statements import scan_files
from recall.summaries.model import KeptAggregate, SummaryShape

if TYPE_CHECKING:
    from archiver.read import StreamSnapshot
    from archiver.time_range import TimeRange

NODES_TABLE = "_nodes"
_ROWS = "_summarised"


def summarise_rows(shape: SummaryShape, snapshot: "StreamSnapshot", time_range: "TimeRange") -> str:
    """A query of the groups of the rows of files within a range, sorted by dimensions."""
    outputs: list[str] = []
    for number, dimension in enumerate(shape.dimensions):
        outputs.append(f"{dimension} AS d{number}")
    for text, column in shape.measure_columns.items():
        outputs.append(f"{text} AS {column}")
    query = f"SELECT {', '.join(outputs) or '1'} FROM {_ROWS}"
    if shape.conditions:
        query += f" WHERE {' AND '.join(map('({})'.format, shape.conditions))}"
    if shape.dimensions:
        query += f" GROUP BY {', '.join(shape.dimensions)}"
    bounds = ["true"]
    for comparison, bound in ((">=", time_range.start), ("<", time_range.end)):
        if bound is not None:
            bounds.append(f'"{shape.time}" {comparison} make_timestamptz({bound})')
    rows = f"SELECT * FROM {scan_files(snapshot)} WHERE {' AND '.join(bounds)}"
    return f"WITH {_ROWS} AS ({rows}) {to_duckdb_sql(parse(query))}{_order(shape)}"


def merge_nodes(shape: SummaryShape) -> str:
    """A query of the rows of `_nodes`, those of several nodes, as those of one node."""
    dimensions = [f"d{number}" for number in range(len(shape.dimensions))]
    totals: list[str] = []
    outputs = list(dimensions)
    partition = f"PARTITION BY {', '.join(dimensions)}" if dimensions else ""
    columns = shape.measure_columns
    for measure in shape.ordered_measures:
        column = columns[measure.text]
        if measure.kind == "squares":
            count, total = columns[measure.count], columns[measure.total]
            totals.append(f"sum({total}) OVER w / sum({count}) OVER w AS mean_{column}")
        outputs.append(f"{_merge_measure(measure, shape)} AS {column}")
    source = NODES_TABLE
    if totals:
        source = f"(SELECT *, {', '.join(totals)} FROM {NODES_TABLE} WINDOW w AS ({partition}))"
    group = f" GROUP BY {', '.join(dimensions)}" if dimensions else ""
    return f"SELECT {', '.join(outputs)} FROM {source}{group}{_order(shape)}"


def _merge_measure(measure: KeptAggregate, shape: SummaryShape) -> str:
    """Squared differences from the mean of a part are corrected for the mean of all."""
    columns = shape.measure_columns
    column = columns[measure.text]
    if measure.kind != "squares":
        return f"{measure.kind}({column})"
    count, total = columns[measure.count], columns[measure.total]
    shift = f"{total} / {count} - mean_{column}"
    correction = f"CASE WHEN {count} > 0 THEN {count} * ({shift}) * ({shift}) END"
    return f"sum({column}) + sum({correction})"


def _order(shape: SummaryShape) -> str:
    dimensions = [f"d{number}" for number in range(len(shape.dimensions))]
    return f" ORDER BY {', '.join(dimensions)}" if dimensions else ""


def with_stored_types(shape: SummaryShape, rows: pa.Table) -> pa.Table:
    """Rows with the types that partial answers have: those of Spark. Raises `pa.ArrowException`."""
    sums = set()
    for measure in shape.ordered_measures:
        if measure.kind in ("sum", "squares"):
            sums.add(shape.measure_columns[measure.text])
    fields = []
    for field in rows.schema:
        arrow_type = field.type
        if pa.types.is_decimal(arrow_type):
            arrow_type = pa.int64()
        elif pa.types.is_floating(arrow_type) and field.name in sums:
            arrow_type = pa.float64()
        elif pa.types.is_timestamp(arrow_type):
            arrow_type = pa.timestamp("us", tz="UTC")
        fields.append(pa.field(field.name, arrow_type))
    return rows.cast(pa.schema(fields))
