"""YAML documents validated against models; every problem names its line and column."""

from moirae.documents.reader import Document, ReadResult, format_path, parse_document, read_document
from moirae.documents.types import (
    ConfigModel,
    Flag,
    KeyPath,
    LabelName,
    NonNegativeInt,
    Number,
    PositiveInt,
    Sql,
    TableName,
    Text,
    TextNumberOrFlag,
    TextOrNumber,
    Title,
    discriminate_by_key,
    name_pattern,
    raise_problems,
)
from moirae.documents.validation import sort_problems, validate
from moirae.documents.yaml_scalars import Position, format_value

__all__ = [
    "ConfigModel",
    "Document",
    "Flag",
    "KeyPath",
    "LabelName",
    "NonNegativeInt",
    "Number",
    "Position",
    "PositiveInt",
    "ReadResult",
    "Sql",
    "TableName",
    "Text",
    "TextNumberOrFlag",
    "TextOrNumber",
    "Title",
    "discriminate_by_key",
    "format_path",
    "format_value",
    "name_pattern",
    "parse_document",
    "raise_problems",
    "read_document",
    "sort_problems",
    "validate",
]
