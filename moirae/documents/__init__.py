"""YAML documents validated against models; every problem names its line and column.

`moirae.documents.types` has the base model and the field types of such models.
"""

from moirae.documents.reader import Document, ReadResult, format_path, parse_document, read_document
from moirae.documents.types import (
    KeyPath,
)
from moirae.documents.validation import sort_problems, validate
from moirae.documents.yaml_scalars import Position, format_value

__all__ = [
    "Document",
    "KeyPath",
    "Position",
    "ReadResult",
    "format_path",
    "format_value",
    "parse_document",
    "read_document",
    "sort_problems",
    "validate",
]
