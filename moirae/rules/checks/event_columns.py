"""The columns of event queries."""

from pyspark.sql.types import StructType, TimestampType

from recall.errors import QueryRejected


def require_time_column(schema: StructType) -> None:
    types_by_name = {field.name.lower(): field.dataType for field in schema.fields}
    if "ts" not in types_by_name:
        raise QueryRejected("the query result has no column ts; select the event time AS ts")
    if not isinstance(types_by_name["ts"], TimestampType):
        actual = types_by_name["ts"].simpleString()
        raise QueryRejected(f"column ts must be a timestamp, not {actual}")
