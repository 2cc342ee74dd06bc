"""Spark's types as Arrow's."""

import pyarrow as pa
from sqlglot import exp

_ARROW_TYPES: dict[exp.DType, pa.DataType] = {
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
    exp.DType.BINARY: pa.binary(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPLTZ: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}


def arrow_type(name: str) -> pa.DataType | None:
    """The Arrow type of what Spark calls so; None for one that is not known here (intervals, …)."""
    return _to_arrow(exp.DataType.build(name, dialect="spark", udt=True))


def _to_arrow(kind: exp.DataType) -> pa.DataType | None:
    inner = kind.expressions
    if kind.this == exp.DType.DECIMAL:
        precision, scale = (int(one.name) for one in inner) if inner else (10, 0)
        return pa.decimal128(precision, scale)
    if kind.this == exp.DType.ARRAY:
        item = _to_arrow(inner[0])
        return None if item is None else pa.list_(item)
    if kind.this == exp.DType.STRUCT:
        fields = [(one.name, _to_arrow(one.args["kind"])) for one in inner]
        return None if any(one is None for _, one in fields) else pa.struct(fields)
    if kind.this == exp.DType.MAP:
        key, value = (_to_arrow(one) for one in inner)
        return None if key is None or value is None else pa.map_(key, value)
    return _ARROW_TYPES.get(kind.this)
