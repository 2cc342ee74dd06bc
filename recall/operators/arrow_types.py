"""Arrow types for Spark's types."""

import pyarrow as pa
from sqlglot import exp

_DEFAULT_PRECISION = 10  # digits of a Spark decimal without arguments

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
    """The Arrow type for Spark's name of a type; None for types without one, such as intervals."""
    return _to_arrow(exp.DataType.build(name, dialect="spark", udt=True))


def _to_arrow(data_type: exp.DataType) -> pa.DataType | None:
    arguments = data_type.expressions
    if data_type.this == exp.DType.DECIMAL:
        if not arguments:
            return pa.decimal128(_DEFAULT_PRECISION, 0)
        precision, scale = arguments
        return pa.decimal128(int(precision.name), int(scale.name))
    if data_type.this == exp.DType.ARRAY:
        element_type = _to_arrow(arguments[0])
        return None if element_type is None else pa.list_(element_type)
    if data_type.this == exp.DType.STRUCT:
        return _to_struct(arguments)
    if data_type.this == exp.DType.MAP:
        key_type, value_type = map(_to_arrow, arguments)
        if key_type is None or value_type is None:
            return None
        return pa.map_(key_type, value_type)
    return _ARROW_TYPES.get(data_type.this)


def _to_struct(columns: list[exp.Expr]) -> pa.DataType | None:
    fields = []
    for column in columns:
        field_type = _to_arrow(column.args["kind"])
        if field_type is None:
            return None
        fields.append((column.name, field_type))
    return pa.struct(fields)
